"""What one run may use, and what it has used."""

from __future__ import annotations

from dataclasses import dataclass

import anyio

from pytest_battery.values.relayed import RelayedCall

__all__ = ["Caps", "Spent"]

_TOKENS = ("input", "cache_read", "cache_write", "output")


@dataclass(frozen=True, slots=True)
class Caps:
    """None is no limit.  ``calls``, ``tokens`` (of any kind) and ``usd`` are the run's; ``seconds`` are from the moment
    the relay serves.  A call may take ``call_seconds``, be silent for ``idle_seconds``, and take ``first_byte_seconds``
    until its first byte.  ``at_once`` calls go out at a time; the others wait.  ``request_bytes`` and ``answer_bytes``
    bound one call, ``kept_bytes`` all that is kept of the run's.

    A run is over when the next call would begin: what is on its way when a cap is reached is finished, and paid.
    """

    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None
    call_seconds: float = 600.0
    first_byte_seconds: float = 300.0
    idle_seconds: float = 300.0
    at_once: int = 8
    request_bytes: int = 32_000_000
    answer_bytes: int = 64_000_000
    kept_bytes: int = 256_000_000


class Spent:
    """What a run has used so far, and why it is over, once it is."""

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self.ended_by: str | None = None
        self._why = ""
        self._calls = self._tokens = self._kept = 0
        self._usd = 0.0
        self._uncounted = self._unpriced = False
        self._deadline = float("inf")

    def begin(self) -> None:
        """The clock runs from here."""
        if self._caps.seconds is not None:
            self._deadline = anyio.current_time() + self._caps.seconds

    @property
    def deadline(self) -> float:
        """On the clock of the event loop."""
        return self._deadline

    def waited(self, seconds: float) -> None:
        """Time that is nobody's: a call waited for its turn at the provider."""
        self._deadline += seconds

    def begins(self) -> str | None:
        """A call is about to begin.  Why it may not, None if it may."""
        caps = self._caps
        if self.ended_by is None:
            if caps.calls is not None and self._calls >= caps.calls:
                self.end("calls", f"the run may make {caps.calls} calls, and has made them")
            elif caps.tokens is not None and self._uncounted:
                self.end("uncounted", "the run has a limit of tokens, and an answer did not say how many it took")
            elif caps.tokens is not None and self._tokens >= caps.tokens:
                self.end("tokens", f"the run may use {caps.tokens} tokens, and has used {self._tokens}")
            elif caps.usd is not None and self._unpriced:
                self.end("unpriced", "the run has a limit of money, and what an answer cost is not known")
            elif caps.usd is not None and self._usd >= caps.usd:
                self.end("usd", f"the run may cost ${caps.usd:.4f}, and has cost ${self._usd:.4f}")
            elif self._kept >= caps.kept_bytes:
                self.end("bytes", f"more than {caps.kept_bytes} bytes of requests and answers")
            elif anyio.current_time() >= self._deadline:
                self.end("deadline", f"the run may take {caps.seconds:g} s, and they are over")
        if self.ended_by is not None:
            return self._why
        self._calls += 1
        return None

    def end(self, by: str, why: str) -> None:
        """The run is over; the first reason stands."""
        if self.ended_by is None:
            self.ended_by, self._why = by, why

    def take(self, call: RelayedCall, size: int) -> None:
        """A call has ended, and *size* bytes of it are kept."""
        self._kept += size
        counts = [getattr(call.usage, name) for name in _TOKENS]
        self._tokens += sum(count for count in counts if count is not None)
        self._usd += call.cost.usd or 0.0
        if call.answered:
            self._uncounted = self._uncounted or call.usage.output is None
            self._unpriced = self._unpriced or call.cost.usd is None
