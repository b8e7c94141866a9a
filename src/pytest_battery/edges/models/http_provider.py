"""Models behind an HTTP API: one request, its attempts, and what was really on the wire."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import httpx

from pytest_battery.edges.models.anthropic import VertexAnthropic
from pytest_battery.edges.models.api_names import api
from pytest_battery.edges.models.apis import Answer, Api, Wire
from pytest_battery.edges.models.host_slots import HostSlots
from pytest_battery.edges.models.http_faults import LONGEST_WAIT, TABLE, Failure, of_answer, of_status, of_transport
from pytest_battery.edges.models.knobs import observed, refuse, wire_fields
from pytest_battery.edges.models.limiter import Limiter
from pytest_battery.edges.models.patience import waiting_its_turn
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


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and bytes: ``total`` bounds one attempt whatever trickles in, ``idle`` the silence inside a stream;
    ``first_wait`` is the mean of the first wait between attempts, doubled each time."""

    attempts: int = 5
    connect: float = 10.0
    idle: float = 60.0
    total: float = 600.0
    body: int = 64_000_000
    first_wait: float = 1.0


@dataclass(slots=True)
class _Got:
    """What came back of one attempt that is an answer."""

    answer: Answer
    raw: Any
    status: int
    headers: Mapping[str, str]


class _FailedAttempt(Exception):
    def __init__(self, failure: Failure) -> None:
        self.failure = failure


class HttpProvider:
    """A `Provider` over one `httpx.AsyncClient` per call in flight, each used again by the next.

    There is one layer of retries, this one.  A retry is no new sample: the attempts are kept with the reply.
    """

    def __init__(
        self,
        config: ProviderConfig,
        *,
        environ: Mapping[str, str] = os.environ,
        price: Price | None = None,
        rates: Callable[[Subject], Rates | None] = lambda subject: None,
        limits: Limits | None = None,
    ) -> None:
        self.config = config
        self.credential = Credential(config, environ)
        self.limiter = Limiter(config.max_in_flight)
        self._environ, self._price, self._limits = environ, price, limits or Limits()
        self.rates = rates
        self._api: Api | None = None
        self._slots: HostSlots | None = None
        self._free: list[httpx.AsyncClient] = []
        self._all: list[httpx.AsyncClient] = []

    # -- before any call ---------------------------------------------------------------------------

    def identify(self, subject: Subject) -> Mapping[str, Any]:
        refuse(self.config.api, subject, self.config.dialect)
        return {}

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
        subject, config = request.subject, self.config
        try:
            fields = wire_fields(config.api, subject, config.dialect)
            wire = self._speaks().wire(request, fields, key=self.credential.value(), stream=config.stream)
        except ProviderError as error:
            raise CallError("refused", "us", str(error)) from None
        body = json.dumps(wire.body, ensure_ascii=False).encode("utf-8", "surrogatepass")
        attempts: list[dict[str, Any]] = []
        while True:
            started = time.monotonic()
            try:
                async with self.limiter.permit(subject):
                    started = time.monotonic()
                    try:
                        got = await self._once(wire, body)
                    except _FailedAttempt as failed:
                        self.limiter.failed(subject, failed.failure)
                        raise
                self.limiter.succeeded()
            except _FailedAttempt as failed:
                failure = failed.failure
                attempts.append(self._attempt(started, failure))
                if not failure.row.retry or len(attempts) >= self._limits.attempts:
                    raise self._given_up(failure, len(attempts)) from None
                await self._wait(failure, len(attempts))
                continue
            attempts.append(self._attempt(started, None, got.status))
            return self._reply(request, wire, body, got, attempts)

    async def _wait(self, failure: Failure, attempts: int) -> None:
        """What the provider asks for, else exponential with full jitter; never the run's own time."""
        mean = self._limits.first_wait * 2 ** (attempts - 1)
        wait = random.uniform(0, 2 * mean) if failure.wait is None else failure.wait * random.uniform(1.0, 1.05)
        with waiting_its_turn():
            await anyio.sleep(min(wait, LONGEST_WAIT))

    def _given_up(self, failure: Failure, attempts: int) -> CallError:
        times = f" ({attempts} attempts)" if attempts > 1 else ""
        hint = (
            f"; the key comes from {self.config.key_env}" if failure.row.kind == "key" and self.config.key_env else ""
        )
        kind = f"http-{failure.status}" if failure.row.kind in ("http-4xx", "http-5xx") else failure.row.kind
        return CallError(kind, failure.row.fault, f"{self.config.name}{times}: {failure.message}{hint}")

    def _attempt(self, started: float, failure: Failure | None, status: int | None = None) -> dict[str, Any]:
        return {
            "status": status if failure is None else failure.status,
            "error": None if failure is None else failure.row.kind,
            "message": None if failure is None else failure.message,
            "wall_ms": round((time.monotonic() - started) * 1000),
        }

    async def _once(self, wire: Wire, body: bytes) -> _Got:
        """One attempt.  Raises `_FailedAttempt`."""
        try:
            with anyio.fail_after(self._limits.total):
                async with self._client() as client:
                    return await self._sent(client, wire, body)
        except _FailedAttempt:
            raise
        except CallError as error:
            raise _FailedAttempt(of_answer(error)) from None
        except TimeoutError:
            what = f"no whole answer within {self._limits.total:g} s"
            raise _FailedAttempt(Failure(TABLE["timeout"], what)) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise _FailedAttempt(of_transport(error)) from error

    async def _sent(self, client: httpx.AsyncClient, wire: Wire, body: bytes) -> _Got:
        headers = {"content-type": "application/json", **self.config.headers, **wire.headers}
        async with client.stream("POST", f"{self._base_url()}/{wire.path}", content=body, headers=headers) as response:
            kept = {name: value for name, value in response.headers.items() if _is_kept(name)}
            if response.status_code >= 300 or response.status_code < 200:
                content = await self._bounded(response)
                text = content.decode("utf-8", "replace")
                raise _FailedAttempt(of_status(response.status_code, response.headers, text))
            if self.config.stream and "event-stream" in response.headers.get("content-type", ""):
                return await self._streamed(response, kept)
            content = await self._bounded(response)
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            shown = content[:200].decode("utf-8", "replace")
            failure = Failure(TABLE["not-json"], f"the answer is no JSON: {shown!r}", response.status_code)
            raise _FailedAttempt(failure) from None
        return _Got(self._speaks().read(document), document, response.status_code, kept)

    async def _streamed(self, response: httpx.Response, kept: Mapping[str, str]) -> _Got:
        reading, events = self._speaks().stream(), Events()
        chunks: list[list[str | None]] = []
        size = 0

        def take(content: bytes, last: bool = False) -> None:
            for name, data in events.feed(content, last=last):
                chunks.append([name, data])
                reading.feed(name, data)

        async for content in response.aiter_bytes():
            size += len(content)
            if size > self._limits.body:
                raise CallError("too-long", "infrastructure", f"the answer is longer than {self._limits.body} bytes")
            take(content)
            if reading.ended:
                break
        else:
            take(b"", last=True)
        return _Got(reading.answer(), {"stream": chunks}, response.status_code, kept)

    async def _bounded(self, response: httpx.Response) -> bytes:
        content = bytearray()
        async for part in response.aiter_bytes():
            content += part
            if len(content) > self._limits.body:
                raise CallError("too-long", "infrastructure", f"the answer is longer than {self._limits.body} bytes")
        return bytes(content)

    def _reply(self, request: Request, wire: Wire, body: bytes, got: _Got, attempts: list[dict[str, Any]]) -> Reply:
        sent = json.loads(body)  # the bytes that were sent, not what they were made from
        answer, subject = got.answer, request.subject
        cost = Cost() if self._price is None else self._price(subject, answer.usage, answer.model)
        return Reply(
            text=answer.text,
            stop_reason=answer.stop_reason,
            usage=answer.usage,
            cost=cost,
            model=answer.model,
            observed=observed(self.config.api, subject.model, sent, self.config.dialect),
            envelope={"method": "POST", "url": f"{self._base_url()}/{wire.path}", "body": sent},
            raw=got.raw,
            status=got.status,
            headers=got.headers,
            attempts=tuple(attempts),
        )

    # -- connections -------------------------------------------------------------------------------

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[httpx.AsyncClient]:
        client = self._free.pop() if self._free else self._new_client()
        try:
            yield client
        finally:
            self._free.append(client)

    def _new_client(self) -> httpx.AsyncClient:
        limits = self._limits
        quiet = limits.idle if self.config.stream else limits.total
        client = httpx.AsyncClient(
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(limits.total, connect=limits.connect, read=quiet),
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
        )
        self._all.append(client)
        return client

    async def aclose(self) -> None:
        clients, self._all, self._free = self._all, [], []
        for client in clients:
            await client.aclose()


def _is_kept(name: str) -> bool:
    return name in _KEPT or name.startswith(_KEPT_STARTS)
