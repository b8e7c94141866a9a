"""What a record is on disk, byte for byte, and that it comes back as it was."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_battery.edges.store import Evidence, Problem, Store, Stored
from pytest_battery.edges.store.reading import parse_record
from pytest_battery.edges.store.writing import json_bytes
from pytest_battery.errors import NewerSchemaError
from pytest_battery.values.permutations import Lane
from pytest_battery.values.records import Record, RunError
from pytest_battery.values.usage import Cost, Usage

Make = Callable[..., Any]

EXACT = """\
{
  "attempts": 1,
  "case": "a",
  "cost": {"incomplete": false, "price_date": null, "priced_by": "fake", "usd": 0.25},
  "environment": {"agent": null, "cpu": null, "engine": null, "jobs": null, "memory": null, "plugin": "0.1.0", "python": "3.11.7"},
  "error": {"class": "contract", "fault": "task", "message": "no"},
  "evidence": null,
  "fingerprint": {"case": "c", "corpus": "", "model": "", "prompt": "p", "stack": ""},
  "knobs": {"observed": {}, "requested": {}},
  "measured_at": "2026-07-29T12:30:00Z",
  "metrics": {"correct": true, "n": 3, "x": 0.1},
  "reasons": {},
  "reply": "caf\u00e9\\n\u2705",
  "reply_cut": false,
  "response_model": null,
  "run": 1,
  "schema": 1,
  "scorer": {"name": "matchers", "sha": "s"},
  "seal": "5f5e4c464e9b97e0",
  "stack": {"entries": [], "fingerprint": "", "key": "none"},
  "state": "invalid",
  "steps": null,
  "stop_reason": null,
  "subject": {"key": "fake/m", "knobs": {}, "level": null, "ref": "fake/m"},
  "task": "t",
  "turns": 0,
  "unjudged": {},
  "usage": {"cache_read": null, "cache_write": null, "input": 7, "output": null, "reasoning": null},
  "wall_ms": 12
}
"""


def read(store: Store, of: Lane) -> Record:
    found = store.read_lane(of)
    assert isinstance(found, Record), found
    return found


def test_a_record_is_written_byte_for_byte(store: Store, lane: Make, record: Make) -> None:
    written = record(
        lane(),
        metrics={"x": 0.1, "correct": True, "n": 3},
        reply="caf\u00e9\n\u2705",
        state="invalid",
        attempts=1,
        error=RunError(kind="contract", fault="task", message="no"),
        usage=Usage(input=7),
        cost=Cost(usd=0.25, priced_by="fake"),
    )
    path = store.put(lane(), written)
    assert path == store.root / "t/none/fake--m/a-1.json"
    assert path.read_bytes() == EXACT.encode()
    assert read(store, lane()) == written


def test_a_subject_has_a_directory_of_its_own(store: Store, lane: Make, record: Make) -> None:
    of = lane("a.b_c-d", 12, "ollama/llama3.2:3b:low@temperature=0.7,top_p=1")
    path = store.put(of, record(of), Evidence([], {}))
    assert path.relative_to(store.root).as_posix() == (
        "t/none/ollama--llama3.2~3b~low__temperature=0.7+top_p=1/a.b_c-d-12.json"
    )
    assert (path.parent / "a.b_c-d-12.evidence/calls.jsonl").exists()


def characters() -> st.SearchStrategy[str]:
    """Any text, lone surrogates too; a pair of them is the one character it stands for."""
    text = st.text(st.characters(exclude_categories=()))
    return text.map(lambda text: text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass"))


@given(reply=characters(), reason=characters())
def test_whatever_a_model_answers_survives(
    tmp_path_factory: pytest.TempPathFactory, lane: Make, record: Make, reply: str, reason: str
) -> None:
    store, of = Store(tmp_path_factory.mktemp("store")), lane()
    written = record(of, reply=reply, reasons={"correct": reason})
    content = store.put(of, written).read_bytes()
    assert read(store, of) == written
    content.decode("utf-8")  # strictly
    assert content.endswith(b"}\n")
    assert b"\r" not in content
    assert json.loads(content)["reply"] == reply


@given(
    metrics=st.dictionaries(
        st.text("abc", min_size=1),
        st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text("xyz") | st.none(),
        max_size=4,
    )
)
def test_metrics_keep_value_and_type(lane: Make, record: Make, metrics: dict[str, Any]) -> None:
    of = lane()
    content = json_bytes(record(of, metrics=metrics).model_dump(mode="json", by_alias=True))
    found = parse_record(Path("x.json"), content)
    assert isinstance(found, Record)
    assert found.metrics == metrics
    assert {name: type(value) for name, value in found.metrics.items()} == {
        name: type(value) for name, value in metrics.items()
    }


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_never_reaches_the_disk(
    store: Store, lane: Make, record: Make, number: float
) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        store.put(lane(), record(lane()).model_copy(update={"metrics": {"x": number}}))
    assert not list(store.root.rglob("*.json"))


@pytest.mark.parametrize("token", ["NaN", "Infinity"])
def test_a_record_with_a_token_that_is_not_json_is_no_record(
    store: Store, lane: Make, record: Make, token: str
) -> None:
    path = store.put(lane(), record(lane()))
    path.write_text(path.read_text().replace('"wall_ms": 12', f'"wall_ms": 12, "x": {token}'))
    found = store.read_lane(lane())
    assert isinstance(found, Problem)
    assert found.what == "is not whole JSON; it is measured again"


def test_keys_we_do_not_know_survive_a_rewrite(store: Store, lane: Make, record: Make) -> None:
    path = store.put(lane(), record(lane(), error=RunError(kind="contract", fault="task", message="no")))
    document = json.loads(path.read_bytes())
    document["note"] = {"by": ["a person"]}
    for part in ("subject", "stack", "fingerprint", "scorer", "usage", "cost", "error", "knobs", "environment"):
        document[part]["later"] = 1
    path.write_text(json.dumps(document))
    found = read(store, lane())
    store.put(lane(), found.model_copy(update={"metrics": {"correct": True}}))
    document["metrics"] = {"correct": True}
    assert json.loads(path.read_bytes()) == document


def test_a_newer_record_is_neither_read_nor_touched(store: Store, lane: Make, record: Make) -> None:
    path = store.put(lane(), record(lane()))
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 2'))
    content = path.read_bytes()
    for reading in (lambda: store.read_lane(lane()), lambda: store.read(lane().permutation)):
        with pytest.raises(NewerSchemaError) as caught:
            reading()
        assert str(caught.value).startswith(f"{path}: written by a newer version of pytest-battery (schema 2; this one")
    (walked,) = store.walk()
    assert isinstance(walked, Problem)
    assert (walked.kind, walked.path) == ("newer", path)
    assert walked.what.startswith("written by a newer version")
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('"schema": 1', '"schema": "1"', "is not a record: schema: "),
        ('"schema": 1,', "", None),
        ('"wall_ms": 12', '"wall_ms": -1', "is not a record: wall_ms: "),
        ('"run": 1', '"run": 0', "is not a record: run: "),
        ('"state": "valid"', '"state": "fine"', "is not a record: state: "),
        ('"2026-07-29T12:30:00Z"', '"2026-07-29T12:30:00"', "is not a record: measured_at: "),
        ('"task": "t",', "", "is not a record: task: "),
    ],
)
def test_what_is_no_record_is_told_by_field(
    store: Store, lane: Make, record: Make, old: str, new: str, what: str | None
) -> None:
    path = store.put(lane(), record(lane()))
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    found = store.read_lane(lane())
    if what is None:
        assert isinstance(found, Record)
    else:
        assert isinstance(found, Problem)
        assert found.kind == "not-a-record"
        assert found.what.startswith(what)


def test_a_time_written_elsewhere_is_the_same_moment(store: Store, lane: Make, record: Make) -> None:
    path = store.put(lane(), record(lane()))
    path.write_text(path.read_text().replace("2026-07-29T12:30:00Z", "2026-07-29T21:30:00+09:00"))
    assert read(store, lane()).measured_at == datetime.fromisoformat("2026-07-29T12:30:00+00:00")


def test_records_are_walked_in_the_order_of_their_paths(store: Store, lane: Make, record: Make) -> None:
    lanes = [lane(case, run, subject) for subject in ("fake/n", "fake/m") for case in "ba" for run in (2, 1)]
    for of in lanes:
        store.put(of, record(of), Evidence([{"x": 1}], {}))
    walked = list(store.walk())
    assert all(isinstance(one, Stored) for one in walked)
    assert [one.path for one in walked] == sorted(store.path(of) for of in lanes)


def test_an_absent_store_is_an_empty_one(store: Store, lane: Make) -> None:
    assert list(store.walk()) == []
    assert list(store.strays(lane().permutation.cell)) == []
    assert store.read(lane().permutation) == {}
    assert store.delete(lane().permutation) == 0
    assert not store.root.exists()


def test_only_the_runs_asked_for_are_read(store: Store, lane: Make, record: Make) -> None:
    for run in (1, 3, 4):
        store.put(lane(run=run), record(lane(run=run)))
    assert sorted(store.read(lane().permutation)) == [1, 3]


def test_deleting_a_permutation_takes_its_records_and_evidence_and_no_others(
    store: Store, lane: Make, record: Make
) -> None:
    kept = [lane("a-1"), lane("b"), lane(subject="fake/n"), lane(task="u")]
    for of in [lane(), lane(run=7), *kept]:
        store.put(of, record(of), Evidence([], {}))
    (store.path(lane()).parent / "a.json").write_text("somebody's")
    assert store.delete(lane().permutation) == 2
    assert {one.path for one in store.walk() if isinstance(one, Stored)} == {store.path(of) for of in kept}
    assert not store.path(lane()).with_suffix(".evidence").exists()
    assert (store.path(lane()).parent / "a.json").read_text() == "somebody's"


def test_a_record_changed_by_hand_is_noticed_and_still_read(store: Store, lane: Make, record: Make) -> None:
    path = store.put(lane(), record(lane(), metrics={"correct": False}))
    content = path.read_bytes()
    path.write_bytes(content.replace(b'{"correct": false}', b'{"correct": true}'))
    found = read(store, lane())
    assert (found.edited, found.metrics) == (True, {"correct": True})
    path.write_bytes(content.replace(b"\n", b"\r\n"))  # as git writes it on some machines
    assert not read(store, lane()).edited
    path.write_bytes(content)
    assert not read(store, lane()).edited


def test_a_record_from_before_there_were_seals_is_nobodys_edit(store: Store, lane: Make, record: Make) -> None:
    path = store.put(lane(), record(lane()))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if b'"seal"' not in line))
    assert not read(store, lane()).edited


def test_who_puts_an_edited_record_back_seals_it_anew(store: Store, lane: Make, record: Make) -> None:
    path = store.put(lane(), record(lane()))
    path.write_bytes(path.read_bytes().replace(b'"attempts": 0', b'"attempts": 9'))
    store.put(lane(), read(store, lane()))
    assert (read(store, lane()).edited, read(store, lane()).attempts) == (False, 9)
