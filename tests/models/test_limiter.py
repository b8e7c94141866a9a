"""How many calls are in flight at once, and who starts when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import anyio
import pytest

from pytest_battery.edges.models.http_faults import LONGEST_WAIT, TABLE, Failure, of_status
from pytest_battery.edges.models.limiter import FIRST_LIMIT, PAUSE, Limiter
from pytest_battery.edges.models.patience import running_limit
from pytest_battery.errors import CallError
from pytest_battery.values.subjects import parse_subject

A, B = parse_subject("lan/a"), parse_subject("lan/b")
REFUSED = of_status(429, {}, "")


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await anyio.lowlevel.checkpoint()


def limiter_with(most: int | None = None, in_flight: int = 0) -> tuple[Limiter, Clock]:
    clock = Clock()
    limiter = Limiter(most, clock=clock, sleep=clock.sleep)
    limiter.in_flight = in_flight
    return limiter, clock


def run(work: Callable[[], Awaitable[object]]) -> None:
    """To the end, or fail where it hangs."""

    async def bounded() -> None:
        with anyio.fail_after(10):
            await work()

    anyio.run(bounded)


async def started(limiter: Limiter, count: int) -> list[asyncio.Task[None]]:
    """*count* tasks that want a permit and keep it until they are cancelled; all have asked for it."""

    async def hold() -> None:
        async with limiter.permit(A):
            await asyncio.get_running_loop().create_future()

    tasks = [asyncio.create_task(hold()) for _ in range(count)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends


@pytest.mark.parametrize(("most", "limit"), [(None, FIRST_LIMIT), (3, 3), (500, FIRST_LIMIT)])
def test_it_starts_with_what_is_allowed_and_not_with_everything(most: int | None, limit: int) -> None:
    assert Limiter(most).limit == limit


def test_no_more_are_in_flight_than_the_limit() -> None:
    async def work() -> None:
        limiter = Limiter(3)
        most = 0

        async def one() -> None:
            nonlocal most
            async with limiter.permit(A):
                most = max(most, limiter.in_flight)
                await anyio.lowlevel.checkpoint()
            limiter.succeeded()

        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(one)
        assert (most, limiter.in_flight) == (3, 0)

    run(work)


def test_those_who_wait_are_served_in_order() -> None:
    async def work() -> None:
        limiter = Limiter(1)
        order: list[int] = []

        async def one(number: int) -> None:
            async with limiter.permit(A):
                order.append(number)
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(one, number)
        assert order == list(range(10))

    run(work)


def test_a_burst_leaves_those_that_were_let_through() -> None:
    limiter, clock = limiter_with(in_flight=64)
    for _ in range(60):
        limiter.failed(A, REFUSED)
        limiter.in_flight -= 1
    assert limiter.limit == 4
    assert limiter.not_before <= clock.now, "the four that were let through go on"


def test_a_limit_that_the_provider_set_is_tried_again_after_a_while_and_grows() -> None:
    limiter, _ = limiter_with(8, in_flight=8)
    for _ in range(3):
        limiter.failed(A, REFUSED)
        limiter.in_flight -= 1
    assert limiter.limit == 5
    for _ in range(99):
        limiter.succeeded()
    assert limiter.limit == 5
    limiter.succeeded()
    assert limiter.limit > 5
    for _ in range(1000):
        limiter.succeeded()
    assert limiter.limit == 8


def test_a_server_that_fails_lowers_no_limit_and_lets_none_grow() -> None:
    limiter, _ = limiter_with(8, in_flight=8)
    limiter.failed(A, REFUSED)
    for _ in range(139):
        limiter.succeeded()
    limiter.failed(A, of_status(503, {}, ""))
    limiter.succeeded()
    assert limiter.limit == 7, "140 successes in a row would have raised it"


@pytest.mark.parametrize(
    ("wait", "paused"), [(None, PAUSE), (7.0, 7.0), (LONGEST_WAIT, LONGEST_WAIT), (LONGEST_WAIT * 9, LONGEST_WAIT)]
)
def test_a_refusal_of_one_that_is_alone_makes_all_wait(wait: float | None, paused: float) -> None:
    async def work() -> None:
        limiter, clock = limiter_with()
        begun = clock.now
        async with limiter.permit(A):
            limiter.failed(A, Failure(TABLE["http-429"], "too soon", 429, wait))
        assert not clock.slept
        async with limiter.permit(B):
            assert clock.now == begun + paused
        async with limiter.permit(B):
            assert clock.now == begun + paused, "once it is over it is over"

    run(work)


def test_after_all_were_refused_the_limit_doubles_with_each_round() -> None:
    limiter, _ = limiter_with(in_flight=64)
    for _ in range(64):
        limiter.failed(A, REFUSED)
        limiter.in_flight -= 1
    limits = []
    for _ in range(6):
        limits.append(round(limiter.limit))
        for _ in range(limits[-1]):
            limiter.succeeded()
    assert limits == [1, 2, 4, 8, 16, 32]


def test_waiting_for_the_provider_is_not_the_runs_own_time() -> None:
    async def work() -> None:
        limiter = Limiter(1)
        async with limiter.permit(A):
            limiter.failed(A, Failure(TABLE["http-429"], "too soon", 429, 0.1))
        with running_limit(0.02) as scope:
            async with limiter.permit(A):
                pass
        assert not scope.cancelled_caught

    run(work)


# -- quotas ---------------------------------------------------------------------------------------


def test_a_spent_quota_ends_the_subject_for_those_who_wait_too_and_no_other_subject() -> None:
    async def work() -> None:
        limiter = Limiter(1)
        ends: list[str] = []

        async def spender() -> None:
            async with limiter.permit(A):
                await anyio.wait_all_tasks_blocked()
                limiter.failed(A, of_status(402, {}, "no credit"))

        async def other(subject: str) -> None:
            try:
                async with limiter.permit(parse_subject(subject)):
                    ends.append(f"{subject} asks")
            except CallError as error:
                ends.append(f"{subject} {error.kind}")

        async with anyio.create_task_group() as group:
            group.start_soon(spender)
            for subject in ("lan/a", "lan/a", "lan/b", "lan/a", "lan/b"):
                group.start_soon(other, subject)
        assert sorted(ends) == ["lan/a quota"] * 3 + ["lan/b asks"] * 2
        assert limiter.in_flight == 0
        with pytest.raises(CallError, match="lan/a is not asked again in this session: HTTP 402: no credit"):
            limiter.check(A)
        limiter.check(B)

    run(work)


# -- cancelling -----------------------------------------------------------------------------------


def test_all_may_be_cancelled_at_once() -> None:
    async def work() -> None:
        limiter = Limiter(2)
        await cancelled(await started(limiter, 6))
        assert limiter.in_flight == 0
        await cancelled(await started(limiter, 2))

    run(work)


def test_a_turn_given_to_one_who_is_cancelled_goes_to_the_next() -> None:
    async def work() -> None:
        limiter = Limiter(1)
        holder, first, second = await started(limiter, 3)
        holder.cancel()
        await asyncio.sleep(0)  # the holder's place is given to the first, who doesn't know it yet
        first.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            while limiter.in_flight != 1 or not first.done():
                await asyncio.sleep(0)
        assert not second.done()
        await cancelled([second])
        assert limiter.in_flight == 0
        with pytest.raises(asyncio.CancelledError):
            await holder
        with pytest.raises(asyncio.CancelledError):
            await first

    run(work)


def test_who_is_cancelled_while_all_wait_for_the_provider_leaves_no_hole() -> None:
    async def work() -> None:
        limiter = Limiter(1)
        async with limiter.permit(A):
            limiter.failed(A, Failure(TABLE["http-429"], "too soon", 429, 60.0))
        with anyio.move_on_after(0.01) as scope:
            async with limiter.permit(A):
                raise AssertionError("started before its time")
        assert scope.cancelled_caught
        assert limiter.in_flight == 0

    run(work)
