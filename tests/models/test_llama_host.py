from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from pytest_battery.edges.models import llama_child
from pytest_battery.edges.models.llama_host import LlamaHost
from pytest_battery.edges.models.runtime_dir import runtime_directory
from pytest_battery.edges.models.weights import local_model
from pytest_battery.errors import CallError, ProviderError

Running = Callable[[int], bool]
BecomesTrue = Callable[[Callable[[], bool]], bool]

HOLDER = """
import sys
from pytest_battery.edges.models.llama_host import LlamaHost
from pytest_battery.edges.models.weights import local_model
host = LlamaHost(local_model("smollm2-135m"))
print(host.ready().pid, flush=True)
sys.stdin.read()
"""


@contextmanager
def hold_elsewhere() -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the server and prints its pid."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def printed_pid(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


@pytest.fixture
def host(smollm2: Path, runtime: Path) -> Iterator[LlamaHost]:
    with closing(LlamaHost(local_model("smollm2-135m"))) as found:
        yield found


@pytest.mark.usefixtures("smollm2", "runtime")
def test_processes_share_one_server_that_ends_when_all_of_them_are_killed(
    running: Running, becomes_true: BecomesTrue
) -> None:
    with hold_elsewhere() as one, hold_elsewhere() as other:
        server = printed_pid(one)
        assert printed_pid(other) == server
        one.kill()
        one.wait()
        assert running(server)
        with closing(LlamaHost(local_model("smollm2-135m"))) as third:
            assert third.ready().pid == server
        other.kill()
        other.wait()
        assert becomes_true(lambda: not running(server))


def test_a_server_ends_with_its_last_holder_and_ctrl_c_is_not_for_it(
    host: LlamaHost, running: Running, becomes_true: BecomesTrue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GGML_CPU_DISABLE_FUSION", "1")
    server = host.ready()
    assert host.ready() == host.current() == server
    assert os.getsid(server.pid) == server.pid
    assert b"GGML_CPU" not in Path(f"/proc/{server.pid}/environ").read_bytes()
    host.close()
    host.close()
    assert becomes_true(lambda: not running(server.pid))
    assert host.current() is None
    with pytest.raises(CallError, match="let go of"):
        host.ready()


def test_a_server_that_died_is_replaced_once(host: LlamaHost, becomes_true: BecomesTrue) -> None:
    first = host.ready()
    os.kill(first.pid, signal.SIGKILL)
    assert becomes_true(lambda: host.current() is None)
    second = host.ready()
    assert second.pid != first.pid
    os.kill(second.pid, signal.SIGKILL)
    assert becomes_true(lambda: host.current() is None)
    with pytest.raises(CallError, match="died or did not start, twice") as caught:
        host.ready()
    assert caught.value.fault == "infrastructure"


def test_a_port_that_is_someone_elses_by_now_is_found_out(host: LlamaHost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        threading.Thread(target=answer_once, args=(other, b'{"key": "another", "pid": 1}\n')).start()
        note = host.directory / f"{host.key}.json"
        note.write_text(json.dumps({"pid": os.getpid(), "port": other.getsockname()[1]}))
        server = host.ready()
    assert server.pid not in (1, os.getpid())
    assert json.loads(note.read_text())["pid"] == server.pid


def answer_once(listener: socket.socket, line: bytes) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.sendall(line)


@pytest.mark.parametrize(
    "note", ["", "[]", "{}", '{"pid": 1e400, "port": 1}', '{"pid": 999999999, "port": 1}', '{"pid": 1, "port": 1}']
)
def test_a_note_of_a_dead_server_leads_nowhere(runtime: Path, note: str) -> None:
    with closing(LlamaHost(local_model("smollm2-135m"))) as host:
        (host.directory / f"{host.key}.json").write_text(note)
        assert host._find() is None


def test_a_failed_start_shows_what_was_printed_last(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_BATTERY_WEIGHTS", str(tmp_path))
    garbage = b"not a model"
    model = dataclasses.replace(local_model("smollm2-135m"), name="broken", sha256=hashlib.sha256(garbage).hexdigest())
    model.path.write_bytes(garbage)
    with closing(LlamaHost(model)) as host:
        for said in ("did not start; its last words, from", "did not start;", "died or did not start, twice;"):
            with pytest.raises(CallError) as caught:
                host.ready()
            assert f"the server of local/broken {said}" in str(caught.value)
            assert "Failed to init server" in str(caught.value)


def test_missing_weights_are_said_when_they_went_meanwhile(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_BATTERY_WEIGHTS", str(tmp_path))
    with closing(LlamaHost(local_model("smollm2-135m"))) as host, pytest.raises(CallError, match="battery local fetch"):
        host.ready()


def test_letting_go_ends_a_wait_for_another_process_that_starts_the_server(smollm2: Path, runtime: Path) -> None:
    from filelock import FileLock

    host = LlamaHost(local_model("smollm2-135m"))
    with FileLock(host.directory / f"{host.key}.lock"):
        said: list[CallError] = []

        def wait() -> None:
            try:
                host.ready()
            except CallError as error:
                said.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        host.close()
        waiting.join(5)
    assert [error.kind for error in said] == ["closed"]


def test_a_child_nobody_comes_to_ends_by_itself() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        llama_child.hold(listener, {}, patience=0.05)


def test_a_child_answers_each_holder_and_ends_with_the_last() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        holding = threading.Thread(target=llama_child.hold, args=(listener, {"key": "k"}, 30.0))
        holding.start()
        leases = [socket.create_connection(listener.getsockname()) for _ in range(3)]
        assert [lease.recv(100) for lease in leases] == [b'{"key": "k"}\n'] * 3
        for lease in leases:
            assert holding.is_alive()
            lease.close()
        holding.join(5)
        assert not holding.is_alive()


def test_the_runtime_directory_is_this_users_alone(runtime: Path) -> None:
    assert runtime_directory() == runtime
    assert runtime.stat().st_mode & 0o777 == 0o700
    runtime.chmod(0o755)
    with pytest.raises(ProviderError, match=r"only user \d+ can use; found drwxr-xr-x"):
        runtime_directory()


def test_a_link_in_the_place_of_the_runtime_directory_is_refused(runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    runtime.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ProviderError, match="found lrwx"):
        runtime_directory()


def test_without_a_session_the_runtime_directory_is_among_the_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert runtime_directory() == tmp_path / f"pytest-battery-{os.getuid()}"
