"""The pump: work runs ahead in a loop of its own, results are taken in order, and leaving ends it all."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from pytest_battery.doing.pump import Pump


async def nothing() -> None:
    """Closing that lets go of nothing."""


def pump_of(work: Callable[[str], Awaitable[Any]], closing: Callable[[], Awaitable[None]] = nothing) -> Pump[str, Any]:
    return Pump(work, closing)


class OddError(BaseException):
    """No `Exception`, as pytest's own outcomes are none."""


def test_results_are_those_of_their_keys_in_whatever_order_they_are_taken() -> None:
    async def work(key: str) -> str:
        return key.upper()

    with pump_of(work) as pump:
        for key in "abc":
            pump.start(key)
        assert [pump.result(key) for key in "cab"] == ["C", "A", "B"]
        assert pump.unfinished == 0


def test_the_work_of_a_key_never_started_is_started_by_asking_for_its_result() -> None:
    async def work(key: str) -> str:
        return key

    with pump_of(work) as pump:
        assert not pump.started("a")
        assert pump.result("a") == "a"


def test_work_runs_once_however_often_it_is_started() -> None:
    ran = []

    async def work(key: str) -> None:
        ran.append(key)

    with pump_of(work) as pump:
        pump.start("a")
        pump.start("a")
        assert pump.started("a")
        pump.result("a")
    assert ran == ["a"]


def test_all_work_runs_in_one_loop_beside_the_thread_that_waits() -> None:
    async def work(key: str) -> int:
        return threading.get_ident()

    with pump_of(work) as pump:
        threads = {pump.result(key) for key in "abc"}
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_later_work_is_under_way_while_earlier_work_is_waited_for() -> None:
    met = anyio.Event()

    async def work(key: str) -> str:
        if key == "late":
            met.set()
        else:
            await met.wait()  # only the later one can end this
        return key

    with pump_of(work) as pump:
        pump.start("early")
        pump.start("late")
        assert pump.result("early") == "early"
        assert pump.result("late") == "late"


def test_refill_is_asked_for_more_whenever_other_work_has_ended() -> None:
    done: list[str] = []
    ready = anyio.Event()

    async def work(key: str) -> str:
        if key == "slow":
            await ready.wait()
        elif key == "last":
            ready.set()
        done.append(key)
        return key

    refills: list[int] = []
    with pump_of(work) as pump:

        def refill() -> None:
            refills.append(pump.unfinished)
            for key in ("a", "b", "last"):
                if not pump.started(key):
                    pump.start(key)
                    return

        assert pump.result("slow", refill) == "slow"
    assert done == ["a", "b", "last", "slow"]
    assert len(refills) >= 3


@pytest.mark.parametrize("error", [ValueError("mine"), OddError("odd"), SystemExit(3)], ids=["error", "odd", "exit"])
def test_what_work_raises_reaches_whoever_asks_and_nobody_else(error: BaseException) -> None:
    async def work(key: str) -> str:
        if key == "bad":
            raise error
        await anyio.lowlevel.checkpoint()
        return key

    with pump_of(work) as pump:
        for key in ("before", "bad", "after"):
            pump.start(key)
        with pytest.raises(type(error)) as caught:
            pump.result("bad")
        assert caught.value is error
        assert (pump.result("before"), pump.result("after"), pump.result("more")) == ("before", "after", "more")
        assert pump.unfinished == 0


def test_leaving_cancels_what_runs_and_waits_for_what_must_be_written() -> None:
    order = []
    running = threading.Event()

    async def work(key: str) -> None:
        try:
            running.set()
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()  # as writing a record takes a while
                order.append(f"{key} written")

    async def closing() -> None:
        order.append("closed")

    with pump_of(work, closing) as pump:
        pump.start("a")
        running.wait()
    assert order == ["a written", "closed"]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), ValueError()], ids=["Ctrl-C", "an error"])
def test_what_interrupts_the_wait_cancels_that_work_and_closes(interrupt: BaseException) -> None:
    order = []
    running = threading.Event()

    async def work(key: str) -> None:
        try:
            running.set()
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            order.append("cancelled")
            raise

    async def closing() -> None:
        order.append("closed")

    def refill() -> None:
        running.wait()
        raise interrupt

    with pytest.raises(type(interrupt)), pump_of(work, closing) as pump:
        pump.result("a", refill)
    assert order == ["cancelled", "closed"]


def test_a_closing_that_fails_is_told_and_the_loop_ends_all_the_same() -> None:
    async def work(key: str) -> str:
        return key

    async def closing() -> None:
        raise RuntimeError("will not")

    threads = threading.active_count()
    with pytest.raises(RuntimeError, match="will not"), pump_of(work, closing) as pump:
        pump.result("a")
    assert threading.active_count() == threads


def test_what_was_started_in_the_last_moment_is_not_begun_when_the_context_is_left() -> None:
    begun = []

    async def work(key: int) -> None:
        begun.append(key)
        await anyio.sleep_forever()

    async def nothing() -> None: ...

    with Pump(work, nothing) as pump:
        for key in range(200):
            pump.start(key)
    assert pump.unfinished == 0
    assert len(begun) <= 200
