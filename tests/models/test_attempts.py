"""The one layer of retries, with a clock of its own: nothing sleeps."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest

from pytest_battery.edges.models.attempts import LONGEST_BACKOFF, Attempted, AttemptFailed, Retries, attempted
from pytest_battery.edges.models.http_faults import LONGEST_WAIT, TABLE, Failure, of_status
from pytest_battery.edges.models.limiter import Limiter
from pytest_battery.edges.models.patience import running_limit
from pytest_battery.errors import CallError
from pytest_battery.values.subjects import parse_subject

SUBJECT = parse_subject("lan/m")
FAILED, REFUSED = of_status(503, {}, ""), of_status(429, {}, "")


def middle(low: float, high: float) -> float:
    return (low + high) / 2


def asked(outcomes: Sequence[Failure | str], **more: object) -> tuple[Attempted[str] | CallError, list[float], Limiter]:
    """What comes of a call whose attempts end in *outcomes*, the last one for ever; the waits, and the limiter."""
    waits: list[float] = []
    now = 0.0
    count = 0

    async def pause(seconds: float) -> None:
        nonlocal now
        now += seconds

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await pause(seconds)

    async def once() -> tuple[str, int]:
        nonlocal count
        outcome = outcomes[min(count, len(outcomes) - 1)]
        count += 1
        if isinstance(outcome, Failure):
            raise AttemptFailed(outcome)
        return outcome, 200

    limiter = Limiter(clock=lambda: now, sleep=pause)

    async def work() -> Attempted[str] | CallError:
        retries = Retries(sleep=sleep, **{"uniform": middle, **more})  # type: ignore[arg-type]
        try:
            return await attempted(once, name="lan", subject=SUBJECT, limiter=limiter, retries=retries)
        except CallError as error:
            return error

    return anyio.run(work), waits, limiter


def test_an_answer_at_once_is_one_attempt() -> None:
    done, waits, limiter = asked(["yes"])
    assert isinstance(done, Attempted)
    assert (done.answer, done.lost, waits) == ("yes", False, [])
    (attempt,) = done.attempts
    assert (attempt["status"], attempt["error"], attempt["message"]) == (200, None, None)
    assert limiter.in_flight == 0


def test_every_attempt_is_told_in_order() -> None:
    done, _, _ = asked([FAILED, REFUSED, Failure(TABLE["connection"], "reset"), "yes"])
    assert isinstance(done, Attempted)
    assert [(one["status"], one["error"]) for one in done.attempts] == [
        (503, "http-503"),
        (429, "http-429"),
        (None, "connection"),
        (200, None),
    ]
    assert all(one["waited_s"] >= 0 and one["wall_ms"] >= 0 for one in done.attempts)


def test_five_failures_end_a_call_and_are_told() -> None:
    timeout = Failure(TABLE["timeout"], "nothing came")
    error, waits, _ = asked([timeout, FAILED])
    assert isinstance(error, CallError)
    assert (error.kind, error.fault) == ("http-503", "infrastructure")
    assert str(error) == "lan (5 attempts: timeout, 4 x http-503): HTTP 503: nothing more"
    assert len(waits) == 4


def test_refusals_are_counted_apart_for_the_provider_says_later() -> None:
    done, _, _ = asked([REFUSED] * 19 + ["yes"])
    assert isinstance(done, Attempted)
    assert len(done.attempts) == 20
    done, _, _ = asked([REFUSED] * 19 + [FAILED] * 4 + ["yes"])
    assert isinstance(done, Attempted)
    error, waits, _ = asked([REFUSED])
    assert isinstance(error, CallError)
    assert str(error).startswith("lan (20 attempts: 20 x http-429): ")
    assert len(waits) == 19


@pytest.mark.parametrize("row", [row for row in TABLE.values() if not row.retry], ids=lambda row: row.kind)
def test_what_another_attempt_cannot_help_has_none(row: object) -> None:
    error, waits, _ = asked([Failure(row, "no")])  # type: ignore[arg-type]
    assert isinstance(error, CallError)
    assert (str(error), waits) == ("lan: no", [])


def test_waits_double_up_to_a_bound() -> None:
    _, waits, _ = asked([REFUSED])
    assert waits == [1, 2, 4, 8, *[LONGEST_BACKOFF / 2] * 15]


def test_the_jitter_is_full() -> None:
    ranges: list[tuple[float, float]] = []

    def lowest(low: float, high: float) -> float:
        ranges.append((low, high))
        return low

    _, waits, _ = asked([FAILED], uniform=lowest)
    assert ranges == [(0, 2), (0, 4), (0, 8), (0, 16)]
    assert waits == [0, 0, 0, 0]


@pytest.mark.parametrize("seconds", [0.25, 7.0, 119.0])
def test_what_the_provider_asks_for_is_waited_and_hardly_more(seconds: float) -> None:
    for uniform in (min, max):
        _, waits, _ = asked([Failure(TABLE["http-429"], "busy", 429, seconds), "yes"], uniform=uniform)
        assert seconds <= waits[0] <= min(1.05 * seconds, LONGEST_WAIT)


def test_an_attempt_that_may_have_been_paid_is_not_forgotten() -> None:
    lost = {}
    for kind in ("timeout", "stream-cut", "http-429", "connection"):
        done, _, _ = asked([Failure(TABLE[kind], "no"), "yes"])
        assert isinstance(done, Attempted)
        lost[kind] = done.lost
    assert lost == {"timeout": True, "stream-cut": True, "http-429": False, "connection": False}


def test_the_limiter_is_told_of_refusals_and_answers() -> None:
    done, _, limiter = asked([REFUSED, REFUSED, "yes"])
    assert isinstance(done, Attempted)
    assert (limiter.refusals, limiter.limit, limiter.in_flight) == (2, 2, 0)


def test_a_quota_that_is_spent_is_not_asked_for_another_time() -> None:
    error, _, limiter = asked([of_status(402, {}, "no credit")])
    assert isinstance(error, CallError)
    with pytest.raises(CallError, match="no credit"):
        limiter.check(SUBJECT)


def test_waits_between_attempts_are_not_the_runs_own_time() -> None:
    async def once() -> tuple[str, int]:
        if not failed:
            failed.append(True)
            raise AttemptFailed(Failure(TABLE["http-5xx"], "busy", 503, 0.1))
        return "yes", 200

    failed: list[bool] = []

    async def work() -> bool:
        with running_limit(0.02) as scope:
            await attempted(once, name="lan", subject=SUBJECT, limiter=Limiter(), retries=Retries())
        return scope.cancelled_caught

    assert anyio.run(work) is False
