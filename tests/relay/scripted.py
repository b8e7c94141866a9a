"""A scripted model: a loopback server that speaks the four APIs and plays a scenario, for the relay and for real agents.

    with scripted() as server:
        base_url = server.at("ok")            # http://127.0.0.1:PORT/s/ok; OpenAI's base URLs end in /v1

What to play next is found in the request, by how many tool calls the conversation holds: there is no state, so retries
and runs side by side are safe.  ``Turn(run=...)`` calls whichever shell tool the request offers.
"""

from __future__ import annotations

import gzip
import json
import re
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .speaking import CHAT, Said, Speech, speech_of

__all__ = ["SCENARIOS", "Asked", "Scripted", "Turn", "scripted"]

SHELLS = ("bash", "Bash", "exec_command", "shell_command", "shell", "local_shell", "run_shell_command", "terminal")
"""Names by which agents offer a shell."""


@dataclass(frozen=True)
class Turn:
    """One answer.  ``run`` is a shell command, ``tool`` a call as it stands; ``answer`` makes the text from the request's
    body.  ``usage`` is (input, of that from the cache, output, of that reasoning); ``model`` is named in place of the one
    asked for; ``status`` is an error's.  ``how`` is ``cut``, ``malformed``, ``hang`` (before the first byte),
    ``hang-stream`` (after some), ``hold`` (after all, the end marker too), ``flood`` (without end) or nothing."""

    text: str = ""
    run: str | None = None
    tool: tuple[str, Mapping[str, Any]] | None = None
    answer: Callable[[Mapping[str, Any]], str] | None = None
    think: str = ""
    finish: str = ""
    usage: tuple[int, int, int, int] = (1200, 800, 40, 0)
    model: str | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    how: str = ""


LOOK = Turn("Let me look.", run="cat hello.txt")
DONE = Turn("The file says: hello from the workspace.", usage=(1300, 1000, 12, 0))

SCENARIOS: Mapping[str, Sequence[Turn]] = {
    "ok": [LOOK, DONE],
    "text": [Turn("Just text, no tool.")],
    "think": [
        Turn("Reading.", run="cat hello.txt", think="I should read the file first.", usage=(1200, 0, 60, 20)),
        Turn("Done thinking.", think="Now I know."),
    ],
    "write": [Turn(run="printf 'made by the agent\\n' > made.txt"), Turn("Wrote made.txt.")],
    "submit": [LOOK, Turn("Done.", run="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat hello.txt")],
    "badtool": [Turn(tool=("no_such_tool", {"x": 1})), Turn("After a bad tool.")],
    "loop": [*[Turn(run="true")] * 500, Turn("The loop is over.")],
    "length": [Turn("This is cut sho", finish="length")],
    "empty": [Turn("")],
    "wrong-model": [Turn("Somebody else answers.", model="another-model-7")],
    "no-usage": [Turn("It cost what it cost.", usage=(-1, -1, -1, -1))],
    "e400": [Turn("no such parameter", status=400)],
    "e401": [Turn("invalid api key", status=401)],
    "e404": [Turn("no such model", status=404)],
    "e429": [Turn("rate limit reached", status=429, headers={"retry-after": "1"})],
    "e500": [Turn("internal server error", status=500)],
    "e529": [Turn("overloaded", status=529)],
    "malformed": [Turn(how="malformed")],
    "cut": [Turn("half an answer", how="cut")],
    "hang": [Turn(how="hang")],
    "hang-stream": [Turn("and then", how="hang-stream")],
    "hold": [Turn("That is all.", how="hold")],
    "flood": [Turn("again and ", how="flood")],
}


@dataclass(frozen=True)
class Asked:
    """One request, as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


class Scripted:
    """``asked`` has every request, in order."""

    def __init__(self, scenarios: Mapping[str, Sequence[Turn]]) -> None:
        self.scenarios = scenarios
        self.asked: list[Asked] = []
        self.called = threading.Event()
        """Set when there was a call."""
        self.hung_up = threading.Event()
        """Set when somebody has closed the connection of an answer that never came."""
        self.ending = threading.Event()
        handler = type("Handler", (_Handler,), {"scripted": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def at(self, scenario: str) -> str:
        return f"{self.url}/s/{scenario}"

    def close(self) -> None:
        self.ending.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@contextmanager
def scripted(**more: Sequence[Turn]) -> Iterator[Scripted]:
    """With the scenarios above and *more*, by name."""
    server = Scripted({**SCENARIOS, **more})
    try:
        yield server
    finally:
        server.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    scripted: Scripted

    def log_message(self, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.scripted.asked.append(Asked(self.command, self.path, dict(self.headers), None))
        if self.path.partition("?")[0].endswith("/models"):
            self._json(200, {"object": "list", "data": [{"id": "scripted-1", "object": "model"}]})
        else:
            self._json(404, {"error": {"message": "not found"}})

    def do_POST(self) -> None:
        with suppress(ConnectionError):
            self._post()

    def _post(self) -> None:
        content = self._content()
        body = json.loads(content) if content else {}
        asked = Asked("POST", self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        self.scripted.asked.append(asked)
        self.scripted.called.set()
        found = re.fullmatch(r"/s/([^/]+)(/.*)", self.path.partition("?")[0])
        scenario, path = (found[1], found[2]) if found else ("ok", self.path.partition("?")[0])
        speech = speech_of(path)
        turns = self.scripted.scenarios.get(scenario)
        if speech is None or turns is None or path.endswith("/count_tokens"):
            return self._json(404, (speech or CHAT).error(404, "no such endpoint or scenario"))
        tools = speech.tools(body)
        turn = turns[min(speech.calls(body), len(turns) - 1)]
        if turn.run is not None and not tools:
            turn = Turn("aux")  # a title, or a summary: nobody could run anything
        if turn.status != 200:
            return self._json(turn.status, speech.error(turn.status, turn.text), turn.headers)
        return self._play(speech, turn, body, path, tools)

    def _play(
        self, speech: Speech, turn: Turn, body: Mapping[str, Any], path: str, tools: Mapping[str, Mapping[str, Any]]
    ) -> None:
        stream = speech.streams(body, path)
        call = turn.tool if turn.run is None else shell_call(tools, turn.run)
        text = turn.text if turn.answer is None else turn.answer(body)
        model = turn.model or speech.model(body, path)
        said = Said(text, call, tools.get(call[0], {}) if call else {}, turn.think, turn.finish, turn.usage, model)
        if turn.how == "hang" or (turn.how == "hang-stream" and not stream):
            return self._hang()
        if turn.how == "malformed":
            content = b"data: {this is no JSON\n\ndata: \x01\x02}\n\n" if stream else b"<html>no JSON"
            return self._whole(200, content, "text/event-stream" if stream else "application/json", {})
        if not stream:
            if turn.how in ("cut", "flood"):
                return self._half(speech, said, endless=turn.how == "flood")
            return self._json(200, speech.document(said))
        self._begin("text/event-stream", {"transfer-encoding": "chunked"})
        events = list(speech.events(said))
        if turn.how in ("cut", "hang-stream"):
            for event in events[: 1 + len(events) // 2]:
                self._event(event)
            return self._cut() if turn.how == "cut" else self._hang()
        while turn.how == "flood" and not self.scripted.ending.is_set():
            for event in events[: 1 + len(events) // 2] * 50:
                self._event(event)
        for event in events:
            self._event(event)
        if turn.how == "hold":
            return self._hang()
        return self._chunk(b"")

    # -- the wire ------------------------------------------------------------------------------------

    def _content(self) -> bytes:
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            content = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            content = self.rfile.read(int(self.headers.get("content-length") or 0))
        packing = self.headers.get("content-encoding", "")
        return gzip.decompress(content) if packing == "gzip" else zlib.decompress(content) if packing else content

    def _begin(self, kind: str, headers: Mapping[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, "x-request-id": "scripted", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _whole(self, status: int, content: bytes, kind: str, headers: Mapping[str, str]) -> None:
        self._begin(kind, {"content-length": str(len(content)), **headers}, status)
        if self.command != "HEAD":
            self.wfile.write(content)

    def _json(self, status: int, document: Any, headers: Mapping[str, str] | None = None) -> None:
        self._whole(status, json.dumps(document).encode(), "application/json", headers or {})

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
        self.wfile.flush()

    def _event(self, event: tuple[str | None, Any]) -> None:
        name, data = event
        text = data if isinstance(data, str) else json.dumps(data)
        self._chunk(f"{f'event: {name}' + chr(10) if name else ''}data: {text}\n\n".encode())

    def _half(self, speech: Speech, said: Said, *, endless: bool) -> None:
        self._begin("application/json", {"content-length": str(10**12)})
        content = json.dumps(speech.document(said)).encode()
        self.wfile.write(content[: len(content) // 2])
        self.wfile.flush()
        while endless and not self.scripted.ending.is_set():
            self.wfile.write(b" " * 100_000)
        self._cut()

    def _cut(self) -> None:
        self.close_connection = True

    def _hang(self) -> None:
        """Until whoever asked has gone."""
        self.close_connection = True
        self.connection.settimeout(0.05)
        while not self.scripted.ending.is_set():
            try:
                if not self.connection.recv(1):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        self.scripted.hung_up.set()


def shell_call(tools: Mapping[str, Mapping[str, Any]], command: str) -> tuple[str, Mapping[str, Any]]:
    """The call that runs *command* with the shell that *tools* offer, its other mandatory arguments filled in."""
    name = next((shell for shell in SHELLS if shell in tools), "bash")
    schema = tools.get(name, {}).get("schema") or {}
    properties: Mapping[str, Any] = schema.get("properties") or {}
    arguments: dict[str, Any] = {}
    for key in ("command", "cmd", "script"):
        if key in properties or (key == "command" and not properties):
            listed = (properties.get(key) or {}).get("type") == "array" or name == "local_shell"
            arguments[key] = ["bash", "-lc", command] if listed else command
            break
    blanks: Mapping[Any, Any] = {"number": 1, "integer": 1, "boolean": False, "array": [], "object": {}}
    for key in schema.get("required") or ():
        about = properties.get(key) or {}
        blank = about["enum"][0] if about.get("enum") else blanks.get(about.get("type"), "scripted")
        arguments.setdefault(key, blank)
    return name, arguments
