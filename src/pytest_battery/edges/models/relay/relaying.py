"""The relay: the one thing an agent in its sandbox can reach, and what it takes for its model."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from pytest_battery.edges.models.relay.asking import Asking, asking_of, parsed
from pytest_battery.edges.models.relay.caps import Caps, Spent
from pytest_battery.edges.models.relay.incoming import body_of, passed_headers, shows
from pytest_battery.edges.models.relay.passing import Passing, start_of, until_gone
from pytest_battery.edges.models.relay.proof import Summary, summed
from pytest_battery.edges.models.relay.recordings import Recording, parts_of
from pytest_battery.edges.models.relay.refusals import Refusal, error_body
from pytest_battery.edges.models.relay.routes import Route, route_of
from pytest_battery.edges.models.relay.sameness import Sameness
from pytest_battery.edges.models.relay.serving import served
from pytest_battery.edges.models.relay.upstreams import Upstream
from pytest_battery.errors import ProviderError
from pytest_battery.values.relayed import RelayedCall
from pytest_battery.values.subjects import Subject
from pytest_battery.values.usage import Cost, Usage

__all__ = ["Price", "Relay"]

Price = Callable[[Subject, Usage, "str | None"], Cost]
"""``price(subject, usage, model_that_answered)``."""

_WAITING = 256  # connections beyond the calls that may go out at once
_LISTED = 100  # of what should not have come, so many are kept by name


class Relay:
    """One run's model endpoint, an ASGI application; whoever asks is answered by *subject*, with its knobs.

    *source* is who really answers: an `Upstream`, or a `Recording` for a replay.  *agent_model* is the model the agent
    was set to, where that is not the subject's own name.  *price* says what an answer cost.  With *token*, only who
    shows it as its key is let in, for an agent that is not in a network of its own.

    Any path prefix is taken.  The provider's errors go through as they are, and are recorded; nothing is asked twice,
    for agents do that themselves.
    """

    def __init__(
        self,
        subject: Subject,
        source: Upstream | Recording,
        *,
        agent_model: str | None = None,
        caps: Caps | None = None,
        price: Price | None = None,
        token: str | None = None,
    ) -> None:
        self.subject, self.caps = subject, caps or Caps()
        self.source, self._price, self._token = source, price, token
        self.agent_model = agent_model or subject.model
        self._spent = Spent(self.caps)
        self._sameness = Sameness(source.wording.api)
        self._room = anyio.CapacityLimiter(self.caps.at_once)
        self._calls: dict[int, tuple[RelayedCall, Asking | None]] = {}
        self._number = self._refused = 0
        self._missing: list[str] = []
        self._unknown: list[str] = []
        self._broken: list[str] = []

    # -- before and after ----------------------------------------------------------------------------

    def check(self) -> None:
        """Raises `ProviderError` where the run cannot be made: a knob that cannot be honoured, no credential, or a limit
        of money and no price."""
        if isinstance(self.source, Recording):
            self.source.wording.check(self.subject)
            return
        self.source.check(self.subject)
        if self.caps.usd is not None:
            one = Usage(input=1, cache_read=0, cache_write=0, output=1)
            cost = None if self._price is None else self._price(self.subject, one, None)
            if cost is None or cost.usd is None:
                raise ProviderError(
                    f"{self.subject}: the run has a limit of ${self.caps.usd:.4f}, and what the model costs is not "
                    "known: declare a price in battery.toml ([providers.X] price), or take the limit away"
                )

    @asynccontextmanager
    async def serving(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serve on *listener*, which is closed at the end, with all calls that are on their way then."""
        self._spent.begin()
        async with served(self, listener, at_once=self.caps.at_once + _WAITING):
            yield

    @property
    def calls(self) -> tuple[RelayedCall, ...]:
        """The calls that have ended, in the order in which they began."""
        for number, (call, asking) in self._calls.items():
            if asking is not None:  # not while the agent waits
                key = self._sameness.hash(self.subject, asking.body)
                self._calls[number] = (replace(call, request_hash=key), None)
        return tuple(self._calls[number][0] for number in sorted(self._calls))

    @property
    def ended_by(self) -> str | None:
        """The cap that ended the run: ``calls``, ``tokens``, ``uncounted``, ``usd``, ``unpriced``, ``bytes`` or
        ``deadline``; None while it isn't over."""
        return self._spent.ended_by

    def summary(self) -> Summary:
        return summed(
            self.subject,
            self.calls,
            broken=self._broken,
            missing=self._missing,
            unknown=self._unknown,
            refused=self._refused,
            ended_by=self.ended_by,
        )

    # -- a request -----------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        route = route_of(request.method, scope["path"], scope["query_string"].decode("latin-1"))
        try:
            if self._token is not None and not shows(request, self._token):
                self._note(f"{_asked(request)} without the token")
                raise Refusal(401, "token", "the key is not the one this run was given")
            if route.what == "call":
                async with self._room:
                    await self._call(request, route, send)
                return
            await self._other(request, route)(scope, receive, send)
        except Refusal as refusal:
            # Some clients ask again after any error; this is heeded by most.
            headers = {"x-should-retry": "false"}
            response = JSONResponse(error_body(route.api, refusal), refusal.status, headers)
            await response(scope, receive, send)
        except ClientDisconnect:
            pass  # before it had asked
        except Exception as error:
            # Whoever serves this says nothing of it to anybody.
            self._broken.append(f"the relay failed at {_asked(request)}: {error!r}"[:500])
            raise

    def _other(self, request: Request, route: Route) -> JSONResponse:
        """The answer to what is no call.  Raises `Refusal`."""
        name = self.agent_model
        if route.what == "probe":
            return JSONResponse({})
        if route.what == "models":
            about = {"id": name, "object": "model", "type": "model", "created": 0, "owned_by": "pytest-battery"}
            if not request.scope["path"].rstrip("/").endswith("/models"):
                return JSONResponse({**about, "name": f"models/{name}", "display_name": name})
            listed = {"object": "list", "data": [{**about, "display_name": name}], "has_more": False}
            return JSONResponse({**listed, "models": [{"name": f"models/{name}", "displayName": name}]})
        what = _asked(request)
        if route.what == "count":
            raise Refusal(404, "not_found", "tokens are not counted here")
        self._note(what)
        if route.what == "method":
            raise Refusal(405, "method", f"{what}: only POST is answered here")
        raise Refusal(404, "not_found", f"{what} is not known here")

    def _note(self, what: str) -> None:
        if len(self._unknown) < _LISTED:
            self._unknown.append(what)

    async def _call(self, request: Request, route: Route, send: Send) -> None:
        wording = self.source.wording
        if route.api != wording.api:
            self._note(f"{_asked(request)} ({route.api})")
            raise Refusal(404, "other_api", f"{self.subject} is asked by the API {wording.api}, and not by {route.api}")
        with anyio.move_on_after(self.caps.call_seconds) as limit:
            content = await body_of(request, self.caps.request_bytes)
        if limit.cancelled_caught:
            raise Refusal(400, "slow", f"the request did not come within {self.caps.call_seconds:g} s")
        asking = asking_of(parsed(content), route, subject=self.subject, wording=wording, agent_model=self.agent_model)
        if (over := self._spent.begins()) is not None:
            self._refused += 1
            raise Refusal(403, "run_over", over)
        self._number += 1
        if isinstance(self.source, Recording):
            await self._replay(self.source, asking, self._number, send)
        else:
            await self._forward(self.source, asking, self._number, request, send)

    async def _forward(self, upstream: Upstream, asking: Asking, number: int, request: Request, send: Send) -> None:
        passing = Passing(asking, self.caps, self._spent, send)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(until_gone, request.receive, group.cancel_scope)
                await passing.forward(upstream, self.subject, passed_headers(request))
                group.cancel_scope.cancel()
        finally:
            self._keep(number, asking, passing)
        await passing.finish(request.scope, request.receive)

    def _keep(self, number: int, asking: Asking, passing: Passing) -> None:
        answer = passing.answer
        cost = Cost(incomplete=passing.lost)
        if answer is not None and self._price is not None:
            cost = self._price(self.subject, answer.usage, answer.model)
        call = RelayedCall(
            number=number,
            api=asking.api,
            subject=self.subject,
            request_hash="",
            started=passing.started,
            envelope={"body": asking.body} if passing.outgoing is None else passing.outgoing.envelope,
            asked_model=asking.asked_model,
            helper=asking.helper,
            observed=asking.observed,
            wall_ms=passing.wall_ms,
            first_byte_ms=passing.first_byte_ms,
            status=passing.status,
            headers=passing.headers,
            response=passing.response(),
            whole=passing.whole,
            cost=cost,
            kind=passing.kind,
            fault=passing.fault,
            message=passing.message,
        )
        if answer is not None:
            call = replace(
                call, text=answer.text, stop_reason=answer.stop_reason, usage=answer.usage, model=answer.model
            )
        self._calls[number] = (call, asking)
        self._spent.take(call, passing.size)

    async def _replay(self, recording: Recording, asking: Asking, number: int, send: Send) -> None:
        key = self._sameness.hash(self.subject, asking.body)
        call = recording.take(key)
        if call is None:
            what = f"call {number} is not in the recording: {recording.missing(self.subject, asking.body, key)}"
            if len(self._missing) < _LISTED:
                self._missing.append(what)
            raise Refusal(400, "not_recorded", what)
        self._calls[number] = (replace(call, number=number, request_hash=key), None)
        self._spent.take(call, 0)
        if call.status is None:
            return  # the agent gave it up before there was an answer, and nothing can be said now
        await send(start_of(call.status, call.headers))
        for part in parts_of(call.response):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        if call.whole:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _asked(request: Request) -> str:
    return f"{request.method} {request.scope['path'][:200]}"
