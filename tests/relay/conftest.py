from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from pytest_battery.edges.models.providers import ProviderConfig
from pytest_battery.edges.models.relay import HttpUpstream, Recording, Relay
from pytest_battery.values.subjects import parse_subject
from pytest_battery.values.usage import Cost

from .scripted import Scripted, scripted

KEY = "sk-a-key-of-nobody"

SUBJECTS = {
    "openai-chat": "lan/m",
    "openai-responses": "lan/m",
    "anthropic": "lan/m@max_tokens=4000",
    "google": "lan/m",
}


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as running:
        yield running


def config_of(server: Scripted, scenario: str, api: str, **more: Any) -> ProviderConfig:
    base = server.at(scenario) + ("/v1" if api.startswith("openai") else "")
    return ProviderConfig("lan", api, base, "LAN_KEY", **more)


def price(*_: Any) -> Cost:
    return Cost(usd=0.25, priced_by="the test")


def relay_of(
    server: Scripted, scenario: str = "ok", api: str = "openai-chat", subject: str | None = None, **more: Any
) -> Relay:
    """A relay for an agent that was set to ``agent-1``."""
    upstream = HttpUpstream(config_of(server, scenario, api), environ={"LAN_KEY": KEY})
    options = {"agent_model": "agent-1", "price": price, **more}
    return Relay(parse_subject(subject or SUBJECTS[api]), upstream, **options)


@asynccontextmanager
async def listening(relay: Relay, *, buffered: int | None = None) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """A client, and where the relay is; *buffered* bytes of an answer may be on their way, None for what is usual."""
    listener = socket.create_server(("127.0.0.1", 0))
    if buffered is not None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffered)
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        async with relay.serving(listener), httpx.AsyncClient(trust_env=False, timeout=30) as client:
            yield client, base
    finally:
        if not isinstance(relay.source, Recording):
            await relay.source.aclose()
