"""The one layer of retries: a call is asked again as long as that is safe and may help."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import anyio

from pytest_battery.edges.models.http_faults import LONGEST_WAIT, Failure
from pytest_battery.edges.models.limiter import Limiter
from pytest_battery.edges.models.patience import waiting_its_turn
from pytest_battery.errors import CallError
from pytest_battery.values.subjects import Subject

__all__ = ["LONGEST_BACKOFF", "AttemptFailed", "Attempted", "Retries", "attempted"]

LONGEST_BACKOFF = 30.0
"""Seconds: the longest wait that no provider asked for."""

Answered = TypeVar("Answered")


class AttemptFailed(Exception):
    """One attempt that gave no answer."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.message)


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and when a call is asked again.

    ``failures`` bounds the attempts that may fail, and ``refusals`` those that are refused with a 429: a provider that
    says "later" has done no work and means it, so it is asked more often.  Where it names no time, the waits are
    exponential with full jitter: uniform between 0 and twice a mean of ``first_wait`` seconds, which doubles each time,
    up to `LONGEST_BACKOFF`.
    """

    failures: int = 5
    refusals: int = 20
    first_wait: float = 1.0
    uniform: Callable[[float, float], float] = random.uniform
    sleep: Callable[[float], Awaitable[object]] = anyio.sleep

    def wait(self, failure: Failure, count: int) -> float:
        """Seconds before the next attempt, after *count* that failed; never over `LONGEST_WAIT`."""
        if failure.wait is not None:
            # A little later than asked for, and not all at the same moment.
            wait = failure.wait * self.uniform(1.0, 1.05)
        else:
            doubled = 2.0 * self.first_wait * 2.0 ** min(count - 1, 16)
            wait = self.uniform(0.0, min(doubled, LONGEST_BACKOFF))
        return min(wait, LONGEST_WAIT)

    def gives_up(self, failure: Failure, failures: int, refusals: int) -> bool:
        return not failure.row.retry or failures >= self.failures or refusals >= self.refusals


@dataclass(frozen=True, slots=True)
class Attempted(Generic[Answered]):
    """The answer, and every attempt it took: ``status``, ``error`` (the kind), ``message``, ``waited_s`` before it
    and its own ``wall_ms``.  ``lost`` says that an attempt without an answer may have been paid for."""

    answer: Answered
    attempts: tuple[dict[str, Any], ...]
    lost: bool


@dataclass(slots=True)
class _Log:
    """The attempts of one call so far."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    lost: bool = False
    ended: float = field(default_factory=time.monotonic)
    refusals: int = 0

    def add(self, started: float, failure: Failure | None, status: int | None) -> None:
        now = time.monotonic()
        self.entries.append(
            {
                "status": status,
                "error": None if failure is None else failure.kind,
                "message": None if failure is None else failure.message,
                "waited_s": round(started - self.ended, 3),
                "wall_ms": round((now - started) * 1000),
            }
        )
        self.ended = now
        if failure is not None:
            self.lost = self.lost or failure.row.paid
            self.refusals += failure.row.kind == "http-429"

    def told(self) -> str:
        """`` (5 attempts: 4 x http-5xx, timeout)``; nothing for a single one."""
        if len(self.entries) < 2:
            return ""
        kinds = Counter(entry["error"] for entry in self.entries)
        told = ", ".join(f"{count} x {kind}" if count > 1 else str(kind) for kind, count in kinds.items())
        return f" ({len(self.entries)} attempts: {told})"


async def attempted(
    once: Callable[[], Awaitable[tuple[Answered, int]]],
    *,
    name: str,
    subject: Subject,
    limiter: Limiter,
    retries: Retries,
) -> Attempted[Answered]:
    """Ask *once*, which returns the answer and its status, as often as *retries* allow; *name* is the provider's.

    A retry is no new sample: all attempts are of one call.  Waiting is not the run's own time.
    Raises `CallError`, which tells the attempts, where none gave an answer.
    """
    log = _Log()
    while True:
        try:
            async with limiter.permit(subject):
                started = time.monotonic()
                try:
                    answer, status = await once()
                except AttemptFailed as failed:
                    limiter.failed(subject, failed.failure)
                    raise
                log.add(started, None, status)
        except AttemptFailed as failed:
            failure = failed.failure
            log.add(started, failure, failure.status)
            count = len(log.entries)
            if retries.gives_up(failure, count - log.refusals, log.refusals):
                raise CallError(failure.kind, failure.row.fault, f"{name}{log.told()}: {failure.message}") from None
        else:
            limiter.succeeded()
            return Attempted(answer, tuple(log.entries), log.lost)
        with waiting_its_turn():
            await retries.sleep(retries.wait(failure, count))
