"""A loopback server that plays what it is told, answer by answer, and writes down what it was sent."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Answer", "Asked", "PlayingServer", "playing"]


@dataclass
class Asked:
    """One request as it came over the wire."""

    path: str
    headers: dict[str, str]
    body: bytes
    peer: str = ""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Answer:
    """*body* as JSON unless it is bytes.  *close* ends the connection after *sent* bytes of it; *hold* never answers;
    *pieces* are sent one by one, with *pause* seconds before each, and nothing after the last if *hold*."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    hold: bool = False
    close: bool = False
    sent: int | None = None
    pieces: Sequence[bytes] | None = None
    pause: float = 0.0
    delay: float = 0.0  # seconds the model takes


class PlayingServer:
    """``answers`` are given in order, the last one for ever; or *answer* makes one from each request."""

    def __init__(
        self,
        answers: Sequence[Answer] | Callable[[Asked], Answer],
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._answers, self._host, self._tls = answers, host, tls
        self.asked: list[Asked] = []
        self.at_once = self.most_at_once = self.connections = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._never: asyncio.Event | None = None  # kept: a task that waits for what nobody holds may be destroyed
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait(10)

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self._host}:{self._port}"

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop, self._never = asyncio.Event(), asyncio.Event()
        server = await asyncio.start_server(self._connection, self._host, 0, ssl=self._tls, limit=2**20)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        connections = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        for _ in range(3):
            await asyncio.sleep(0)  # transports close their sockets a turn later

    async def _held(self) -> None:
        assert self._never is not None
        await self._never.wait()

    def close(self) -> None:
        assert self._stop is not None
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _next(self, asked: Asked) -> Answer:
        if callable(self._answers):
            return self._answers(asked)
        return self._answers[min(len(self.asked), len(self._answers)) - 1]

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()  # whatever nobody has read yet
        finally:
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first = await reader.readexactly(1)
        if not first.isalpha():  # somebody speaks TLS
            writer.write(b"HTTP/1.1 400 X\r\ncontent-length: 0\r\n\r\n")
            return False
        head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:]) if name}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        asked = Asked(head[0].split(" ")[1], headers, body, writer.get_extra_info("peername")[0])
        self.asked.append(asked)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            answer = self._next(asked)
            await asyncio.sleep(answer.delay)
            return await self._answer(answer, writer)
        finally:
            self.at_once -= 1

    async def _answer(self, answer: Answer, writer: asyncio.StreamWriter) -> bool:
        content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        if answer.pieces is not None:
            writer.write(_head(answer, None))
            for piece in answer.pieces:
                if answer.pause:
                    await asyncio.sleep(answer.pause)
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                await writer.drain()
            if answer.hold:
                await self._held()
            if answer.close:
                return False
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            return True
        if answer.hold:
            await self._held()
        if answer.close and answer.sent is None:
            return False
        writer.write(_head(answer, len(content)))
        writer.write(content[: answer.sent])
        await writer.drain()
        return not answer.close


def _head(answer: Answer, length: int | None) -> bytes:
    headers = {"content-type": "application/json", **answer.headers}
    headers |= {"transfer-encoding": "chunked"} if length is None else {"content-length": str(length)}
    lines = [f"HTTP/1.1 {answer.status} X", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@contextmanager
def playing(
    answers: Sequence[Answer] | Callable[[Asked], Answer], host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> Iterator[PlayingServer]:
    server = PlayingServer(answers, host, tls)
    try:
        yield server
    finally:
        server.close()
