"""Keep, score again or measure: the table of what differs and what it costs, row by row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_battery.doing.planning import Models, Plan, decide
from pytest_battery.edges.store.reading import Problem
from pytest_battery.errors import CallError, NewerSchemaError, ProviderError
from pytest_battery.values.cases import Case
from pytest_battery.values.fingerprints import PARTS, Fingerprint
from pytest_battery.values.permutations import Cell, Lane, Permutation
from pytest_battery.values.records import Environment, Record, RunError, ScorerSeen, StackSeen, SubjectSeen
from pytest_battery.values.subjects import parse_subject

MEASURED = datetime(2026, 7, 29, tzinfo=UTC)
LANE = Lane(Permutation(Cell("t", parse_subject("fake/m")), Case("a"), 1), 1)
NOW = Fingerprint(prompt="p", case="c", corpus="o", stack="s", model="m")


def record(**more: Any) -> Record:
    fields: dict[str, Any] = {
        "task": "t",
        "case": "a",
        "run": 1,
        "subject": SubjectSeen(key="fake/m", ref="fake/m"),
        "stack": StackSeen(key="none"),
        "fingerprint": NOW,
        "scorer": ScorerSeen(name="matchers", sha="now"),
        "measured_at": MEASURED,
        "wall_ms": 1,
        "state": "valid",
        "reply": "yes",
        "environment": Environment(plugin="0", python="3"),
    }
    return Record(**{**fields, **more})


def error(kind: str, fault: Any) -> dict[str, Any]:
    return {"state": "invalid", "error": RunError(kind=kind, fault=fault, message="x")}


OLD_SCORER = {"scorer": ScorerSeen(name="matchers", sha="old")}
TABLE: dict[str, tuple[Any, str, str]] = {
    "nothing differs": (record(), "keep", "fresh"),
    "another plugin, python and machine": (
        record(environment=Environment(plugin="9", python="4", cpu=1), measured_at=datetime(2000, 1, 1, tzinfo=UTC)),
        "keep",
        "fresh",
    ),
    "the scorer": (record(**OLD_SCORER), "re-score", "the scorer changed"),
    "the scorer, and the reply was cut": (record(**OLD_SCORER, reply_cut=True), "re-score", "the scorer changed"),
    "no record": (None, "measure", "missing"),
    "a half file": (
        Problem(Path("x/a-1.json"), "half-written", "is not whole JSON"),
        "measure",
        "a-1.json is not whole JSON",
    ),
    "invalid: the model's provider": (
        record(reply=None, **error("http-500", "infrastructure")),
        "measure",
        "invalid: http-500",
    ),
    "invalid: knobs": (record(**error("knob-mismatch", "us")), "measure", "invalid: knob-mismatch"),
    "invalid: a Python test that raised": (
        record(reply=None, **error("test-raised", "task")),
        "measure",
        "invalid: test-raised",
    ),
    "invalid: a Python test that asked nothing": (
        record(**OLD_SCORER, **error("no-call", "task")),
        "measure",
        "invalid: no-call",
    ),
    "invalid, nobody knows why": (record(reply=None, state="invalid"), "measure", "invalid: no error kept"),
    "invalid: a scorer that has been mended": (
        record(**OLD_SCORER, **error("scorer-failed", "task")),
        "re-score",
        "the scorer changed",
    ),
    "invalid: the same scorer, which may have wanted for a file": (
        record(**error("contract", "task")),
        "re-score",
        "not graded: contract",
    ),
}


@pytest.mark.parametrize("differs", TABLE)
def test_what_differs_decides_what_is_done(differs: str) -> None:
    found, action, why = TABLE[differs]
    decision = decide(LANE, found, NOW, "now")
    assert (decision.action, decision.why, decision.changed, decision.stale) == (action, why, (), False)
    assert decision.record is (found if isinstance(found, Record) else None)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("state", [{}, OLD_SCORER, error("contract", "task")], ids=["valid", "old scorer", "invalid"])
def test_a_part_of_the_fingerprint_that_changed_is_named(part: str, state: dict[str, Any]) -> None:
    old = record(fingerprint=NOW.model_copy(update={part: "before"}), **state)
    decision = decide(LANE, old, NOW, "now")
    assert (decision.action, decision.why, decision.changed) == ("measure", f"stale: {part} changed", (part,))
    assert decision.stale
    assert decision.record is old


def test_every_part_that_changed_is_named() -> None:
    decision = decide(LANE, record(fingerprint=Fingerprint(prompt="", case="")), NOW, "now")
    assert decision.why == "stale: prompt, case, corpus, stack, model changed"


@pytest.mark.parametrize("state", [OLD_SCORER, error("contract", "task")], ids=["old scorer", "invalid"])
def test_a_cut_reply_without_its_evidence_cannot_be_scored_again(state: dict[str, Any]) -> None:
    decision = decide(LANE, record(reply_cut=True, **state), NOW, "now", whole=False)
    assert decision.action == "measure"
    assert decision.why == "the scorer changed and the evidence with the whole reply is missing"
    assert decision.stale


def test_a_cut_reply_without_its_evidence_is_kept_while_nothing_changed() -> None:
    assert decide(LANE, record(reply_cut=True), NOW, "now", whole=False).action == "keep"


def test_a_record_without_a_reply_cannot_be_scored_again() -> None:
    assert decide(LANE, record(reply=None, **OLD_SCORER), NOW, "now").action == "measure"


@pytest.mark.parametrize(("age", "action"), [(1, "measure"), (0, "keep"), (-1, "keep")])
def test_refresh_measures_again_what_is_older_than_the_session(age: int, action: str) -> None:
    decision = decide(LANE, record(), NOW, "now", refresh=MEASURED + timedelta(seconds=age))
    assert decision.action == action
    assert not decision.stale


def test_refresh_does_not_hide_why_something_is_measured_anyway() -> None:
    refresh = MEASURED + timedelta(seconds=1)
    stale = record(fingerprint=NOW.model_copy(update={"prompt": "before"}))
    assert decide(LANE, stale, NOW, "now", refresh=refresh).why == "stale: prompt changed"
    assert decide(LANE, None, NOW, "now", refresh=refresh).why == "missing"


# -- the same with real task files and records -------------------------------------------------------


def action(bench: Any, prepared: Any, **more: Any) -> tuple[str, tuple[str, ...]]:
    (decision,) = bench.decide(prepared, bench.permutation(prepared, **more))
    return decision.action, decision.changed


def test_a_second_session_keeps_everything(bench: Any) -> None:
    bench.measure(bench.prepared(), runs=2)
    results = bench.measure(bench.prepared(), runs=2)
    assert [result.how for result in results] == ["kept", "kept"]
    assert len(bench.calls) == 2


RESCORED = {
    "an option": ({'contains = "{{ case.expected }}"': 'regex = "^{{ case.expected }}$"'}, ""),
    "another option beside it": ({"[metrics.correct]": "ignore_case = true\n\n[metrics.correct]"}, ""),
    "a metric newly promised": (
        {"[metrics.correct]": '[metrics.contains]\nbetter = "higher"\n\n[metrics.correct]'},
        "",
    ),
    "what a case expects": ({'expected = "yes"': 'expected = "no"'}, ""),
    "a field no prompt reads": ({}, "note = 'new'\n"),
}


@pytest.mark.parametrize("kind", RESCORED)
def test_what_only_grading_depends_on_is_scored_again_without_a_call(bench: Any, kind: str) -> None:
    edits, more = RESCORED[kind]
    first = bench.one(bench.prepared())
    changed = bench.prepared(edits, more)
    (result,) = bench.measure(changed)
    assert result.how == "re-scored"
    assert len(bench.calls) == 1
    assert result.record.metrics["correct"] is (kind != "what a case expects")
    assert (result.record.measured_at, result.record.reply) == (first.measured_at, "yes")
    assert result.record == bench.stored(changed)
    assert action(bench, changed) == ("keep", ())


def test_a_project_scorer_that_is_edited_scores_again(bench: Any) -> None:
    from pytest_battery.doing.preparing import prepare
    from pytest_battery.scoring import Registry

    scorers = bench.root / "scorers"
    scorers.mkdir()
    edits = {'use = "matchers"': 'use = "mine"', 'contains = "{{ case.expected }}"': ""}
    found = []
    for source in ("True", "False"):
        (scorers / "mine.py").write_text(f"def score(case, view):\n    return {{'correct': {source}}}\n")
        bench.scorers = {}
        with pytest.raises(Exception, match="no scorer 'mine'"):
            bench.prepared(edits)
        prepared = prepare(bench.root / "t.toml", bench.root, Registry().with_project(scorers))
        (result,) = bench.measure(prepared)
        found.append((result.how, result.record.metrics))
    assert found == [("measured", {"correct": True}), ("re-scored", {"correct": False})]
    assert len(bench.calls) == 1


STALE = {
    "the prompt": ({"Say {{": "Please say {{"}, ("prompt",)),
    "something appended": ({"timeout = 60": 'timeout = 60\nappend = "Only that."'}, ("prompt",)),
    "a system prompt": ({"timeout = 60": 'timeout = 60\nsystem = { text = "You speak." }'}, ("prompt",)),
    "the output schema": ({"timeout = 60": "timeout = 60\noutput = { json_schema = {} }"}, ("prompt",)),
    "a field the prompt reads": ({'word = "yes"': 'word = "no"'}, ("prompt", "case")),
    "a field the prompt reads more of": ({"Say {{ case.word }}.": "{{ case.id and 'Say yes.' }}"}, ("case",)),
}


@pytest.mark.parametrize("kind", STALE)
def test_what_the_model_is_asked_makes_stale(bench: Any, kind: str) -> None:
    edits, parts = STALE[kind]
    bench.measure(bench.prepared())
    changed = bench.prepared(edits)
    assert action(bench, changed) == ("measure", parts)
    assert bench.one(changed).fingerprint != bench.one(bench.prepared()).fingerprint
    assert len(bench.calls) == 3


def test_other_weights_make_stale(bench: Any) -> None:
    bench.identity = {"sha256": "one", "slots": 4}
    bench.measure(bench.prepared())
    bench.identity = {"slots": 4, "sha256": "one"}
    assert action(bench, bench.prepared()) == ("keep", ())
    bench.identity = {"sha256": "two", "slots": 4}
    assert action(bench, bench.prepared()) == ("measure", ("model",))


def test_the_title_the_timeout_and_the_tags_change_nothing(bench: Any) -> None:
    bench.measure(bench.prepared())
    assert action(bench, bench.prepared({'"Say it"': '"Else"', "timeout = 60": "timeout = 9\ntags = ['x']"})) == (
        "keep",
        (),
    )


@pytest.mark.parametrize("other", ["fake/m@temperature=0", "fake/m:low", "fake/n"])
def test_subjects_that_differ_in_anything_never_share_a_record(bench: Any, other: str) -> None:
    bench.measure(bench.prepared())
    assert action(bench, bench.prepared(), subject=other) == ("measure", ())
    assert action(bench, bench.prepared(), subject="fake/m") == ("keep", ())


def test_more_runs_measure_only_those_that_are_missing(bench: Any) -> None:
    answers = iter("abcdefghij")
    first = bench.measure(bench.prepared(), lambda request: next(answers), runs=5)
    again = bench.measure(bench.prepared(), lambda request: next(answers), runs=8)
    assert [result.how for result in again] == ["kept"] * 5 + ["measured"] * 3
    assert [result.record.reply for result in again[:5]] == [result.record.reply for result in first]
    assert {result.record.reply for result in again} == set("abcdefgh")


def test_a_newer_record_stops_the_plan(bench: Any) -> None:
    prepared = bench.prepared()
    bench.measure(prepared)
    (path,) = bench.store.root.rglob("a-1.json")
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 9'))
    with pytest.raises(NewerSchemaError, match="written by a newer version"):
        bench.decide(prepared, bench.permutation(prepared))


def test_a_provider_that_nobody_offers_is_named() -> None:
    with pytest.raises(ProviderError, match="else/m: no provider is called 'else'; known: fake, local"):
        Models({"local": None, "fake": None}).of(parse_subject("else/m"))  # type: ignore[dict-item]


def test_the_plan_counts_runs_by_what_they_need(bench: Any) -> None:
    def fails(request: Any) -> str:
        raise CallError("http-500", "infrastructure", "down")

    prepared = bench.prepared()
    bench.measure(prepared)
    bench.measure(prepared, fails, subject="fake/broken")
    plan = Plan()
    for subject, runs in (("fake/m", 3), ("fake/broken", 1), ("fake/new", 2)):
        plan.add(bench.decide(prepared, bench.permutation(prepared, subject, runs)))
    changed = bench.prepared({"Say {{": "Shout {{"})
    plan.add(bench.decide(changed, bench.permutation(changed)))
    changed = bench.prepared({'expected = "yes"': 'expected = "no"'})
    plan.add(bench.decide(changed, bench.permutation(changed)))
    assert (plan.permutations, plan.kept, plan.rescored, plan.stale, plan.measured) == (5, 1, 1, 1, 6)
    assert plan.reasons == {
        "missing": 4,
        "invalid: http-500": 1,
        "stale: prompt changed": 1,
        "the scorer changed": 1,
    }
    assert {subject.key: count for subject, count in plan.subjects.items()} == {
        "fake/m": 3,
        "fake/broken": 1,
        "fake/new": 2,
    }
