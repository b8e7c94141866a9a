"""Who really answers: a provider over HTTP, or a model that llama.cpp runs here."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from typing import Any, Protocol

import anyio
import anyio.to_thread

from pytest_battery.edges.models.anthropic import VertexAnthropic
from pytest_battery.edges.models.api_names import api
from pytest_battery.edges.models.apis import Api
from pytest_battery.edges.models.host_slots import HostSlots
from pytest_battery.edges.models.http_faults import Failure
from pytest_battery.edges.models.limiter import Limiter
from pytest_battery.edges.models.llama_host import LlamaHost, Server
from pytest_battery.edges.models.local import LocalProvider
from pytest_battery.edges.models.providers import Credential, ProviderConfig
from pytest_battery.edges.models.relay.asking import Asking
from pytest_battery.edges.models.relay.transport import Opened, Outgoing, Transport
from pytest_battery.edges.models.relay.wording import HostedWording, LocalWording, Wording
from pytest_battery.errors import ProviderError
from pytest_battery.values.calls import Message, Request
from pytest_battery.values.subjects import Subject
from pytest_battery.values.usage import Cost, Usage

__all__ = ["HttpUpstream", "LocalUpstream", "Upstream", "local_price"]

_PLACED = ("model", "anthropic_version")
_SHOWN = ("anthropic-beta", "anthropic-version", "content-type", "openai-beta")
"""Headers of a request whose values go into the evidence: they shape the answer and hold no credential."""


class Upstream(Protocol):
    """One object for all runs of a process that ask the same provider."""

    wording: Wording

    def speaker(self) -> Api: ...

    def check(self, subject: Subject) -> None:
        """Raises `ProviderError` where *subject* cannot be asked here and now."""
        ...

    def turn(self, subject: Subject) -> AbstractAsyncContextManager[None]:
        """Held during a call: waits until the provider has room.  Raises `CallError`, such as for a spent quota."""
        ...

    def told(self, subject: Subject, failure: Failure | None) -> None:
        """How the call went, while its turn is still held."""
        ...

    def outgoing(self, subject: Subject, asking: Asking, passed: Mapping[str, str]) -> Outgoing:
        """*passed* are headers of the agent's that shape the answer.  Raises `ProviderError`."""
        ...

    def opened(self, outgoing: Outgoing) -> AbstractAsyncContextManager[Opened]:
        """Raises `AttemptFailed`, also while the body is read."""
        ...

    async def aclose(self) -> None: ...


class HttpUpstream:
    """The provider of *config*.

    *limiter* and *slot* are those of an `HttpProvider` of the same process, where there is one, so that calls of agents
    and other calls take turns; *credential* likewise.  A run must not hold the provider's slot beside this: each of its
    calls takes one.
    """

    def __init__(
        self,
        config: ProviderConfig,
        *,
        environ: Mapping[str, str] = os.environ,
        credential: Credential | None = None,
        limiter: Limiter | None = None,
        slot: Callable[[Subject], AbstractAsyncContextManager[None]] | None = None,
    ) -> None:
        self.config = config
        self.wording: Wording = HostedWording(config)
        self._environ = environ
        self._credential = credential or Credential(config, environ)
        self._limiter = limiter or Limiter(config.max_in_flight)
        self._slot = slot
        self._transport = Transport(tls=not config.base_url.startswith("http://"), keep=True)
        self._speaker: Api | None = None

    def secrets(self) -> Mapping[str, str]:
        """What must not be written down: the key or token, once it is known."""
        return self._credential.known()

    def speaker(self) -> Api:
        if self._speaker is None:
            if self.config.vertex is None:
                self._speaker = api(self.config.api)
            else:
                project, location = (self._variable(name) for name in self.config.vertex)
                self._speaker = VertexAnthropic(project, location)
        return self._speaker

    def check(self, subject: Subject) -> None:
        self.wording.check(subject)
        self.speaker()
        self._credential.value()

    @asynccontextmanager
    async def turn(self, subject: Subject) -> AsyncIterator[None]:
        slot = nullcontext() if self._slot is None else self._slot(subject)
        async with slot, self._limiter.permit(subject):
            yield

    def told(self, subject: Subject, failure: Failure | None) -> None:
        if failure is None:
            self._limiter.succeeded()
        else:
            self._limiter.failed(subject, failure)

    def outgoing(self, subject: Subject, asking: Asking, passed: Mapping[str, str]) -> Outgoing:
        # The API knows where a request goes and how it is signed; what it asks is the agent's.
        blank = Request(subject, (Message("user", ""),))
        wire = self.speaker().wire(blank, {}, key=self._credential.value(), stream=asking.stream)
        body = {name: value for name, value in asking.body.items() if name != "model"}
        body = {**{name: wire.body[name] for name in _PLACED if name in wire.body}, **body}
        config = {name.lower(): value for name, value in self.config.headers.items()}
        signed = {name.lower(): value for name, value in wire.headers.items()}
        headers = {"content-type": "application/json", **signed, **passed, **config, **_keys(signed)}
        return _outgoing(f"{self._base_url()}/{wire.path}", headers, body)

    @asynccontextmanager
    async def opened(self, outgoing: Outgoing) -> AsyncIterator[Opened]:
        """A token that has run out is replaced, once."""
        key = self._credential.value()
        async with self._transport.opened(outgoing) as opened:
            if key is None or opened.status != 401 or not self._credential.renewed(key):
                yield opened
                return
        fresh = self._credential.value() or ""
        headers = {name: value.replace(key, fresh) for name, value in outgoing.headers.items()}
        async with self._transport.opened(replace(outgoing, headers=headers)) as opened:
            yield opened

    async def aclose(self) -> None:
        await self._transport.aclose()

    def _base_url(self) -> str:
        base = self.config.base_url
        if self.config.vertex is not None:
            base = base.replace("{location}", self._variable(self.config.vertex[1]))
        return base.rstrip("/")

    def _variable(self, name: str) -> str:
        value = self._environ.get(name, "").strip()
        if not value:
            raise ProviderError(f"{self.config.name}: the variable {name} is not set")
        return value


class LocalUpstream:
    """The server of *host*'s model, which all processes of this user share; *host* stays the caller's to close."""

    def __init__(self, host: LlamaHost) -> None:
        self.wording: Wording = LocalWording()
        self._host = host
        self._slots = HostSlots(host.directory, host.key, host.model.slots)
        # The server closes idle connections when it likes, which a request can run into; on loopback a new one costs nothing.
        self._transport = Transport(tls=False, keep=False)
        self._server: Server | None = None

    def speaker(self) -> Api:
        return api("openai-chat")

    def check(self, subject: Subject) -> None:
        LocalProvider().check(subject)

    @asynccontextmanager
    async def turn(self, subject: Subject) -> AsyncIterator[None]:
        async with self._slots.hold():
            self._server = self._host.current()
            if self._server is None:
                self._server = await anyio.to_thread.run_sync(self._host.ready, abandon_on_cancel=True)
            yield

    def told(self, subject: Subject, failure: Failure | None) -> None:
        """It has as many slots as it has, however a call goes."""

    def outgoing(self, subject: Subject, asking: Asking, passed: Mapping[str, str]) -> Outgoing:
        server = self._server
        if server is None:
            raise ProviderError(f"{subject}: the local server is not running")
        headers = {"content-type": "application/json", "authorization": f"Bearer {server.token}"}
        return _outgoing(f"{server.url}/v1/chat/completions", headers, asking.body)

    def opened(self, outgoing: Outgoing) -> AbstractAsyncContextManager[Opened]:
        return self._transport.opened(outgoing)

    async def aclose(self) -> None:
        await self._transport.aclose()


def local_price(subject: Subject, usage: Usage, model: str | None) -> Cost:
    """Nothing is paid for a model on this machine."""
    return Cost(usd=0.0, priced_by="local")


def _outgoing(url: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> Outgoing:
    content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass")
    shown = {name: headers[name] for name in _SHOWN if name in headers}
    return Outgoing(url, headers, content, {"method": "POST", "url": url, "headers": shown, "body": body})


def _keys(signed: Mapping[str, str]) -> dict[str, str]:
    """The headers that carry the credential: nothing may stand in their place."""
    return {name: value for name, value in signed.items() if name in ("authorization", "x-api-key", "x-goog-api-key")}
