"""How many calls a provider is sent at once: as many as it takes, and fewer where it says so."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import monotonic

import anyio

from pytest_battery.edges.models.http_faults import LONGEST_WAIT, Failure
from pytest_battery.edges.models.patience import waiting_its_turn
from pytest_battery.errors import CallError
from pytest_battery.values.subjects import Subject

__all__ = ["FIRST_LIMIT", "PAUSE", "Limiter"]

FIRST_LIMIT = 64
PAUSE = 1.0
"""Seconds for which nobody starts after a refusal that names no time."""

_PROBE_AFTER = 20  # rounds of successes after which a limit the provider once set is tried again


class Limiter:
    """Additive increase; each 429 is one call too many, and takes one off.

    A burst of 60 refusals among 64 calls so leaves the 4 that were let through, and the refused ones wait what
    Retry-After asks for while the 4 go on.  A call that is refused while it is alone was not one too many, but too
    soon: then nobody starts before the time the provider names, and the limit doubles with each round from there.
    5xx pauses growth.  A subject whose quota is spent is not asked again.

    *most* is never exceeded.  Times are of *clock*, in seconds.
    """

    def __init__(
        self,
        most: int | None = None,
        *,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[object]] = anyio.sleep,
    ) -> None:
        self.most = most
        self.limit = float(min(FIRST_LIMIT, most) if most else FIRST_LIMIT)
        self.in_flight = 0
        self.refusals = 0
        self.not_before = float("-inf")
        self._ceiling: float | None = None
        self._doubling = False
        self._successes = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._spent: dict[str, str] = {}
        self._clock, self._sleep = clock, sleep

    def check(self, subject: Subject) -> None:
        """Raises `CallError` (``quota``) for a subject whose quota is spent."""
        if (said := self._spent.get(subject.ref)) is not None:
            raise CallError("quota", "infrastructure", f"{subject.ref} is not asked again in this session: {said}")

    @asynccontextmanager
    async def permit(self, subject: Subject) -> AsyncIterator[None]:
        """Held during one attempt.  Raises `CallError` (``quota``), also where the quota was spent meanwhile."""
        self.check(subject)
        with waiting_its_turn():
            await self._turn()
        try:
            if self.not_before > self._clock():
                with waiting_its_turn():
                    while (left := self.not_before - self._clock()) > 0:
                        await self._sleep(left)
            self.check(subject)
            yield
        finally:
            self._leave()

    def succeeded(self) -> None:
        self._successes += 1
        room = self._ceiling if self._ceiling is not None else self.most or float("inf")
        if self._ceiling is not None and self._successes >= _PROBE_AFTER * self.limit:
            self._ceiling, room = None, self.limit + 1
        if self.limit < room:
            step = 1.0 if self._doubling and self.limit < FIRST_LIMIT else 1 / self.limit
            self.limit = min(self.limit + step, self.most or float("inf"))
            self._wake()

    def failed(self, subject: Subject, failure: Failure) -> None:
        """Called while the permit of the failed attempt is still held."""
        if failure.row.stops:
            self._spent[subject.ref] = failure.message
        self._successes = 0
        if failure.row.kind != "http-429":
            return
        self.refusals += 1
        alone = self.in_flight <= 1
        self.limit = max(1.0, min(self.limit, float(self.in_flight)) - 1)
        self._doubling, self._ceiling = alone, None if alone else self.limit
        if alone:
            wait = PAUSE if failure.wait is None else min(failure.wait, LONGEST_WAIT)
            self.not_before = max(self.not_before, self._clock() + wait)

    async def _turn(self) -> None:
        """A place in flight; those who wait are served in order."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._wake()
        if turn.done():
            return
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._leave()  # the place that was given just then goes to the next
            raise

    def _leave(self) -> None:
        self.in_flight -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self.in_flight < max(1, int(self.limit)):
            turn = self._waiting.popleft()
            if not turn.done():  # else whoever waited has been cancelled
                self.in_flight += 1
                turn.set_result(None)
