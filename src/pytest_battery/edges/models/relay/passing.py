"""One call on its way from the agent to the provider and back, byte by byte, and what is known of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import anyio
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from pytest_battery.edges.models.apis import Answer
from pytest_battery.edges.models.attempts import AttemptFailed
from pytest_battery.edges.models.http_faults import TABLE, Failure, of_answer
from pytest_battery.edges.models.relay.asking import Asking
from pytest_battery.edges.models.relay.caps import Caps, Spent
from pytest_battery.edges.models.relay.refusals import Refusal, error_body
from pytest_battery.edges.models.relay.tee import Tee
from pytest_battery.edges.models.relay.transport import Opened, Outgoing
from pytest_battery.edges.models.relay.upstreams import Upstream
from pytest_battery.errors import CallError, Fault, ProviderError
from pytest_battery.values.subjects import Subject

__all__ = ["Passing", "start_of", "until_gone"]

_KEPT = frozenset(
    [
        "cf-ray",
        "content-type",
        "date",
        "openai-processing-ms",
        "request-id",
        "retry-after",
        "retry-after-ms",
        "server-timing",
        "x-request-id",
        "x-should-retry",
    ]
)
_KEPT_STARTS = ("x-ratelimit-", "anthropic-ratelimit-")
_TAIL = 1.0  # seconds for what follows the end marker of a stream


class Passing:
    """``kind`` is None once there is an answer, and ``abandoned`` until then: whatever cuts the call off, it is told
    rightly."""

    def __init__(self, asking: Asking, caps: Caps, spent: Spent, send: Send) -> None:
        self._asking, self._caps, self._spent, self._send = asking, caps, spent, send
        self._clock = time.monotonic()
        self._tee: Tee | None = None
        self._said: dict[str, Any] | None = None
        self.started = datetime.now(UTC)
        self.outgoing: Outgoing | None = None
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.first_byte_ms: int | None = None
        self.whole = False
        self.answer: Answer | None = None
        self.kind: str | None = "abandoned"
        self.fault: Fault | None = "infrastructure"
        self.message: str | None = "the agent went away, or the run ended, before the answer was whole"
        self._paid = True

    @property
    def lost(self) -> bool:
        """Whether work was done that may be charged, though no answer came."""
        return self._paid and self.outgoing is not None

    @property
    def wall_ms(self) -> int:
        return max(0, round((time.monotonic() - self._clock) * 1000))

    @property
    def size(self) -> int:
        sent = 0 if self.outgoing is None else len(self.outgoing.content)
        return sent + (0 if self._tee is None else self._tee.size)

    def response(self) -> Any:
        """What the agent was answered."""
        return self._said if self._tee is None else self._tee.response()

    async def forward(self, upstream: Upstream, subject: Subject, passed: Mapping[str, str]) -> None:
        """All but the last byte for the agent: that is for `finish`, when the call is written down."""
        try:
            asked = anyio.current_time()
            async with upstream.turn(subject):
                self._spent.waited(anyio.current_time() - asked)
                self._clock, self.started = time.monotonic(), datetime.now(UTC)
                self.outgoing = upstream.outgoing(subject, self._asking, passed)
                failure = await self._bounded(upstream, self.outgoing)
                if self.kind != "deadline":
                    upstream.told(subject, failure)
        except CallError as error:
            self._failed(error.kind, error.fault, str(error))
            self._says(429 if error.kind == "quota" else 502, error.kind)
        except ProviderError as error:
            self._failed("refused", "us", str(error))
            self._says(400, "refused")

    async def finish(self, scope: Scope, receive: Receive) -> None:
        """The rest for the agent.  An answer that broke off breaks off for the agent, too."""
        if self._said is not None:
            await JSONResponse(self._said, self.status or 502)(scope, receive, self._send)
        elif self.whole:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _bounded(self, upstream: Upstream, outgoing: Outgoing) -> Failure | None:
        """The call within its time; why it is no answer, None if it is one."""
        caps, now = self._caps, anyio.current_time()
        until = min(now + caps.call_seconds, self._spent.deadline)
        failure: Failure | None = None
        with anyio.CancelScope(deadline=min(until, now + caps.first_byte_seconds)) as scope:
            try:
                async with upstream.opened(outgoing) as opened:
                    self._tee = Tee(upstream.speaker(), opened.status, opened.headers, caps.answer_bytes)
                    await self._pass(opened, self._tee, scope, until)
            except CallError as error:
                failure = of_answer(error)
            except AttemptFailed as error:
                failure = error.failure
        tee = self._tee
        if tee is not None and tee.ended:
            self.whole, failure = True, None  # whatever became of the connection after the end marker
        elif scope.cancelled_caught and not self.whole:
            if anyio.current_time() >= self._spent.deadline:
                self._spent.end("deadline", f"the run may take {caps.seconds:g} s, and they are over")
                self._failed("deadline", "infrastructure", "the run's time was over before the answer was whole")
                self._says(403, "deadline")
                return None
            failure = Failure(TABLE["timeout"], self._silence(until))
        if tee is not None:
            tee.close()
            if failure is None:
                got = tee.answer()
                self.answer, failure = (None, got) if isinstance(got, Failure) else (got, None)
        if failure is None:
            self.kind = self.fault = self.message = None
            self._paid = False
        else:
            self._failed(failure.kind, failure.row.fault, failure.message, paid=failure.row.paid)
            self._says(504 if failure.kind == "timeout" else 502, failure.kind)
        return failure

    async def _pass(self, opened: Opened, tee: Tee, scope: anyio.CancelScope, until: float) -> None:
        self.headers = {name: value for name, value in opened.headers.items() if _is_kept(name)}
        self.status = opened.status if 200 <= opened.status <= 599 else 502
        await self._send(start_of(self.status, self.headers))
        parts = aiter(opened.parts)
        while True:
            try:
                part = await anext(parts)
            except StopAsyncIteration:
                break
            if self.first_byte_ms is None:
                self.first_byte_ms = self.wall_ms
            scope.deadline = until  # an agent that is slow to take it is not the provider's silence
            tee.feed(part)
            await self._send({"type": "http.response.body", "body": part, "more_body": True})
            scope.deadline = min(until, anyio.current_time() + (_TAIL if tee.ended else self._caps.idle_seconds))
        self.whole = True

    def _failed(self, kind: str, fault: Fault, message: str, *, paid: bool = True) -> None:
        self.kind, self.fault, self.message, self._paid = kind, fault, message, paid

    def _says(self, status: int, code: str) -> None:
        """The relay answers itself, unless an answer has begun."""
        if self._tee is None:
            self.status, self.headers, self.whole = status, {"content-type": "application/json"}, True
            self._said = error_body(self._asking.api, Refusal(status, code, self.message or code))

    def _silence(self, until: float) -> str:
        caps = self._caps
        if anyio.current_time() >= until:
            return f"no whole answer within {caps.call_seconds:g} s"
        if self.first_byte_ms is None:
            return f"no byte of an answer within {caps.first_byte_seconds:g} s"
        return f"no byte more of the answer within {caps.idle_seconds:g} s"


def start_of(status: int, headers: Mapping[str, str]) -> Message:
    """The ASGI message that begins a response."""
    raw = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": raw}


async def until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    """Cancel *scope* when whoever asked has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _is_kept(name: str) -> bool:
    return name in _KEPT or name.startswith(_KEPT_STARTS)
