"""The relay serves on the socket it is given, says nothing, and ends when it is left."""

from __future__ import annotations

import logging
import signal
import socket

import anyio
import httpx
import pytest

from pytest_battery.edges.models.relay import HttpUpstream

from .agent import body_of, url_of
from .conftest import listening, relay_of
from .scripted import Scripted


@pytest.mark.parametrize("scenario", ["hang", "hang-stream"])
def test_leaving_ends_calls_that_are_on_their_way_and_records_them(server: Scripted, scenario: str) -> None:
    relay = relay_of(server, scenario)
    outcomes: list[str] = []

    async def ask(client: httpx.AsyncClient, base: str) -> None:
        try:
            await client.post(url_of("openai-chat", base), json=body_of("openai-chat", []))
        except httpx.HTTPError as error:
            outcomes.append(type(error).__name__)

    async def work() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client, anyio.create_task_group() as group:
            async with relay.serving(listener):
                group.start_soon(ask, client, base)
                assert await anyio.to_thread.run_sync(server.called.wait, 10)
            assert listener.fileno() == -1
            assert len(relay.calls) == 1
        assert isinstance(relay.source, HttpUpstream)
        await relay.source.aclose()

    anyio.run(work)
    assert len(outcomes) == 1
    assert (relay.calls[0].kind, relay.calls[0].whole) == ("abandoned", False)


def test_a_cut_answer_is_no_message_for_anybody(
    server: Scripted, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def handlers() -> tuple[object, ...]:
        return signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    async def work() -> None:
        before = handlers()
        async with listening(relay_of(server, "cut")) as (client, base):
            with pytest.raises(httpx.RemoteProtocolError):
                await client.post(url_of("openai-chat", base), json=body_of("openai-chat", []))
            stream = socket.create_connection((httpx.URL(base).host, httpx.URL(base).port or 0))
            with stream:
                stream.sendall(b"this is no HTTP\r\n\r\n")
                await anyio.to_thread.run_sync(stream.recv, 10)
            assert handlers() == before

    with caplog.at_level(logging.DEBUG):
        anyio.run(work)
    assert capfd.readouterr() == ("", "")
    assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []


def test_more_connections_than_it_takes_are_turned_away(server: Scripted) -> None:
    relay = relay_of(server, "text")

    async def work() -> list[int]:
        async with listening(relay) as (_, base):
            url = httpx.URL(base)
            idle = [await anyio.connect_tcp(url.host, url.port or 0) for _ in range(280)]
            try:
                async with httpx.AsyncClient(trust_env=False) as client:
                    crowded = await client.get(f"{base}/v1/models")
            finally:
                for one in idle:
                    await one.aclose()
            return [crowded.status_code]

    assert anyio.run(work) == [503]


class Noting(socket.socket):
    """A listener that keeps what it accepts."""

    accepted: list[socket.socket]

    def accept(self) -> tuple[socket.socket, object]:
        connection, address = super().accept()
        self.accepted.append(connection)
        return connection, address


def test_an_answer_does_not_wait_for_acknowledgements(server: Scripted) -> None:
    """As it would on a socket made without the number of its protocol, which is how they are handed over."""
    relay = relay_of(server, "text")
    listener = Noting(socket.AF_INET, socket.SOCK_STREAM)
    listener.accepted = []
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/models"

    async def work() -> list[int]:
        async with relay.serving(listener), httpx.AsyncClient(trust_env=False) as client:
            await client.get(url)
            return [one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for one in listener.accepted]

    assert anyio.run(work) == [1]


def test_two_relays_in_one_loop_are_two_runs(server: Scripted) -> None:
    one, other = relay_of(server, "text"), relay_of(server, "e500")

    async def work() -> list[int]:
        async with listening(one) as (client, here), listening(other) as (_, there):
            body = body_of("openai-chat", [])
            return [(await client.post(url_of("openai-chat", base), json=body)).status_code for base in (here, there)]

    assert anyio.run(work) == [200, 500]
    assert [relay.summary().failed for relay in (one, other)] == [0, 1]
