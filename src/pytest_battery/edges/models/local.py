"""``local/``: models that llama.cpp runs in a process of this plugin's own.  No key, no network, no cost."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from pytest_battery.edges.models import local_wire
from pytest_battery.edges.models.local_wire import broken
from pytest_battery.edges.models.weights import local_model, verified
from pytest_battery.errors import ProviderError
from pytest_battery.values.calls import Reply, Request
from pytest_battery.values.subjects import Subject
from pytest_battery.values.usage import Rates

if TYPE_CHECKING:
    import httpx

    from pytest_battery.edges.models.host_slots import HostSlots
    from pytest_battery.edges.models.llama_host import LlamaHost, Server

__all__ = ["LocalProvider"]

_ENGINE = "xllamacpp"


class LocalProvider:
    """The `Provider` of ``local/NAME``, for each NAME of the catalogue in `weights`.

    One server a model serves all processes of this user on this host; it ends when the last of them lets go.
    """

    def __init__(self) -> None:
        self._hosts: dict[str, LlamaHost] = {}
        self._slots: dict[str, HostSlots] = {}
        self._client: tuple[asyncio.AbstractEventLoop, httpx.AsyncClient] | None = None

    def identify(self, subject: Subject) -> Mapping[str, Any]:
        """Weights, template and the server's settings, from the catalogue alone.

        Raises `ProviderError` for an unknown model, a level, and a knob that cannot be honoured.
        """
        model = local_model(subject.model)
        local_wire.knobs(subject, model)
        return model.identity()

    def check(self, subject: Subject) -> None:
        """Raise `ProviderError` for what `identify` refuses, a missing engine, and weights missing or wrong."""
        self.identify(subject)
        if importlib.util.find_spec(_ENGINE) is None:
            raise ProviderError(
                f"{subject}: the engine of local models is not installed; run `pip install 'pytest-battery[local]'`"
            )
        verified(local_model(subject.model))

    def limit(self, subject: Subject) -> int | None:
        """As many as the server works on at once; they are shared with the other processes of this host."""
        return local_model(subject.model).slots

    def rates(self, subject: Subject) -> Rates | None:
        """Nothing is paid for a model on this machine."""
        return Rates(0.0, 0.0, "local")

    def engine(self) -> str | None:
        """``xllamacpp VERSION``, or None where it is not installed."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            return f"{_ENGINE} {version(_ENGINE)}"
        except PackageNotFoundError:
            return None

    def slot(self, subject: Subject) -> AbstractAsyncContextManager[None]:
        """Waits until the model is loaded and one of the server's slots is free, and holds that slot.

        Raises `CallError` where the server cannot be started.
        """
        return self._slot(subject.model)

    async def complete(self, request: Request) -> Reply:
        """Ask once.  Raises `CallError`; its kinds are ``context-size``, ``http-NNN``, ``connection``, ``timeout``,
        ``not-json``, ``stream-cut``, ``error-body``, ``no-choices``, ``malformed`` and ``engine``.
        """
        import httpx

        model = local_model(request.subject.model)
        sent = local_wire.body(request, model)
        server = await self._ready(model.name)
        try:
            response = await self._client_here().post(
                f"{server.url}/v1/chat/completions", json=sent, headers={"authorization": f"Bearer {server.token}"}
            )
        except httpx.TimeoutException as error:
            raise broken("timeout", f"the local server at {server.url} is not listening") from error
        except httpx.HTTPError as error:
            what = str(error) or type(error).__name__
            raise broken("connection", f"the local server at {server.url} was lost: {what}") from error
        if response.status_code != 200:
            raise local_wire.status_error(
                response.status_code, response.text, with_schema=request.output_schema is not None
            )
        completion = local_wire.completion(response.text, response.headers.get("content-type", ""))
        return local_wire.reply(request, sent, completion, response.status_code)

    async def aclose(self) -> None:
        """Let go of the servers and the connections; may be called again, and so may everything else."""
        hosts, self._hosts, self._slots = list(self._hosts.values()), {}, {}
        client, self._client = self._client, None
        for host in hosts:
            host.close()
        if client is not None and client[0] is asyncio.get_running_loop():
            await client[1].aclose()

    @asynccontextmanager
    async def _slot(self, name: str) -> AsyncIterator[None]:
        if name not in self._slots:
            from pytest_battery.edges.models.host_slots import HostSlots

            host = self._host(name)
            self._slots[name] = HostSlots(host.directory, host.key, host.model.slots)
        async with self._slots[name].hold():
            # Only who holds a slot waits for a server, which takes a thread.
            await self._ready(name)
            yield

    async def _ready(self, name: str) -> Server:
        host = self._host(name)
        if (server := host.current()) is not None:
            return server
        import anyio.to_thread

        try:
            # A start that nobody waits for any more goes on for the next one to find, until `aclose`.
            return await anyio.to_thread.run_sync(host.ready, abandon_on_cancel=True)
        except ProviderError as error:
            raise broken("engine", str(error)) from error

    def _host(self, name: str) -> LlamaHost:
        if name not in self._hosts:
            from pytest_battery.edges.models.llama_host import LlamaHost

            try:
                self._hosts[name] = LlamaHost(local_model(name))
            except (ImportError, ProviderError) as error:
                raise broken("engine", str(error)) from error
        return self._hosts[name]

    def _client_here(self) -> httpx.AsyncClient:
        """The client of the running event loop; a connection cannot be used in another one."""
        import httpx

        loop = asyncio.get_running_loop()
        if self._client is None or self._client[0] is not loop:
            self._client = (
                loop,
                httpx.AsyncClient(
                    # How long a call may take is the caller's to say.
                    timeout=httpx.Timeout(None, connect=10.0),
                    # The server closes idle connections when it likes, which a request can run into; on loopback
                    # a new one costs nothing.
                    limits=httpx.Limits(max_keepalive_connections=0),
                    trust_env=False,
                ),
            )
        return self._client[1]
