"""Ctrl-C, kill -9, two sessions at once, a store that can't be written: nothing paid is lost, nothing repeated."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

QUIET = [option for name in ("randomly", "asyncio", "timeout", "cacheprovider") for option in ("-p", f"no:{name}")]


def start(project, *arguments: str, **more) -> subprocess.Popen[str]:
    """pytest in a process of its own, without waiting for it."""
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *QUIET, *arguments],
        cwd=project.path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **more,
    )


def until(condition, process: subprocess.Popen[str], seconds: float = 60) -> None:
    """Wait for *condition*; fail with what the process said if it ends first."""
    deadline = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            pytest.fail(f"ended or waited too long: {process.communicate()[0]}")
        time.sleep(0.02)


@pytest.fixture
def gated(project):
    """Calls of the case t04 and later wait until the file `open` exists."""
    project.fake(handler="gate")
    with (project.path / "conftest.py").open("a") as conftest:
        conftest.write(
            "async def gate(request):\n"
            "    import anyio\n"
            "    if len(answer(request)) > 3 or 'wxxx' in request.messages[-1].content:\n"
            "        while not CALLS.with_name('open').exists():\n"
            "            await anyio.sleep(0.02)\n"
            "    return 'w'\n"
        )
    project.task(cases=5)
    return project


def finished(project) -> int:
    return len(project.records())


def asked(project) -> bool:
    return len(project.calls) == 10 and finished(project) == 6


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_ctrl_c_ends_in_a_moment_with_a_partial_table_and_keeps_what_had_finished(gated, workers):
    process = start(gated, *workers, start_new_session=True)
    until(lambda: asked(gated), process)
    os.killpg(process.pid, signal.SIGINT)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 2, text
    assert "battery" in text
    assert "Traceback" not in text
    if not workers:
        assert "cut short by Ctrl-C: what had finished is kept" in text
    assert finished(gated) == 6
    (gated.path / "open").touch()
    gated.run().assert_outcomes(passed=4, skipped=6)
    assert finished(gated) == 10
    assert len(gated.calls) == 14


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_kill_minus_9_loses_only_what_was_in_flight(gated, workers):
    process = start(gated, *workers)
    until(lambda: asked(gated), process)
    process.kill()
    process.communicate()
    before = {path: path.read_bytes() for path in (gated.path / "store").rglob("t0*.json")}
    assert len(before) == 6
    (gated.path / "open").touch()
    gated.run().assert_outcomes(passed=4, skipped=6)
    assert {path: path.read_bytes() for path in before} == before
    assert len(gated.calls) == 14


def test_two_sessions_on_one_store_pay_for_each_run_once(gated):
    first = start(gated)
    until(lambda: asked(gated), first)
    second = start(gated)
    until(lambda: bool(list((gated.path / "store").glob(".lock"))) and second.poll() is None and _waits(second), second)
    (gated.path / "open").touch()
    one, two = first.communicate(timeout=60)[0], second.communicate(timeout=60)[0]
    assert (first.returncode, second.returncode) == (0, 0), one + two
    assert len(gated.calls) == 10
    assert finished(gated) == 10
    assert "0 kept, 10 measured" in one
    assert "10 kept, 0 measured" in two


def _waits(process: subprocess.Popen[str]) -> bool:
    """Whether the second session has got as far as the store's lock file."""
    try:
        return any(os.readlink(link).endswith("store/.lock") for link in Path(f"/proc/{process.pid}/fd").iterdir())
    except OSError:
        return False


def test_eight_sessions_may_create_the_store_at_once(project):
    project.task(cases=2)
    processes = [start(project, "-q") for _ in range(8)]
    texts = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 8, texts
    assert len(project.calls) == 4
    assert not list((project.path / "store").rglob(".tmp-*"))


def test_a_full_disk_stops_the_asking_and_leaves_earlier_records_intact(project):
    project.task(cases=3)
    project.run("-k", "t01")
    before = {path: path.read_bytes() for path in (project.path / "store").rglob("t01-*.json")}
    project.fake("return 'w' * 100_000")

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))

    process = start(project, "--jobs", "1", preexec_fn=small_files)
    text, _ = process.communicate(timeout=60)
    assert process.returncode in (1, 2), text
    assert "could not be written: File too large. Earlier records are intact" in text
    assert "Traceback" not in text
    assert {path: path.read_bytes() for path in before} == before
    assert not list((project.path / "store").rglob(".tmp-*"))
    assert len(project.calls) < 6
    project.fake()
    project.run().assert_outcomes(passed=4, skipped=2)


def test_a_store_that_cannot_be_written_is_refused_before_anything_is_asked(project):
    project.task(cases=2)
    (project.path / "store").write_text("a file where a directory should be")
    result = project.run()
    assert result.ret == 4
    assert "store: could not be written" in result.stderr.str()
    assert not project.calls


def test_a_fully_cached_session_needs_no_writing(project):
    project.task(cases=2)
    project.run()
    for path in [project.path / "store", *(project.path / "store").rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
    try:
        project.run().assert_outcomes(skipped=4)
    finally:
        for path in [project.path / "store", *(project.path / "store").rglob("*")]:
            path.chmod(path.stat().st_mode | 0o200)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_answers_on_their_way_are_kept_when_a_session_is_ended(gated, number):
    """What has been asked is paid for: it is waited for a moment, and nothing more is begun."""
    process = start(gated, "--jobs", "3", "-k", "t04 or t05", start_new_session=True)
    until(lambda: len(gated.calls) == 3, process)
    process.send_signal(number)
    gated.path.joinpath("open").touch()
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 2, text
    assert 3 <= finished(gated) == len(gated.calls)
    again = start(gated)
    text, _ = again.communicate(timeout=60)
    assert again.returncode == 0, text
    assert len(gated.calls) == 10


def test_a_run_that_hangs_is_named_in_the_heartbeat(gated, monkeypatch):
    script = (
        "import pytest, sys\n"
        "from pytest_battery.plugin import live\n"
        "live.SLOW_SECONDS, live.HEARTBEAT_SECONDS, live.DRAW_SECONDS = 0.2, 0.3, 0.1\n"
        "sys.exit(pytest.main(sys.argv[1:]))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, *QUIET, "-k", "t04 and big"],
        cwd=gated.path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "echo::t04[fake/big-none] run 1 asked" in line:
            break
    else:
        pytest.fail("the run that hangs was never named")
    gated.path.joinpath("open").touch()
    process.communicate(timeout=60)
    assert process.returncode == 0
