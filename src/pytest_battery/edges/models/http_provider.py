"""Models behind an HTTP API: one request, its attempts, and what was really on the wire."""

from __future__ import annotations

import json
import os
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import aiohttp
import anyio
import certifi

from pytest_battery.edges.models.anthropic import VertexAnthropic
from pytest_battery.edges.models.api_names import api
from pytest_battery.edges.models.apis import Answer, Api, Wire
from pytest_battery.edges.models.attempts import Attempted, AttemptFailed, Retries, attempted
from pytest_battery.edges.models.host_slots import HostSlots
from pytest_battery.edges.models.http_faults import TABLE, Failure, of_answer, of_status, of_transport
from pytest_battery.edges.models.knobs import observed, refuse, wire_fields
from pytest_battery.edges.models.limiter import Limiter
from pytest_battery.edges.models.providers import Credential, ProviderConfig
from pytest_battery.edges.models.runtime_dir import runtime_directory
from pytest_battery.edges.models.sse import Events
from pytest_battery.errors import CallError, ProviderError
from pytest_battery.values.calls import Reply, Request
from pytest_battery.values.canonical import digest
from pytest_battery.values.subjects import Subject
from pytest_battery.values.usage import Cost, Rates, Usage

__all__ = ["HttpProvider", "Limits", "Price"]

Price = Callable[[Subject, Usage, "str | None"], Cost]
"""``price(subject, usage, model_that_answered)``."""

_KEPT = ("date", "request-id", "retry-after", "server-timing", "x-request-id", "openai-processing-ms", "cf-ray")
_KEPT_STARTS = ("x-ratelimit-", "anthropic-ratelimit-")
_SHOWN = ("anthropic-beta", "anthropic-version", "content-type", "openai-beta")
"""Headers of a request whose values go into the evidence: they shape the answer and hold no credential."""
_NO_HEADER = re.compile(r"[^\t\x20-\x7e]")
_KEEP_ALIVE = 30.0  # seconds
_HEADER = 65536  # bytes of one line of a head: there are proxies that write a book into them
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
        self._environ, self._price = environ, price
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
        except (aiohttp.ClientError, ValueError) as error:  # a ValueError is of a header that is none
            raise AttemptFailed(of_transport(error)) from error
        except TimeoutError:
            what = f"no whole answer within {self._limits.total:g} s"
            raise AttemptFailed(Failure(TABLE["timeout"], what)) from None
        except OSError as error:
            raise AttemptFailed(of_transport(error)) from error

    async def _sent(self, session: aiohttp.ClientSession, wire: Wire, body: bytes) -> _Got:
        url, headers = f"{self._base_url()}/{wire.path}", self._headers(wire)
        async with session.post(url, data=body, headers=headers, allow_redirects=False) as response:
            kept = {name: value for name, value in _lower(response.headers) if _is_kept(name)}
            if response.status >= 300 or response.status < 200:
                content = await self._bounded(response)
                text = content.decode("utf-8", "replace")
                failure = of_status(response.status, response.headers, text)
                hint = f"; the key comes from {self.config.key_env}" if self.config.key_env else ""
                raise AttemptFailed(
                    replace(failure, message=failure.message + hint) if failure.kind == "key" else failure
                )
            if self.config.stream and "event-stream" in response.headers.get("content-type", ""):
                answer, raw = await self._streamed(response)
                return _Got(wire, body, answer, raw, response.status, kept)
            content = await self._bounded(response)
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            shown = content[:200].decode("utf-8", "replace")
            failure = Failure(TABLE["not-json"], f"the answer is no JSON: {shown!r}", response.status)
            raise AttemptFailed(failure) from None
        return _Got(wire, body, self._speaks().read(document), document, response.status, kept)

    def _headers(self, wire: Wire) -> dict[str, str]:
        headers = {"content-type": "application/json", **self.config.headers, **wire.headers}
        for name, value in headers.items():
            if _NO_HEADER.search(value):  # beyond ASCII the other side could only guess what is meant
                raise ValueError(f"the header {name} holds characters that no header may hold")
        return headers

    async def _streamed(self, response: aiohttp.ClientResponse) -> tuple[Answer, Any]:
        reading, events = self._speaks().stream(), Events()
        chunks: list[list[str | None]] = []
        size = 0

        def take(content: bytes, last: bool = False) -> None:
            for name, data in events.feed(content, last=last):
                chunks.append([name, data])
                reading.feed(name, data)

        parts = response.content.iter_any()
        async for content in parts:
            size += len(content)
            if size > self._limits.body:
                raise CallError("too-long", "infrastructure", f"the answer is longer than {self._limits.body} bytes")
            take(content)
            if reading.ended:
                await _drained(parts)
                break
        else:
            take(b"", last=True)
        return reading.answer(), {"stream": chunks}

    async def _bounded(self, response: aiohttp.ClientResponse) -> bytes:
        content = bytearray()
        async for part in response.content.iter_any():
            content += part
            if len(content) > self._limits.body:
                raise CallError("too-long", "infrastructure", f"the answer is longer than {self._limits.body} bytes")
        return bytes(content)

    def _reply(self, subject: Subject, done: Attempted[_Got]) -> Reply:
        got, config = done.answer, self.config
        sent = json.loads(got.body)  # the bytes that were sent, not what they were made from
        answer = got.answer
        cost = Cost() if self._price is None else self._price(subject, answer.usage, answer.model)
        headers = {name.lower(): value for name, value in self._headers(got.wire).items()}
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
                "headers": {name: headers[name] for name in _SHOWN if name in headers},
                "body": sent,
            },
            raw=got.raw,
            status=got.status,
            headers=got.headers,
            attempts=done.attempts,
        )

    # -- connections -------------------------------------------------------------------------------

    def _connections(self) -> aiohttp.ClientSession:
        """One session for the event loop that this object lives in; the limiter bounds what it has open."""
        if self._session is None:
            limits = self._limits
            quiet = limits.idle if self.config.stream else limits.total
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE, ssl=self._tls()),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.connect, sock_read=quiet),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"user-agent": f"pytest-battery/{version('pytest-battery')}"},
                max_line_size=_HEADER,
                max_field_size=_HEADER,
                trust_env=False,
            )
        return self._session

    def _tls(self) -> ssl.SSLContext | bool:
        """Whom to trust.  To read the certificates costs 50 ms of CPU, and is left out where there is no TLS."""
        if self.config.base_url.startswith("http://"):
            return True
        file, directory = self._environ.get("SSL_CERT_FILE"), self._environ.get("SSL_CERT_DIR")
        if directory and not file:
            return ssl.create_default_context(capath=directory)
        return ssl.create_default_context(cafile=file or certifi.where())

    async def aclose(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _lower(headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((name.lower(), value) for name, value in headers.items())


async def _drained(parts: AsyncIterator[bytes]) -> None:
    """Read what is there after the end marker, and no more than a moment of it."""
    with suppress(aiohttp.ClientError), anyio.move_on_after(_TAIL):
        async for _ in parts:
            pass


def _is_kept(name: str) -> bool:
    return name in _KEPT or name.startswith(_KEPT_STARTS)
