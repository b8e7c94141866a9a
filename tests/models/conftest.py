from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pytest_battery.edges.models.weights import local_model, verified
from pytest_battery.errors import ProviderError
from pytest_battery.values.calls import Message, Request
from pytest_battery.values.subjects import parse_subject


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The real weights; a machine that lacks them fails with the command that fetches them."""
    try:
        return verified(local_model("smollm2-135m"))
    except ProviderError as error:
        pytest.fail(str(error))


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runtime directory of the test's own, so that its servers are nobody else's."""
    home = tmp_path / "runtime"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home))
    return home / "pytest-battery"


@pytest.fixture
def ask() -> Callable[..., Request]:
    def build(subject: str = "local/smollm2-135m", text: str = "Hello", **more: Any) -> Request:
        return Request(parse_subject(subject), (Message("user", text),), **more)

    return build


@pytest.fixture
def running() -> Callable[[int], bool]:
    """Whether a process does anything still; one that only waits for its exit status to be read does not."""

    def look(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    return look


@pytest.fixture
def becomes_true() -> Callable[[Callable[[], bool]], bool]:
    """Whether a condition comes true within 15 s."""

    def wait(condition: Callable[[], bool]) -> bool:
        until = time.monotonic() + 15
        while not condition():
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
        return True

    return wait


@pytest.fixture
def http_server() -> Callable[[int, str, str], AbstractContextManager[HttpServer]]:
    """A loopback server that answers every POST alike."""
    return _http_server


HttpServer = tuple[str, list[dict[str, Any]]]
"""Its URL, and the bodies it was sent."""


@contextmanager
def _http_server(status: int, content_type: str, body: str) -> Iterator[HttpServer]:
    seen: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(status)
            self.send_header("content-type", content_type)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
