"""How many calls a provider is sent at once: as many as it takes, and fewer where it says so."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic

from pytest_battery.edges.models.http_faults import Failure
from pytest_battery.edges.models.patience import waiting_its_turn
from pytest_battery.errors import CallError
from pytest_battery.values.subjects import Subject

__all__ = ["FIRST_LIMIT", "Limiter"]

FIRST_LIMIT = 64
_PROBE_AFTER = 20  # rounds of successes after which a limit the provider once set is tried again


class Limiter:
    """Additive increase; each 429 is one call too many, and takes one off.

    A burst of 60 refusals among 64 calls so leaves the 4 that were let through.  5xx pauses growth.  What the provider
    asks for, in Retry-After, the refused call waits by itself.  A subject whose quota is spent is not asked again.
    """

    def __init__(self, most: int | None = None, *, clock: Callable[[], float] = monotonic) -> None:
        self.most = most
        self.limit = float(min(FIRST_LIMIT, most) if most else FIRST_LIMIT)
        self.in_flight = 0
        self.refusals = 0
        self._ceiling: float | None = None
        self._successes = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._spent: dict[str, str] = {}
        self._clock = clock

    def check(self, subject: Subject) -> None:
        """Raises `CallError` (``quota``) for a subject whose quota is spent."""
        if (said := self._spent.get(subject.ref)) is not None:
            raise CallError("quota", "infrastructure", f"{subject.ref} is not asked again in this session: {said}")

    @asynccontextmanager
    async def permit(self, subject: Subject) -> AsyncIterator[None]:
        """Held during one attempt."""
        with waiting_its_turn():
            while self.in_flight >= max(1, int(self.limit)):
                turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiting.append(turn)
                try:
                    await turn
                except asyncio.CancelledError:
                    if turn.done() and not turn.cancelled():
                        self._wake()  # the turn that was given is passed on
                    else:
                        self._waiting.remove(turn)
                    raise
        self.check(subject)
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self._wake()

    def succeeded(self) -> None:
        self._successes += 1
        room = self._ceiling if self._ceiling is not None else self.most or float("inf")
        if self._ceiling is not None and self._successes >= _PROBE_AFTER * self.limit:
            self._ceiling, room = None, self.limit + 1
        if self.limit < room:
            self.limit = min(self.limit + 1 / self.limit, self.most or float("inf"))
            self._wake()

    def failed(self, subject: Subject, failure: Failure) -> None:
        if failure.row.stops:
            self._spent[subject.ref] = failure.message
        self._successes = 0
        if failure.row.kind == "http-429":
            self.refusals += 1
            self.limit = max(1.0, min(self.limit, float(self.in_flight)) - 1)
            self._ceiling = self.limit

    def _wake(self) -> None:
        free = max(1, int(self.limit)) - self.in_flight
        while self._waiting and free > 0:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                free -= 1
