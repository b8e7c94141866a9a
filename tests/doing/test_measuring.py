"""One run: asked, graded, on disk; and what becomes of it when something goes wrong."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import sys
from datetime import UTC, datetime
from typing import Any

import anyio
import anyio.from_thread
import pytest

from pytest_battery import CallError, Cost, FakeModel, Message, Reply, Score, Usage, __version__
from pytest_battery.doing.measuring import Measuring
from pytest_battery.doing.planning import Models
from pytest_battery.errors import StoreError, StoreWriteError
from pytest_battery.values.records import MAX_REPLY, Record

OTHER_PROMPT = {"Say {{": "Shout {{"}


def on_disk(bench: Any, prepared: Any, **more: Any) -> Any:
    found = bench.stored(prepared, **more)
    assert found is None or isinstance(found, Record), found
    return found


# -- what is written down ----------------------------------------------------------------------------


def test_a_run_is_asked_graded_and_stored(bench: Any) -> None:
    prepared = bench.prepared()
    before = datetime.now(UTC)
    reply = Reply(
        "oh yes",
        "stop",
        Usage(input=3, output=2),
        Cost(usd=0.5, priced_by="table", price_date="2026-01-01"),
        model="m-2026",
        observed={"temperature": 0.7, "max_tokens": 5},
    )
    (result,) = bench.measure(prepared, lambda request: reply, subject="fake/m@temperature=0.70,max_tokens=5")
    record = result.record
    assert (result.how, result.stored) == ("measured", True)
    assert (record.task, record.case, record.run, record.stack.key) == ("t", "a", 1, "none")
    assert (record.subject.key, record.subject.ref) == ("fake/m@max_tokens=5,temperature=0.7", "fake/m")
    assert (record.state, record.error, record.metrics) == ("valid", None, {"correct": True, "contains": True})
    assert (record.reply, record.reply_cut, record.stop_reason) == ("oh yes", False, "stop")
    assert (record.usage, record.cost, record.response_model) == (reply.usage, reply.cost, "m-2026")
    assert (record.turns, record.attempts) == (1, 1)
    assert record.knobs.requested == {"temperature": "0.7", "max_tokens": "5"}
    assert record.knobs.observed == {"temperature": 0.7, "max_tokens": 5}
    assert before <= record.measured_at <= datetime.now(UTC)
    assert record.wall_ms >= 0
    assert (record.environment.plugin, record.environment.jobs) == (__version__, 4)
    assert record.environment.python == ".".join(map(str, sys.version_info[:3]))
    assert on_disk(bench, prepared, subject="fake/m@temperature=0.70,max_tokens=5") == record


def test_the_model_is_asked_what_the_task_says(bench: Any) -> None:
    edits = {
        "timeout = 60": 'timeout = 60\nsystem = { text = "S" }\nappend = "A"\noutput = { json_schema = { a = 1 } }'
    }
    bench.measure(bench.prepared(edits), subject="fake/m:low@seed=1")
    (request,) = bench.calls
    assert request.subject.key == "fake/m:low@seed=1"
    assert request.messages == (Message("system", "S"), Message("user", "Say yes.\n\nA"))
    assert request.output_schema == {"a": 1}


def test_evidence_holds_the_call_and_the_knobs(bench: Any) -> None:
    prepared = bench.prepared()
    reply = Reply("yes", raw={"choices": [1]}, envelope={"m": 1}, status=200, headers={"x": "y"}, observed={"seed": 1})
    record = bench.one(prepared, lambda request: reply, subject="fake/m@seed=1")
    (path,) = bench.store.root.rglob("a-1.json")
    (call,) = bench.store.artifacts(path, record.evidence)
    assert call.pop("started") >= record.measured_at.isoformat()[:19]
    assert call.pop("wall_ms") >= 0
    assert call == {
        "request_hash": bench.calls[0].hash(),
        "subject": "fake/m@seed=1",
        "request": {"messages": [{"role": "user", "content": "Say yes."}], "output_schema": None},
        "envelope": {"m": 1},
        "response": {"choices": [1]},
        "text": "yes",
        "stop_reason": "stop",
        "usage": dict.fromkeys(("input", "cache_read", "cache_write", "output", "reasoning")),
        "cost": {"usd": None, "priced_by": None, "price_date": None, "incomplete": False},
        "model": None,
        "observed": {"seed": 1},
        "attempts": [],
        "status": 200,
        "headers": {"x": "y"},
        "error": None,
    }
    knobs = json.loads((bench.store.evidence_directory(path) / "request-knobs.json").read_bytes())
    assert knobs == {"requested": {"seed": "1"}, "observed": [{"seed": 1}]}


@pytest.mark.parametrize(
    ("text", "stop_reason", "correct"),
    [
        ("", "empty", False),
        ("", "length", False),
        ("", "refusal", False),
        ("", "filtered", False),
        ("", "tool-calls", False),
        ("I'd say yes but", "length", True),
        ("\ud800 yes \x00\x1b[31m", "stop", True),
        ("   ", "stop", False),
    ],
)
def test_an_odd_answer_is_a_result_and_is_graded(bench: Any, text: str, stop_reason: Any, correct: bool) -> None:
    prepared = bench.prepared()
    record = bench.one(prepared, lambda request: Reply(text, stop_reason))
    assert (record.state, record.error) == ("valid", None)
    assert (record.reply, record.stop_reason, record.metrics["correct"]) == (text, stop_reason, correct)
    assert on_disk(bench, prepared) == record
    (decision,) = bench.decide(prepared, bench.permutation(prepared))
    assert decision.action == "keep"


# -- calls that end without a reply ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "fault"),
    [("http-500", "infrastructure"), ("quota", "infrastructure"), ("http-400", "us"), ("no-such-model", "subject")],
)
def test_a_call_without_a_reply_is_an_invalid_run(bench: Any, kind: str, fault: Any) -> None:
    def fails(request: Any) -> str:
        raise CallError(kind, fault, "the reason")

    prepared = bench.prepared()
    record = bench.one(prepared, fails)
    assert record.state == "invalid"
    assert record.error is not None
    assert (record.error.kind, record.error.fault, record.error.message) == (kind, fault, "the reason")
    assert (record.metrics, record.reply, record.stop_reason) == ({}, None, None)
    assert (record.cost.usd, record.cost.incomplete, record.usage) == (None, True, Usage())
    assert (record.turns, record.attempts) == (0, 1)
    assert on_disk(bench, prepared) == record
    (path,) = bench.store.root.rglob("a-1.json")
    assert bench.store.artifacts(path, record.evidence)[0]["error"] == f"{kind}: the reason"


def test_a_model_that_never_answers_runs_out_of_time(bench: Any) -> None:
    async def never(request: Any) -> str:
        await anyio.sleep_forever()
        return "yes"

    record = bench.one(bench.prepared({"timeout = 60": "timeout = 0.01"}), never)
    assert record.error is not None
    assert (record.error.kind, record.error.fault) == ("timeout", "infrastructure")
    assert record.error.message == "no reply within 0.01 s"
    assert (record.reply, record.metrics, record.cost.usd, record.cost.incomplete) == (None, {}, None, True)
    (path,) = bench.store.root.rglob("a-1.json")
    assert bench.store.artifacts(path, record.evidence)[0]["error"] == "cancelled"


@pytest.mark.parametrize(
    ("subject", "observed", "message"),
    [
        ("fake/m@temperature=0.7", {}, "temperature=0.7 was asked for and is not on the wire"),
        ("fake/m@temperature=0.7", {"temperature": 1.0}, "temperature=0.7 was asked for and is 1.0 on the wire"),
        ("fake/m@seed=0", {"seed": None}, "seed=0 was asked for and is not on the wire"),
        ("fake/m@a=1,b=2", {"a": 1, "b": 3}, "b=2 was asked for and is 3 on the wire"),
        ("fake/m:low", {}, "thinking=low was asked for and is not on the wire"),
    ],
)
def test_a_knob_that_cannot_be_shown_on_the_wire_voids_the_run(
    bench: Any, subject: str, observed: dict[str, Any], message: str
) -> None:
    record = bench.one(bench.prepared(), lambda request: Reply("yes", observed=observed), subject=subject)
    assert record.error is not None
    assert (record.state, record.error.kind, record.error.fault) == ("invalid", "knob-mismatch", "us")
    assert record.error.message == message
    assert record.metrics == {}
    prepared = bench.prepared()
    (decision,) = bench.decide(prepared, bench.permutation(prepared, subject))
    assert decision.action == "measure"


@pytest.mark.parametrize(
    ("subject", "observed"),
    [
        ("fake/m@temperature=0.7", {"temperature": 0.70}),
        ("fake/m@max_tokens=1000", {"max_tokens": 1000.0}),
        ("fake/m@x=0.00001", {"x": 1e-05}),
        ("fake/m@cache=true", {"cache": True}),
        ("fake/m@mode=fast:low", {"mode": "fast:low", "more": 1}),
    ],
)
def test_a_knob_is_the_same_in_the_types_of_the_wire(bench: Any, subject: str, observed: dict[str, Any]) -> None:
    assert bench.one(bench.prepared(), lambda request: Reply("yes", observed=observed), subject=subject).error is None


# -- scorers that go wrong ---------------------------------------------------------------------------


def raising(case: Any, view: Any) -> Any:
    raise KeyError("gone")


def exiting(case: Any, view: Any) -> Any:
    sys.exit(3)


BAD_SCORERS: dict[str, tuple[Any, str, str]] = {
    "raises": (raising, "scorer-failed", "KeyError: 'gone'"),
    "leaves": (exiting, "scorer-failed", "SystemExit: 3"),
    "returns NaN": (lambda case, view: {"correct": math.nan}, "contract", "metric 'correct' is nan"),
    "returns infinity": (lambda case, view: {"correct": True, "n": math.inf}, "contract", "metric 'n' is inf"),
    "returns text": (lambda case, view: {"correct": "yes"}, "contract", "metric 'correct' is 'yes' (a str)"),
    "leaves a metric out": (lambda case, view: {"corect": True}, "contract", "metric 'correct' is promised under [metrics]"),
    "returns nothing": (lambda case, view: None, "contract", "returned None"),
}  # fmt: skip
MINE = {'use = "matchers"': 'use = "mine"', 'contains = "{{ case.expected }}"': ""}


@pytest.mark.parametrize("way", BAD_SCORERS)
def test_a_scorer_that_fails_makes_the_run_invalid_and_keeps_the_reply(bench: Any, way: str) -> None:
    scorer, kind, message = BAD_SCORERS[way]
    bench.scorers = {"mine": scorer}
    prepared = bench.prepared(MINE)
    record = bench.one(prepared)
    assert record.error is not None
    assert (record.state, record.error.kind, record.error.fault) == ("invalid", kind, "task")
    assert message in record.error.message
    assert (record.metrics, record.reply) == ({}, "yes")
    assert on_disk(bench, prepared) == record


def test_a_reply_whose_scorer_failed_is_never_paid_for_again(bench: Any) -> None:
    wanted = bench.root / "wanted"
    bench.scorers = {"mine": lambda case, view: {"correct": bool(wanted.read_text())}}
    prepared = bench.prepared(MINE)
    first, again = bench.measure(prepared)[0], bench.measure(prepared)[0]
    wanted.write_text("here now")  # what the scorer is made of is the same as before
    mended = bench.measure(prepared)[0]
    assert [(one.how, one.record.state) for one in (first, again, mended)] == [
        ("measured", "invalid"),
        ("re-scored", "invalid"),
        ("re-scored", "valid"),
    ]
    assert (mended.record.metrics, mended.record.error, len(bench.calls)) == ({"correct": True}, None, 1)
    assert on_disk(bench, prepared) == mended.record


def test_a_metric_may_be_unjudged_with_a_reason(bench: Any) -> None:
    bench.scorers = {"mine": lambda case, view: Score({}, {"x": "why\ud800"}, {"correct": "cannot be told"})}
    prepared = bench.prepared(MINE)
    record = bench.one(prepared)
    assert (record.state, record.metrics, record.unjudged) == ("valid", {}, {"correct": "cannot be told"})
    assert on_disk(bench, prepared) == record


def test_the_scorer_is_shown_the_case_and_the_whole_reply(bench: Any) -> None:
    seen = []
    bench.scorers = {"mine": lambda case, view: seen.append((dict(case), view)) or {"correct": True}}
    bench.one(bench.prepared(MINE), lambda request: Reply("x" * 20_000, "length"))
    ((case, view),) = seen
    assert case == {"id": "a", "word": "yes", "expected": "yes"}
    assert (len(view.text), view.stop_reason, view.task_directory) == (20_000, "length", bench.root)


# -- what stood there before -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failing",
    [
        CallError("http-500", "infrastructure", "down"),
        Reply("yes", observed={"seed": 2}),
    ],
    ids=["no reply", "knob mismatch"],
)
def test_a_stale_answer_is_worth_more_than_a_failure(bench: Any, failing: Any) -> None:
    def fails(request: Any) -> Reply:
        if isinstance(failing, CallError):
            raise failing
        return failing  # type: ignore[no-any-return]

    bench.measure(bench.prepared(), subject="fake/m@seed=1")
    changed = bench.prepared(OTHER_PROMPT)
    before = on_disk(bench, changed, subject="fake/m@seed=1")
    (result,) = bench.measure(changed, fails, subject="fake/m@seed=1")
    assert (result.how, result.stored, result.record.state) == ("measured", False, "invalid")
    assert on_disk(bench, changed, subject="fake/m@seed=1") == before
    assert before.state == "valid"


def test_a_new_reply_replaces_a_stale_one_even_where_its_grading_failed(bench: Any) -> None:
    bench.scorers = {"mine": lambda case, view: {"correct": True}}
    bench.measure(bench.prepared(MINE))
    bench.scorers = {"mine": raising}
    changed = bench.prepared({**MINE, **OTHER_PROMPT})
    (result,) = bench.measure(changed, lambda request: "paid for")
    assert (result.stored, on_disk(bench, changed).reply) == (True, "paid for")
    bench.scorers = {"mine": lambda case, view: {"correct": False}}
    (result,) = bench.measure(bench.prepared({**MINE, **OTHER_PROMPT}))
    assert (result.how, result.record.reply, len(bench.calls)) == ("re-scored", "paid for", 2)


def test_a_failure_is_replaced_by_what_comes_next(bench: Any) -> None:
    def fails(request: Any) -> str:
        raise CallError("http-500", "infrastructure", "down")

    prepared = bench.prepared()
    assert bench.one(prepared, fails).state == "invalid"
    assert bench.one(prepared).state == "valid"
    assert on_disk(bench, prepared).state == "valid"


def test_what_another_session_stored_since_the_plan_is_not_paid_for_twice(bench: Any) -> None:
    prepared = bench.prepared()
    planned = bench.decide(prepared, bench.permutation(prepared))
    assert planned[0].action == "measure"
    theirs = bench.one(prepared, lambda request: "theirs yes")
    (result,) = bench.measure(prepared, decisions=planned)
    assert (result.how, result.record, len(bench.calls)) == ("kept", theirs, 1)


def test_what_another_session_refreshed_since_the_plan_is_not_refreshed_again(bench: Any) -> None:
    prepared = bench.prepared()
    bench.measure(prepared)
    planned = bench.decide(prepared, bench.permutation(prepared), refresh=datetime.now(UTC))
    assert planned[0].action == "measure"
    bench.measure(prepared, lambda request: "yes, again", decisions=planned)
    (result,) = bench.measure(prepared, decisions=planned)
    assert (result.how, result.record.reply, len(bench.calls)) == ("kept", "yes, again", 2)


# -- repeats -----------------------------------------------------------------------------------------


def test_a_repeat_never_reuses_anothers_answer(bench: Any) -> None:
    numbers = itertools.count()
    results = bench.measure(bench.prepared(), lambda request: f"yes {next(numbers)}", runs=5)
    assert {result.record.reply for result in results} == {f"yes {number}" for number in range(5)}
    assert [result.record.run for result in results] == [1, 2, 3, 4, 5]
    prepared = bench.prepared()
    assert [on_disk(bench, prepared, run=run) for run in range(1, 6)] == [result.record for result in results]


def test_jobs_bound_the_runs_in_flight(bench: Any, run: Any) -> None:
    inside, most = 0, 0

    async def main() -> None:
        full = anyio.Event()

        async def handler(request: Any) -> str:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            if inside == 3:
                await anyio.wait_all_tasks_blocked()  # whoever could come in is in by now
                full.set()
            await full.wait()
            inside -= 1
            return "yes"

        prepared = bench.prepared()
        measuring = bench.measuring(handler, jobs=3)
        decided = [bench.decide(prepared, bench.permutation(prepared, subject, 4)) for subject in ("fake/a", "fake/b")]
        async with anyio.create_task_group() as group:
            for decisions in decided:
                group.start_soon(measuring.permutation, prepared, decisions)
        assert measuring.calls == 8
        await measuring.aclose()

    run(main)
    assert most == 3


def test_a_provider_bounds_its_own_calls(bench: Any, run: Any) -> None:
    inside, most = 0, 0

    async def handler(request: Any) -> str:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await anyio.wait_all_tasks_blocked()
        inside -= 1
        return "yes"

    async def main() -> None:
        prepared = bench.prepared()
        measuring = Measuring(bench.store, Models({"fake": FakeModel(handler, limit=1)}), jobs=8)
        await measuring.permutation(prepared, bench.decide(prepared, bench.permutation(prepared, runs=3)))

    run(main)
    assert most == 1


# -- cancelling --------------------------------------------------------------------------------------


def test_what_is_cancelled_keeps_the_runs_that_are_finished(bench: Any, run: Any) -> None:
    prepared = bench.prepared()

    async def main() -> None:
        scope = anyio.CancelScope()

        async def handler(request: Any) -> str:
            if measuring.calls == 1:
                return "yes"
            while bench.stored(prepared) is None:
                await anyio.lowlevel.checkpoint()
            scope.cancel()
            await anyio.sleep_forever()
            return "never"

        measuring = bench.measuring(handler)
        with scope:
            await measuring.permutation(prepared, bench.decide(prepared, bench.permutation(prepared, runs=2)))
        assert scope.cancelled_caught
        await measuring.aclose()

    run(main)
    first, second = (on_disk(bench, prepared, run=number) for number in (1, 2))
    assert (first or second).reply == "yes"
    assert None in (first, second)
    assert not list(bench.store.root.rglob(".tmp-*"))


def test_an_answer_that_is_paid_for_reaches_the_disk_whatever_is_cancelled(bench: Any, run: Any) -> None:
    async def main() -> None:
        scope = anyio.CancelScope()

        def scorer(case: Any, view: Any) -> dict[str, bool]:
            try:
                anyio.from_thread.run_sync(scope.cancel)
            except RuntimeError:  # it is graded in the loop itself
                scope.cancel()
            return {"correct": True}

        bench.scorers = {"mine": scorer}
        prepared = bench.prepared(MINE)
        measuring = bench.measuring()
        with scope:
            await measuring.permutation(prepared, bench.decide(prepared, bench.permutation(prepared)))
        assert scope.cancel_called
        assert on_disk(bench, prepared).metrics == {"correct": True}

    run(main)


def test_an_answer_that_arrives_as_all_is_cancelled_reaches_the_disk(bench: Any, run: Any) -> None:
    prepared = bench.prepared()

    async def main() -> None:
        scope = anyio.CancelScope()

        def handler(request: Any) -> str:
            scope.cancel()
            return "yes"

        measuring = bench.measuring(handler)
        with scope:
            await measuring.permutation(prepared, bench.decide(prepared, bench.permutation(prepared)))

    run(main)
    assert on_disk(bench, prepared).metrics["correct"] is True


def test_a_disk_that_refuses_is_told_and_stops(bench: Any) -> None:
    prepared = bench.prepared()
    planned = bench.decide(prepared, bench.permutation(prepared))
    bench.store.root.write_text("a file where a directory should be")
    with pytest.raises(StoreWriteError, match="could not be written: Not a directory"):
        bench.measure(prepared, decisions=planned)


def test_every_provider_is_let_go_even_if_one_refuses(bench: Any, run: Any) -> None:
    closed = []

    class Refusing(FakeModel):
        async def aclose(self) -> None:
            closed.append(self)
            raise RuntimeError("will not")

    measuring = Measuring(bench.store, Models({"a": Refusing(str), "b": Refusing(str)}), jobs=1)
    with pytest.raises(RuntimeError, match="will not"):
        run(measuring.aclose)
    assert len(closed) == 2


# -- long replies ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "kept"),
    [
        ("x" * MAX_REPLY, None),
        ("x" * (MAX_REPLY + 1), "x" * MAX_REPLY),
        ("\u00e9" * 5000, "\u00e9" * 4096),
        ("x" + "\u2705" * 3000, "x" + "\u2705" * 2730),
        ("xx" + "\U0001f9ea" * 3000, "xx" + "\U0001f9ea" * 2047),
        ("\ud800" + "x" * 9000, "\ud800" + "x" * (MAX_REPLY - 3)),
        ("x" * (MAX_REPLY - 1) + "\udc80", "x" * (MAX_REPLY - 1)),
    ],
    ids=["just fits", "ASCII", "two bytes", "three bytes", "four bytes", "surrogate first", "surrogate at the cut"],
)
def test_a_long_reply_is_cut_between_characters_and_whole_beside_the_record(
    bench: Any, reply: str, kept: str | None
) -> None:
    prepared = bench.prepared()
    record = bench.one(prepared, lambda request: reply)
    assert (record.reply, record.reply_cut) == (reply if kept is None else kept, kept is not None)
    assert len(record.reply.encode("utf-8", "surrogatepass")) <= MAX_REPLY
    (path,) = bench.store.root.rglob("a-1.json")
    whole = bench.store.evidence_directory(path) / "reply.txt"
    assert whole.exists() is (kept is not None)
    if kept is not None:
        assert whole.read_bytes() == reply.encode("utf-8", "surrogatepass")
    assert on_disk(bench, prepared) == record


def test_a_cut_reply_is_scored_again_whole(bench: Any) -> None:
    bench.one(bench.prepared(), lambda request: "x" * 10_000 + "late")
    (result,) = bench.measure(bench.prepared({'expected = "yes"': 'expected = "late"'}))
    assert (result.how, result.record.metrics["correct"], len(bench.calls)) == ("re-scored", True, 1)


def test_a_cut_reply_without_its_evidence_is_measured_again(bench: Any) -> None:
    bench.one(bench.prepared(), lambda request: "x" * 10_000 + "late")
    (whole,) = bench.store.root.rglob("reply.txt")
    whole.unlink()
    changed = bench.prepared({'expected = "yes"': 'expected = "late"'})
    (decision,) = bench.decide(changed, bench.permutation(changed))
    assert decision.why == "the scorer changed and the evidence with the whole reply is missing"
    assert bench.one(changed, lambda request: "late").metrics["correct"] is True


def test_evidence_that_goes_after_the_plan_is_neither_guessed_nor_paid_for(bench: Any) -> None:
    bench.one(bench.prepared(), lambda request: "x" * 10_000 + "late")
    changed = bench.prepared({'expected = "yes"': 'expected = "late"'})
    planned = bench.decide(changed, bench.permutation(changed))
    assert planned[0].action == "re-score"
    (whole,) = bench.store.root.rglob("reply.txt")
    whole.unlink()
    with pytest.raises(
        StoreError, match="the evidence with the whole reply is gone since the plan was made; run again"
    ):
        bench.measure(changed, decisions=planned)
    assert len(bench.calls) == 1


# -- Python tests, and sums over several calls -------------------------------------------------------


def test_a_python_test_asks_as_often_as_it_likes(bench: Any) -> None:
    async def asker(model: Any) -> str:
        first = await model.complete("one", system="S")
        second = await model.complete([Message("user", "two")], output_schema={"a": 1})
        return f"{first.text} {second.text}"

    record = bench.one(bench.prepared(), lambda request: request.messages[-1].content, asker=asker)
    assert (record.reply, record.turns, record.attempts) == ("one two", 2, 2)
    assert [request.messages for request in bench.calls] == [
        (Message("system", "S"), Message("user", "one")),
        (Message("user", "two"),),
    ]
    assert [request.output_schema for request in bench.calls] == [None, {"a": 1}]
    (path,) = bench.store.root.rglob("a-1.json")
    assert [call["text"] for call in bench.store.artifacts(path, record.evidence)] == ["one", "two"]


async def asks_nothing(model: Any) -> str:
    return "yes"


async def raises(model: Any) -> str:
    await model.complete("x")
    raise ValueError("mine")


async def times_out(model: Any) -> str:
    await model.complete("x")
    raise TimeoutError("my own clock")


async def swallows(model: Any) -> str:
    with contextlib.suppress(CallError):
        await model.complete("fail")
    return "yes, by default"


@pytest.mark.parametrize(
    ("asker", "kind", "fault", "message"),
    [
        (asks_nothing, "no-call", "task", "the test returned without a call of `model`"),
        (raises, "test-raised", "task", "ValueError: mine"),
        (times_out, "test-raised", "task", "TimeoutError: my own clock"),
        (swallows, "no-reply", "infrastructure", "no call of `model` was answered: http-500: down"),
    ],
)
def test_a_python_test_that_measured_nothing_is_invalid_and_asked_again(
    bench: Any, asker: Any, kind: str, fault: str, message: str
) -> None:
    def handler(request: Any) -> str:
        if request.messages[-1].content == "fail":
            raise CallError("http-500", "infrastructure", "down")
        return "yes"

    record = bench.one(bench.prepared(), handler, asker=asker)
    assert record.error is not None
    assert (record.error.kind, record.error.fault, record.error.message) == (kind, fault, message)
    # Not even a change of the scorer makes it a result.
    changed = bench.prepared({'expected = "yes"': 'expected = "no"'})
    (decision,) = bench.decide(changed, bench.permutation(changed))
    assert (decision.action, decision.why) == ("measure", f"invalid: {kind}")


def test_a_python_test_may_try_again_after_a_failed_call(bench: Any) -> None:
    def handler(request: Any) -> str | Reply:
        if len(bench.calls) == 1:
            raise CallError("http-500", "infrastructure", "down")
        return Reply("yes", usage=Usage(input=1, output=1), cost=Cost(usd=0.5))

    async def asker(model: Any) -> str:
        try:
            return (await model.complete("x")).text  # type: ignore[no-any-return]
        except CallError:
            return (await model.complete("x")).text  # type: ignore[no-any-return]

    record = bench.one(bench.prepared(), handler, asker=asker)
    assert (record.state, record.turns, record.attempts) == ("valid", 1, 2)
    assert (record.cost.usd, record.cost.incomplete) == (0.5, True)


@pytest.mark.parametrize(
    ("costs", "usd", "incomplete"),
    [
        ([0.25, 0.5], 0.75, False),
        ([0.25, None], None, False),
        ([None, None], None, False),
        ([0.0, 0.0], 0.0, False),
    ],
)
def test_a_cost_that_nobody_knows_is_never_nothing(
    bench: Any, costs: list[float | None], usd: float | None, incomplete: bool
) -> None:
    async def asker(model: Any) -> str:
        for _ in costs:
            await model.complete("x")
        return "yes"

    left = iter(costs)
    prepared = bench.prepared()
    record = bench.one(prepared, lambda request: Reply("yes", cost=Cost(usd=next(left))), asker=asker)
    assert (record.cost.usd, record.cost.incomplete) == (usd, incomplete)
    assert on_disk(bench, prepared).cost == record.cost


def test_tokens_that_nobody_counted_are_never_zero(bench: Any) -> None:
    async def asker(model: Any) -> str:
        await model.complete("x")
        await model.complete("x")
        return "yes"

    usages = iter([Usage(input=3, output=2, cache_read=0), Usage(input=4, reasoning=1, cache_read=0)])
    record = bench.one(bench.prepared(), lambda request: Reply("yes", usage=next(usages)), asker=asker)
    assert record.usage == Usage(input=7, cache_read=0, output=None, reasoning=None, cache_write=None)


def test_what_was_paid_is_counted_as_it_is_paid(bench: Any, run: Any) -> None:
    prepared = bench.prepared()
    measuring = bench.measuring(lambda request: Reply("yes", cost=Cost(usd=0.25)))

    async def main() -> None:
        await measuring.permutation(prepared, bench.decide(prepared, bench.permutation(prepared, runs=3)))
        await measuring.permutation(prepared, bench.decide(prepared, bench.permutation(prepared, runs=3)))

    run(main)
    assert (measuring.paid, measuring.calls) == (0.75, 3)


def test_attempts_inside_one_call_are_counted(bench: Any) -> None:
    reply = Reply("yes", attempts=[{"status": 429}, {"status": 529}, {"status": 200}])
    record = bench.one(bench.prepared(), lambda request: reply)
    assert (record.turns, record.attempts) == (1, 3)


@pytest.mark.parametrize(
    ("odd", "shown"),
    [
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (object(), "<object>"),
        ({1: (2, None)}, {"1": [2, None]}),
        (b"x", "<bytes>"),
    ],
    ids=["NaN", "infinity", "an object", "a number as key", "bytes"],
)
def test_a_response_without_a_json_form_does_not_lose_the_answer(bench: Any, odd: Any, shown: Any) -> None:
    prepared = bench.prepared()
    reply = Reply("yes", raw=[odd], envelope={"odd": odd}, observed={"odd": odd})
    record = bench.one(prepared, lambda request: reply)
    assert (record.state, record.knobs.observed) == ("valid", {"odd": shown})
    assert on_disk(bench, prepared) == record
    (path,) = bench.store.root.rglob("a-1.json")
    (call,) = bench.store.artifacts(path, record.evidence)
    assert (call["response"], call["envelope"]) == ([shown], {"odd": shown})
