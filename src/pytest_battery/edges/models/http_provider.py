"""Models behind an HTTP API: one request, its attempts, and what was really on the wire."""

from __future__ import annotations

import io
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import anyio

from pytest_battery.edges.models.anthropic import VertexAnthropic
from pytest_battery.edges.models.api_names import api
from pytest_battery.edges.models.apis import Answer, Api, Wire
from pytest_battery.edges.models.attempts import Attempted, AttemptFailed, Retries, attempted
from pytest_battery.edges.models.host_slots import HostSlots
from pytest_battery.edges.models.http_faults import TABLE, Failure, of_answer, of_status, of_transport
from pytest_battery.edges.models.http_headers import kept, received, sendable, shown
from pytest_battery.edges.models.http_session import new_session, trust
from pytest_battery.edges.models.knobs import observed, refuse, wire_fields
from pytest_battery.edges.models.limiter import Limiter
from pytest_battery.edges.models.providers import Credential, ProviderConfig
from pytest_battery.edges.models.runtime_dir import runtime_directory
from pytest_battery.edges.models.sse import Events
from pytest_battery.edges.models.unpacking import Unpacking
from pytest_battery.errors import CallError, ProviderError
from pytest_battery.values.calls import Reply, Request
from pytest_battery.values.canonical import digest
from pytest_battery.values.subjects import Subject
from pytest_battery.values.usage import Cost, Rates, Usage

__all__ = ["HttpProvider", "Limits", "Price"]

Price = Callable[[Subject, Usage, "str | None"], Cost]
"""``price(subject, usage, model_that_answered)``."""

_AT_ONCE = 2**20  # bytes: aiohttp warns of a longer body that isn't a file
_TAIL = 0.05  # seconds for what follows the end marker of a stream, so that its connection can be used again


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and bytes of one attempt: ``total`` bounds it whatever trickles in, ``idle`` the silence inside a stream
    (models that think before they speak are silent for minutes), ``body`` what is read of an answer, unpacked."""

    connect: float = 10.0
    idle: float = 300.0
    total: float = 600.0
    body: int = 64_000_000


@dataclass(slots=True)
class _Got:
    """What came back of one attempt that is an answer."""

    wire: Wire
    body: bytes
    answer: Answer
    raw: Any
    status: int
    headers: Mapping[str, str]


class HttpProvider:
    """A `Provider` over one `aiohttp.ClientSession`: as many connections as calls in flight, used again by the next.

    Nothing is taken from the environment but the credential and the certificates to trust (``SSL_CERT_FILE``): no
    proxy, no ``.netrc``.  *price* says what a reply cost, *rates* by what sessions plan.
    """

    def __init__(
        self,
        config: ProviderConfig,
        *,
        environ: Mapping[str, str] = os.environ,
        price: Price | None = None,
        rates: Callable[[Subject], Rates | None] = lambda subject: None,
        limits: Limits | None = None,
        retries: Retries | None = None,
    ) -> None:
        self.config = config
        self.credential = Credential(config, environ)
        self.limiter = Limiter(config.max_in_flight)
        self.rates = rates
        self._environ, self.price = environ, price
        self._limits, self._retries = limits or Limits(), retries or Retries()
        self._api: Api | None = None
        self._slots: HostSlots | None = None
        self._session: aiohttp.ClientSession | None = None

    # -- before any call ---------------------------------------------------------------------------

    def identify(self, subject: Subject) -> Mapping[str, Any]:
        refuse(self.config.api, subject, self.config.dialect)
        return self.config.identity()

    def check(self, subject: Subject) -> None:
        self._speaks()
        self.credential.value()

    def limit(self, subject: Subject) -> int | None:
        return self.config.max_in_flight

    def engine(self) -> str | None:
        return None

    def secrets(self) -> Mapping[str, str]:
        """What must not be written down: the key or token, once it is known."""
        return self.credential.known()

    @asynccontextmanager
    async def slot(self, subject: Subject) -> AsyncIterator[None]:
        self.limiter.check(subject)
        if self.config.max_in_flight is None:
            yield
            return
        if self._slots is None:
            place = digest([self.config.name, self.config.base_url])[:16]
            self._slots = HostSlots(runtime_directory(), f"http-{place}", self.config.max_in_flight)
        async with self._slots.hold():  # all processes of this host together
            yield

    def _speaks(self) -> Api:
        if self._api is None:
            if self.config.vertex is None:
                self._api = api(self.config.api)
            else:
                project, location = (self._variable(name) for name in self.config.vertex)
                self._api = VertexAnthropic(project, location)
        return self._api

    def _variable(self, name: str) -> str:
        value = self._environ.get(name, "").strip()
        if not value:
            raise ProviderError(f"{self.config.name}: the variable {name} is not set")
        return value

    def _base_url(self) -> str:
        base = self.config.base_url
        if self.config.vertex is not None:
            base = base.replace("{location}", self._variable(self.config.vertex[1]))
        return base.rstrip("/")

    # -- a call ------------------------------------------------------------------------------------

    async def complete(self, request: Request) -> Reply:
        """Ask, and ask again where that may help.  Raises `CallError`: a kind of the table, or ``refused`` for what
        cannot be asked at all."""
        config, subject = self.config, request.subject
        try:
            fields = wire_fields(config.api, subject, config.dialect)
            done = await attempted(
                lambda: self._once(request, fields),
                name=config.name,
                subject=subject,
                limiter=self.limiter,
                retries=self._retries,
            )
        except ProviderError as error:
            raise CallError("refused", "us", str(error)) from None
        return self._reply(subject, done)

    async def _once(self, request: Request, fields: Mapping[str, Any]) -> tuple[_Got, int]:
        """One attempt; a token that has run out is replaced in it.  Raises `AttemptFailed` and `ProviderError`."""
        key = self.credential.value()
        try:
            got = await self._asked(request, fields, key)
        except AttemptFailed as failed:
            if failed.failure.status != 401 or not self.credential.renewed(key):
                raise
            got = await self._asked(request, fields, self.credential.value())
        return got, got.status

    async def _asked(self, request: Request, fields: Mapping[str, Any], key: str | None) -> _Got:
        wire = self._speaks().wire(request, fields, key=key, stream=self.config.stream)
        body = json.dumps(wire.body, ensure_ascii=False).encode("utf-8", "surrogatepass")
        try:
            with anyio.fail_after(self._limits.total):
                return await self._sent(self._connections(), wire, body)
        except CallError as error:
            raise AttemptFailed(of_answer(error)) from None
        except aiohttp.ClientError as error:
            raise AttemptFailed(of_transport(error)) from error
        except TimeoutError:
            what = f"no whole answer within {self._limits.total:g} s"
            raise AttemptFailed(Failure(TABLE["timeout"], what)) from None
        except OSError as error:
            raise AttemptFailed(of_transport(error)) from error

    async def _sent(self, session: aiohttp.ClientSession, wire: Wire, body: bytes) -> _Got:
        url = f"{self._base_url()}/{wire.path}"
        sent = io.BytesIO(body) if len(body) > _AT_ONCE else body
        try:
            response = await session.post(url, data=sent, headers=self._headers(wire), allow_redirects=False)
        except ValueError as error:  # of a URL, a host or a header that is none, or of a certificate
            raise AttemptFailed(of_transport(error)) from error
        async with response:
            status, headers = response.status, received(response.headers)
            if status >= 300 or status < 200:
                content = await self._bounded(response, headers)
                failure = of_status(status, headers, content.decode("utf-8", "replace"))
                hint = f"; the key comes from {self.config.key_env}" if self.config.key_env else ""
                raise AttemptFailed(
                    replace(failure, message=failure.message + hint) if failure.kind == "key" else failure
                )
            if self.config.stream and "event-stream" in headers.get("content-type", ""):
                answer, raw = await self._streamed(response, headers)
                return _Got(wire, body, answer, raw, status, kept(headers))
            content = await self._bounded(response, headers)
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            shown = content[:200].decode("utf-8", "replace")
            failure = Failure(TABLE["not-json"], f"the answer is no JSON: {shown!r}", status)
            raise AttemptFailed(failure) from None
        return _Got(wire, body, self._speaks().read(document), document, status, kept(headers))

    def _headers(self, wire: Wire) -> dict[str, str]:
        return sendable({"content-type": "application/json", **self.config.headers, **wire.headers})

    async def _streamed(self, response: aiohttp.ClientResponse, headers: Mapping[str, str]) -> tuple[Answer, Any]:
        reading, events = self._speaks().stream(), Events()
        chunks: list[list[str | None]] = []
        unpacking, size = Unpacking(headers.get("content-encoding", "")), 0

        def take(content: bytes, last: bool = False) -> None:
            for name, data in events.feed(content, last=last):
                chunks.append([name, data])
                reading.feed(name, data)

        parts = response.content.iter_any()
        async for part in parts:
            for content in unpacking.fed(part):
                size += len(content)
                self._bound(size)
                take(content)
            if reading.ended:
                await _drained(parts)
                break
        else:
            unpacking.end()
            take(b"", last=True)
        return reading.answer(), {"stream": chunks}

    async def _bounded(self, response: aiohttp.ClientResponse, headers: Mapping[str, str]) -> bytes:
        content, unpacking = bytearray(), Unpacking(headers.get("content-encoding", ""))
        async for part in response.content.iter_any():
            for piece in unpacking.fed(part):
                content += piece
                self._bound(len(content))
        unpacking.end()
        return bytes(content)

    def _bound(self, size: int) -> None:
        if size > self._limits.body:
            raise CallError("too-long", "infrastructure", f"the answer is longer than {self._limits.body} bytes")

    def _reply(self, subject: Subject, done: Attempted[_Got]) -> Reply:
        got, config = done.answer, self.config
        sent = json.loads(got.body)  # the bytes that were sent, not what they were made from
        answer = got.answer
        cost = Cost() if self.price is None else self.price(subject, answer.usage, answer.model)
        return Reply(
            text=answer.text,
            stop_reason=answer.stop_reason,
            usage=answer.usage,
            cost=cost.model_copy(update={"incomplete": True}) if done.lost else cost,
            model=answer.model,
            observed=observed(config.api, subject.model, sent, config.dialect),
            envelope={
                "method": "POST",
                "url": f"{self._base_url()}/{got.wire.path}",
                "headers": shown(self._headers(got.wire)),
                "body": sent,
            },
            raw=got.raw,
            status=got.status,
            headers=got.headers,
            attempts=done.attempts,
        )

    # -- connections -------------------------------------------------------------------------------

    def _connections(self) -> aiohttp.ClientSession:
        """One session for the event loop that this object lives in, until `aclose`."""
        if self._session is None:
            limits = self._limits
            self._session = new_session(
                connect=limits.connect,
                quiet=limits.idle if self.config.stream else limits.total,
                tls=trust(self.config.base_url, self._environ),
            )
        return self._session

    async def aclose(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


async def _drained(parts: AsyncIterator[bytes]) -> None:
    """Read what is there after the end marker, and no more than a moment of it."""
    with suppress(aiohttp.ClientError), anyio.move_on_after(_TAIL):
        async for _ in parts:
            pass
