"""The connections of a provider: what is on the wire, when one is used again, and how one ends."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from pytest_battery.edges.models.attempts import Retries
from pytest_battery.edges.models.http_faults import TABLE
from pytest_battery.edges.models.http_provider import HttpProvider, Limits
from pytest_battery.edges.models.providers import ProviderConfig
from pytest_battery.errors import CallError
from pytest_battery.values.calls import Message, Reply, Request
from pytest_battery.values.subjects import parse_subject

from .http_server import Answer, playing

LIMITS = Limits(connect=5, idle=5, total=10, body=20_000)
TWICE = Retries(failures=2, refusals=2, first_wait=0.0)
LONG = 16_000_000  # bytes of a prompt: more than what the system takes in by itself


def saying(text: str) -> bytes:
    return json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}).encode()


def response(body: bytes = saying("yes"), head: str = "", status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{head}\r\n".encode("latin-1") + body


class Connected:
    """One connection as its server sees it."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream
        self.head = self.rest = b""

    def read_head(self) -> bytes:
        """Empty at the end of the connection."""
        content, self.rest = self.rest, b""
        while b"\r\n\r\n" not in content:
            more = self.stream.recv(65536)
            if not more:
                return b""
            content += more
        self.head, _, self.rest = content.partition(b"\r\n\r\n")
        return self.head

    def read(self) -> bytes:
        """One request's head, its body read too."""
        if self.read_head():
            found = re.search(rb"content-length: (\d+)", self.head, re.IGNORECASE)
            while found and len(self.rest) < int(found[1]):
                self.rest += self.stream.recv(65536)
            self.rest = b""
        return self.head

    def read_on(self) -> int:
        """How many bytes of a body come until the connection ends."""
        count = len(self.rest)
        with suppress(ConnectionError):
            while more := self.stream.recv(2**20):
                count += len(more)
        return count

    def reset(self) -> None:
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.stream.close()


@contextmanager
def serving(each: Callable[[Connected], None]) -> Iterator[tuple[str, list[Connected]]]:
    """A server that plays *each* on every connection, in a thread of its own: its base URL, and the connections."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # a server that doesn't read is full soon
    connections: list[Connected] = []
    threads: list[threading.Thread] = []

    def play(connected: Connected) -> None:
        with suppress(OSError), connected.stream:
            each(connected)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connections.append(Connected(listener.accept()[0]))
                threads.append(threading.Thread(target=play, args=connections[-1:], daemon=True))
                threads[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1", connections
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in (accepting, *threads):
            thread.join(10)


def answering(*answers: bytes) -> Callable[[Connected], None]:
    """Every request of a connection with the next of *answers*; the connection ends after the last."""

    def play(connected: Connected) -> None:
        for answer in answers:
            if not connected.read():
                return
            connected.stream.sendall(answer)

    return play


def provider_at(base_url: str, **more: Any) -> HttpProvider:
    more = {"limits": LIMITS, "retries": TWICE, "environ": {}} | more
    own = {name: more.pop(name) for name in tuple(more) if name not in ("limits", "retries", "environ")}
    return HttpProvider(ProviderConfig("lan", "openai-chat", base_url, **own), **more)


def request_of(prompt: str = "Say yes.") -> Request:
    return Request(parse_subject("lan/m"), (Message("user", prompt),))


def ask(base_url: str, prompt: str = "Say yes.", **more: Any) -> Reply:
    async def work() -> Reply:
        provider = provider_at(base_url, **more)
        try:
            return await provider.complete(request_of(prompt))
        finally:
            await provider.aclose()

    try:
        return anyio.run(work)
    finally:
        gc.collect()  # whatever was left open is told here, and fails the test


def failure_of(base_url: str, prompt: str = "Say yes.", **more: Any) -> CallError:
    with pytest.raises(CallError) as caught:
        ask(base_url, prompt, **more)
    return caught.value


# -- what is sent ---------------------------------------------------------------------------------


def test_nothing_is_sent_that_nobody_wrote(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with playing([Answer(body=json.loads(saying("yes")))]) as server:
        ask(f"{server.url}/v1")
    headers = dict(server.asked[0].headers)
    assert headers.pop("content-length") == str(len(server.asked[0].body))
    assert headers == {
        "host": server.url.removeprefix("http://"),
        "user-agent": f"pytest-battery/{version('pytest-battery')}",
        "content-type": "application/json",
        "accept": "*/*",
        "accept-encoding": "gzip, deflate",
    }


def test_a_declared_header_replaces_one_of_ours() -> None:
    with serving(answering(response())) as (url, connections):
        ask(url, headers={"User-Agent": "mine", "Content-Type": "application/json; v=2", "X-Empty": ""})
    lines = connections[0].head.lower().split(b"\r\n")
    assert [line for line in lines if line.startswith(b"user-agent")] == [b"user-agent: mine"]
    assert [line for line in lines if line.startswith(b"content-type")] == [b"content-type: application/json; v=2"]
    assert b"x-empty: " in lines


@pytest.mark.parametrize(
    "name", ["", "a b", "a:b", "a\r\nb", "caf\u00e9", "Content-Length", "Transfer-Encoding", "Expect"]
)
def test_a_header_that_would_break_the_request_is_ours(name: str) -> None:
    with serving(answering(response())) as (url, connections):
        error = failure_of(url, headers={name: "3"})
    assert (error.kind, error.fault, connections) == ("not-sent", "us", [])
    assert f"{name!r} is no header that may be set" in str(error)


@pytest.mark.parametrize(
    "url", ["http://", "http://127.0.0.1:99999", "http://[::1", "ftp://127.0.0.1", "127.0.0.1/v1", "http://a..b"]
)
def test_a_url_that_is_none_is_ours_and_asked_once(url: str) -> None:
    error = failure_of(url)
    assert (error.kind, error.fault) == ("not-sent", "us")
    assert "attempts" not in str(error)


def test_a_prompt_of_many_megabytes_arrives_whole() -> None:
    with playing([Answer(body=json.loads(saying("yes")))]) as server:
        assert ask(f"{server.url}/v1", "x" * LONG).text == "yes"
    assert server.asked[0].json["messages"][0]["content"] == "x" * LONG
    assert server.asked[0].headers["content-type"] == "application/json"


def test_an_answer_before_all_was_sent_is_heard() -> None:
    def refuse(connected: Connected) -> None:
        connected.read_head()
        connected.stream.sendall(response(b"too long a prompt", "connection: close\r\n", "413 X"))
        connected.stream.shutdown(socket.SHUT_WR)
        connected.read_on()

    with serving(refuse) as (url, connections):
        error = failure_of(url, "x" * LONG)
    assert (error.kind, len(connections)) == ("bad-request", 1)
    assert "too long a prompt" in str(error)


def test_a_call_that_is_cancelled_sends_no_more() -> None:
    begun, cancelled, came = threading.Event(), threading.Event(), []

    def wait(connected: Connected) -> None:
        connected.read_head()
        begun.set()
        cancelled.wait(10)
        came.append(connected.read_on())

    async def work() -> None:
        provider = provider_at(url)
        call = asyncio.create_task(provider.complete(request_of("x" * LONG)))
        await anyio.to_thread.run_sync(begun.wait, 10)
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
        cancelled.set()
        while not came:
            await asyncio.sleep(0.001)
        await provider.aclose()

    with serving(wait) as (url, _):
        anyio.run(work)
    assert 0 < came[0] < LONG


def test_a_connection_whose_server_reads_no_more_is_closed_too() -> None:
    """Not only when all was sent, which is never; else `ask` finds it open."""
    over = threading.Event()

    def stop(connected: Connected) -> None:
        connected.read_head()
        over.wait(10)

    with serving(stop) as (url, connections):
        error = failure_of(url, "x" * LONG, limits=Limits(connect=5, idle=0.2, total=0.2))
        over.set()
    assert (error.kind, len(connections)) == ("timeout", 2)


# -- what comes back ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "read"),
    [
        ("x-request-id: caf\xe9\r\n", "caf\u00e9"),
        ("x-request-id: caf\xc3\xa9\r\n", "caf\u00e9"),  # UTF-8
        ("X-Request-ID: a\r\nx-request-id: b\r\n", "a, b"),
    ],
    ids=["Latin-1", "UTF-8", "twice"],
)
def test_headers_are_kept_as_text_in_lower_case(lines: str, read: str) -> None:
    with serving(answering(response(head=lines))) as (url, _):
        assert ask(url).headers == {"x-request-id": read}


def test_where_a_redirect_leads_is_told_as_text() -> None:
    with serving(answering(response(b"", "location: /caf\xe9\r\n", "302 X"))) as (url, _):
        error = failure_of(url)
    assert error.kind == "redirect"
    assert "'/caf\u00e9'" in str(error)


@pytest.mark.parametrize(("status", "kind"), [("200 OK", "not-json"), ("429 X", "http-429"), ("401 X", "key")])
def test_what_nobody_asked_to_be_packed_is_judged_by_its_status(status: str, kind: str) -> None:
    packed = b"\x0b\x02\x80hello\x03"
    with serving(answering(*[response(packed, "content-encoding: br\r\nretry-after: 0\r\n", status)] * 2)) as (url, _):
        assert failure_of(url).kind == kind


def test_an_answer_may_be_announced() -> None:
    before = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    with serving(answering(before + response())) as (url, _):
        reply = ask(url)
    assert (reply.text, reply.status) == ("yes", 200)


@pytest.mark.parametrize("end", ["closed", "reset"])
@pytest.mark.parametrize("sent", [0, 9, -3], ids=["before the head", "in the head", "in the body"])
def test_an_answer_that_is_cut_off_is_a_connection_that_failed(sent: int, end: str) -> None:
    def play(connected: Connected) -> None:
        connected.read()
        connected.stream.sendall(response()[:sent])
        if end == "reset":
            connected.reset()

    with serving(play) as (url, connections):
        error = failure_of(url)
    assert (error.kind, error.fault, len(connections)) == ("connection", "infrastructure", 2)
    assert "\n" not in str(error)


# -- using a connection again ---------------------------------------------------------------------


def test_a_connection_that_its_server_closed_is_no_attempt() -> None:
    """Not even where the event loop had no turn to notice: nothing is sent into what is closed already."""
    closed = threading.Semaphore(0)

    def once(connected: Connected) -> None:
        connected.read()
        connected.stream.sendall(response())
        connected.stream.close()
        closed.release()

    async def work() -> list[Reply]:
        provider, replies = provider_at(url), []
        for _ in range(3):
            replies.append(await provider.complete(request_of()))
            assert closed.acquire(timeout=10)  # the loop stands still
        await provider.aclose()
        return replies

    with serving(once) as (url, connections):
        replies = anyio.run(work)
    assert [len(reply.attempts) for reply in replies] == [1, 1, 1]
    assert len(connections) == 3


def test_what_follows_an_answer_is_not_the_next_one() -> None:
    async def work() -> list[str]:
        provider = provider_at(url)
        texts = [(await provider.complete(request_of())).text for _ in range(2)]
        await provider.aclose()
        return texts

    with serving(answering(response() + response(saying("of another call")))) as (url, connections):
        assert anyio.run(work) == ["yes", "yes"]
    assert len(connections) == 2


def test_a_connection_of_half_an_answer_is_not_used_again() -> None:
    """The rest of an answer that was given up would be read as the next."""
    half = threading.Event()

    def play(connected: Connected) -> None:
        if len(connections) == 1:
            connected.read()
            connected.stream.sendall(response()[:-20])
            half.set()
            connected.read_on()
        else:
            answering(response(saying("the next")))(connected)

    async def work() -> str:
        provider = provider_at(url)
        call = asyncio.create_task(provider.complete(request_of()))
        await anyio.to_thread.run_sync(half.wait, 10)
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
        text = (await provider.complete(request_of())).text
        await provider.aclose()
        return text

    with serving(play) as (url, connections):
        assert anyio.run(work) == "the next"


def test_one_event_loop_after_the_other() -> None:
    with playing([Answer(body=json.loads(saying("yes")))]) as server:
        provider = provider_at(f"{server.url}/v1")

        async def work() -> str:
            text = (await provider.complete(request_of())).text
            await provider.aclose()
            await provider.aclose()
            return text

        assert [anyio.run(work), anyio.run(work)] == ["yes", "yes"]
        gc.collect()
    assert server.connections == 2


def test_as_many_connections_as_calls() -> None:
    """There is no limit but the provider's own."""
    all_there = threading.Barrier(120)

    def play(connected: Connected) -> None:
        connected.read()
        all_there.wait(10)
        connected.stream.sendall(response())

    async def work() -> None:
        provider = provider_at(url)
        provider.limiter.limit = 120
        async with anyio.create_task_group() as group:
            for _ in range(120):
                group.start_soon(provider.complete, request_of())
        await provider.aclose()

    with serving(play) as (url, connections):
        anyio.run(work)
    assert len(connections) == 120


# -- TLS ------------------------------------------------------------------------------------------


def test_a_server_that_never_speaks_tls_is_given_up_as_no_connection() -> None:
    """No model has seen the request: it is not paid for."""

    def silent(connected: Connected) -> None:
        connected.read_on()

    with serving(silent) as (url, connections):
        error = failure_of(url.replace("http:", "https:"), limits=Limits(connect=0.2, idle=60, total=60))
    assert (error.kind, len(connections)) == ("connection", 2)
    assert not TABLE["connection"].paid


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_certificates_that_cannot_be_read_are_told_before_anything_is_sent(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "own.pem"
    if content is not None:
        file.write_text(content)
    error = failure_of("https://127.0.0.1:1/v1", environ={"SSL_CERT_FILE": str(file)})
    assert (error.kind, error.fault) == ("refused", "us")
    assert f"SSL_CERT_FILE, {file}" in str(error)
