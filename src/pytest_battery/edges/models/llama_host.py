"""One server per model on this host: found or started, shared, and let go of.

In the user's runtime directory, under the key of a model's settings: ``KEY.json`` says where the server's control
port is (``pid``, ``port``), ``KEY.lock`` is held while it is looked for or started, ``KEY.log`` is what it printed.
A file that says something untrue, of a dead server or a port that is someone else's by now, is found out by the
answer that does not come, and replaced.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from pytest_battery.edges.models.runtime_dir import runtime_directory
from pytest_battery.edges.models.weights import LocalModel, verified
from pytest_battery.errors import CallError, ProviderError
from pytest_battery.values.canonical import digest

__all__ = ["LlamaHost", "Server"]

START_TIMEOUT = 180.0
"""Seconds a server may take until the model can be asked; one to four are usual."""

_STEP = 0.2
"""Seconds between two looks at whether waiting still makes sense."""

_MEANT_FOR_THE_ENGINE = ("LLAMA_", "GGML_", "OMP_", "GOMP_", "KMP_")


@dataclass(frozen=True, slots=True)
class Server:
    """Where a model answers: ``url`` has no path; ``pid`` is the server's; ``token`` must be shown."""

    url: str
    pid: int
    token: str = field(repr=False)


class LlamaHost:
    """This process's hold on the server of one model.  Blocking, and safe to use from several threads.

    Raises ImportError without the engine, and `ProviderError` without a runtime directory.
    """

    def __init__(self, model: LocalModel) -> None:
        self.model = model
        self.directory = runtime_directory()
        self.key = digest({**model.identity(), "alias": model.name, "engine": version("xllamacpp"), "protocol": 1})
        self._mutex = threading.Lock()
        self._lease: socket.socket | None = None
        self._server: Server | None = None
        self._failures = 0
        self._closed = False

    def current(self) -> Server | None:
        """The server, as far as its process is known to live; does not block."""
        lease = self._lease
        return None if lease is None or _is_closed(lease) else self._server

    def ready(self) -> Server:
        """The server, found or started where needed; one that died is replaced once, and no third start is tried.

        Raises `CallError` where it cannot be started, with what it printed last.
        """
        with self._mutex:
            if (server := self.current()) is not None:
                return server
            if self._lease is not None:
                self._lease.close()
                self._lease = None
                self._failures += 1
            if self._failures > 1:
                raise self._error(f"died or did not start, twice; {self._last_words()}")
            try:
                lease, server = self._find_or_start()
            except CallError:
                self._failures += 1
                raise
            except (OSError, ProviderError) as error:
                raise self._error(f"cannot be started: {error}") from error
            if self._closed:
                lease.close()
                raise _let_go()
            self._lease, self._server = lease, server
            return server

    def close(self) -> None:
        """Let go, at once and for good; the server ends if nobody else holds it."""
        self._closed = True  # seen by a thread that is waiting for a server
        with self._mutex:
            if self._lease is not None:
                self._lease.close()
            self._lease = self._server = None

    def _find_or_start(self) -> tuple[socket.socket, Server]:
        weights = verified(self.model)
        with self._lock():
            return self._find() or self._start(weights)

    def _find(self) -> tuple[socket.socket, Server] | None:
        try:
            noted = json.loads(self._file("json").read_text("utf-8"))
            pid, port = int(noted["pid"]), int(noted["port"])
            os.kill(pid, 0)
            lease = socket.create_connection(("127.0.0.1", port), timeout=_STEP)
        except (OSError, OverflowError, ValueError, TypeError, KeyError):
            return None
        # Alive, but perhaps still loading for somebody who did not live to use it.
        return self._shake_hands(lease, pid)

    def _start(self, weights: Path) -> tuple[socket.socket, Server]:
        settings = {
            "key": self.key,
            "alias": self.model.name,
            "weights": str(weights),
            "template": self.model.template_text(),
            "slots": self.model.slots,
            "threads": self.model.threads,
            "context": self.model.context,
            "swa_full": self.model.swa_full,
        }
        # Nothing that decides what is measured is inherited.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_MEANT_FOR_THE_ENGINE)}
        with socket.create_server(("127.0.0.1", 0)) as listener, self._file("log").open("wb") as log:
            port = listener.getsockname()[1]
            descriptor = listener.fileno()
            # Held before there is anything to hold: if this process is killed at any moment, the child finds it closed.
            lease = socket.create_connection(("127.0.0.1", port))
            try:
                child = subprocess.Popen(
                    [sys.executable, "-P", "-m", f"{__package__}.llama_child", json.dumps(settings), str(descriptor)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    pass_fds=(descriptor,),
                    start_new_session=True,  # Ctrl-C in the terminal is for the session, not for the server
                )
            except BaseException:
                lease.close()
                raise
            # It may outlive this hold on it, so something must be there to take its exit status.
            ended = threading.Thread(target=child.wait, name=f"wait for {child.pid}", daemon=True)
            ended.start()
            try:
                part = self._file("json.part")
                part.write_text(json.dumps({"pid": child.pid, "port": port}), "utf-8")
                part.replace(self._file("json"))
            except BaseException:
                lease.close()
                child.kill()
                raise
        held = self._shake_hands(lease, child.pid)
        if held is None:
            if self._closed:
                child.kill()
                raise _let_go()
            ended.join(5)  # it may have more to say
            child.kill()
            raise self._error(f"did not start; {self._last_words()}")
        return held

    def _shake_hands(self, lease: socket.socket, pid: int) -> tuple[socket.socket, Server] | None:
        """Wait for the line that says the model can be asked; None, and a closed lease, if another or none comes."""
        lease.settimeout(_STEP)
        line = b""
        until = time.monotonic() + START_TIMEOUT
        with contextlib.suppress(OSError, ValueError, KeyError):
            while not line.endswith(b"\n") and len(line) < 4096 and time.monotonic() < until and not self._closed:
                try:
                    got = lease.recv(4096)
                except TimeoutError:
                    continue
                if not got:
                    break
                line += got
            answer = json.loads(line)
            if isinstance(answer, dict) and (answer.get("key"), answer.get("pid")) == (self.key, pid):
                return lease, Server(str(answer["url"]), pid, str(answer["token"]))
        lease.close()
        return None

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        from filelock import FileLock, Timeout

        lock = FileLock(self.directory / f"{self.key}.lock")
        until = time.monotonic() + START_TIMEOUT
        while not lock.is_locked:
            if self._closed:
                raise _let_go()
            if time.monotonic() > until:
                raise self._error(f"is being started by another process that still holds {lock.lock_file}")
            with contextlib.suppress(Timeout):
                lock.acquire(timeout=_STEP)
        try:
            yield
        finally:
            lock.release()

    def _file(self, suffix: str) -> Path:
        return self.directory / f"{self.key}.{suffix}"

    def _error(self, what: str) -> CallError:
        return CallError("engine", "infrastructure", f"the server of local/{self.model.name} {what}")

    def _last_words(self) -> str:
        log = self._file("log")
        try:
            lines = log.read_text("utf-8", "replace").strip().splitlines()[-8:]
        except OSError:
            lines = []
        return "\n".join([f"its last words, from {log}:", *lines]) if lines else f"nothing was printed to {log}"


def _is_closed(lease: socket.socket) -> bool:
    """Whether the other end is gone; it sends nothing after its first line, so being readable means the end."""
    try:
        poll = select.poll()
        poll.register(lease, select.POLLIN)
        return bool(poll.poll(0))
    except (OSError, ValueError):
        return True


def _let_go() -> CallError:
    return CallError("closed", "us", "the local model was let go of while it was being started")
