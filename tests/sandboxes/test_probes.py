"""What an agent may try: each attempt is one test, run from a shell in the sandbox."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from pytest_battery.edges.sandboxes import Confinement, Finished, Limits, open_bubblewrap

Run = Callable[..., Finished]


def text(done: Finished) -> str:
    return (done.stdout + done.stderr).decode()


def processes_with(marker: str) -> list[int]:
    """Processes of this machine whose command line holds *marker*."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if marker.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def gone(marker: str) -> bool:
    """Whether all of them end within a moment."""
    deadline = time.monotonic() + 10
    while processes_with(marker):
        if time.monotonic() > deadline:
            return False
        os.sched_yield()
    return True


def test_it_works_in_its_workspace(sandboxed: Run, workspace: Path) -> None:
    done = sandboxed("cat > made; echo told; echo complained >&2; id -un; pwd; exit 3", stdin=b"given")
    assert (done.exit_code, done.stdout, done.stderr) == (3, b"told\nagent\n/work\n", b"complained\n")
    assert (done.timed_out, done.cut) == (False, False)
    assert (workspace / "made").read_bytes() == b"given"
    assert (workspace / "made").stat().st_uid == os.geteuid()


def test_a_secret_in_the_home_is_not_there(sandboxed: Run, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("sk-planted")
    done = sandboxed(f"cat {secret}; ls -a {Path.home()} {tmp_path}; ls -a ~")
    assert "sk-planted" not in text(done)
    assert text(done).count("No such file or directory") == 3


def test_the_shadow_file_is_not_there(sandboxed: Run) -> None:
    assert "No such file" in text(sandboxed("cat /etc/shadow"))
    assert text(sandboxed("cat /etc/passwd")).count("\n") == 2


@pytest.mark.parametrize("path", ["/usr/x", "/etc/x", "/x", "/bin/x", "/proc/sys/kernel/hostname", "/home/x"])
def test_nothing_is_written_outside(sandboxed: Run, path: str) -> None:
    done = sandboxed(f"echo x > {path}")
    assert done.exit_code != 0
    assert not Path("/usr/x").exists()


def test_no_address_but_the_relays_answers(sandboxed: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as decoy:
        port = decoy.getsockname()[1]
        script = f"for port in {port} 8080 53; do (exec 3<>/dev/tcp/127.0.0.1/$port) 2>&1 && echo REACHED $port; done; ls /sys/class/net"
        done = sandboxed(script)
    assert "REACHED" not in text(done)
    assert text(done).count(": connect: Connection refused") == 3


def test_the_root_cannot_be_mounted_again(sandboxed: Run) -> None:
    done = sandboxed("mount -o remount,rw / ; mount -o remount,rw,bind /usr; touch /usr/x; umount /etc/passwd")
    assert done.exit_code != 0
    assert not Path("/usr/x").exists()


def test_the_first_process_shows_nothing_of_this_machine(
    sandboxed: Run, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_API_KEY", "sk-planted")
    done = sandboxed("cat /proc/1/environ /proc/1/cmdline /proc/self/environ; env")
    assert "sk-planted" not in text(done)
    assert str(workspace) not in text(done)
    assert "bwrap" in text(done)


def test_no_descriptor_is_inherited(sandboxed: Run, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("sk-planted")
    descriptor = os.open(secret, os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    try:
        done = sandboxed(
            "for fd in /proc/self/fd/*; do readlink $fd; done; for n in $(seq 3 64); do cat <&$n; done 2>/dev/null"
        )
    finally:
        os.close(descriptor)
    assert "sk-planted" not in text(done)
    assert str(tmp_path) not in text(done)


def test_a_fork_bomb_is_bounded(sandboxed: Run) -> None:
    bomb = "for (1..400) { my $p = fork; if (!defined $p) { $no++ } elsif ($p) { $yes++ } else { sleep 60; exit } } print qq($yes $no)"
    done = sandboxed(f"perl -e '{bomb}'", limits=Limits(processes=60))
    started, refused = map(int, done.stdout.split())
    assert started + refused == 400
    assert 20 < started < 60


@pytest.mark.parametrize(
    "hides",
    [
        "setsid sleep MARK &",
        "nohup sleep MARK >/dev/null 2>&1 &",
        "(sleep MARK & ) &",
        "trap '' TERM INT HUP; sleep MARK &",
    ],
    ids=["setsid", "nohup", "double fork", "ignores signals"],
)
def test_nothing_outlives_its_command(sandboxed: Run, hides: str) -> None:
    mark = f"7{os.getpid()}.{time.monotonic_ns()}"
    done = sandboxed(hides.replace("MARK", mark) + "\nsleep 0.1; echo ended")
    assert done.stdout == b"ended\n"
    assert gone(mark)


def test_what_ignores_its_end_is_ended_when_its_time_is_up(sandboxed: Run) -> None:
    mark = f"8{os.getpid()}.{time.monotonic_ns()}"
    done = sandboxed(f"trap '' TERM INT; echo begun; sleep {mark} & while true; do sleep 1; done", seconds=1)
    assert (done.timed_out, done.stdout) == (True, b"begun\n")
    assert gone(mark)


def test_who_is_cancelled_leaves_nothing_behind(confinement: Confinement) -> None:
    mark = f"9{os.getpid()}.{time.monotonic_ns()}"

    async def work() -> None:
        async with open_bubblewrap(confinement) as sandbox:
            with anyio.move_on_after(1):
                await sandbox.run(["/bin/sleep", mark])

    anyio.run(work)
    assert gone(mark)


def test_a_killed_harness_leaves_nothing_behind(workspace: Path) -> None:
    mark = f"6{os.getpid()}.{time.monotonic_ns()}"
    script = (
        "import sys, anyio\nfrom pathlib import Path\nfrom pytest_battery.edges.sandboxes import *\n"
        "async def work():\n"
        "    async with open_bubblewrap(Confinement([Mount(Path(sys.argv[1]), '/work', writable=True)])) as sandbox:\n"
        "        print('open', flush=True)\n"
        f"        await sandbox.run(['/bin/bash', '-c', 'setsid sleep {mark} & sleep {mark}'])\n"
        "anyio.run(work)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(workspace)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    deadline = time.monotonic() + 20
    while len(processes_with(f"sleep\0{mark}")) < 2 and time.monotonic() < deadline:
        os.sched_yield()
    assert len(processes_with(f"sleep\0{mark}")) == 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert gone(mark)


def test_shared_memory_is_its_own(sandboxed: Run) -> None:
    name = f"battery-{os.getpid()}-{time.monotonic_ns()}"
    done = sandboxed(f"echo x > /dev/shm/{name}; cat /dev/shm/{name}; ls /dev/shm | wc -l")
    assert done.stdout == b"x\n1\n"
    assert not Path("/dev/shm", name).exists()


def test_a_link_out_of_the_workspace_leads_nowhere(sandboxed: Run, workspace: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("sk-planted")
    (workspace / "link").symlink_to(secret)
    done = sandboxed("cat link; ln -s /etc/hosts made; rm -f link; ln -s / link; echo done")
    assert "sk-planted" not in text(done)
    assert secret.read_text() == "sk-planted"
    assert secret.stat().st_uid == os.geteuid()
    assert Path("/etc/hosts").stat().st_uid == 0  # what it linked to was not handed over


def test_no_user_namespace_can_be_made(sandboxed: Run) -> None:
    assert sandboxed("unshare -Ur id").exit_code != 0


def test_a_file_is_bounded_and_so_is_tmp(sandboxed: Run) -> None:
    limits = Limits(file_bytes=1 << 20, tmp_bytes=4 << 20)
    done = sandboxed(
        "head -c 3000000 /dev/zero > big; stat -c %s big; head -c 900000 /dev/zero > small && echo fine", limits=limits
    )
    assert "1048576" in text(done)
    assert "fine" in text(done)
    done = sandboxed(
        "for n in 1 2 3 4 5 6; do head -c 1000000 /dev/zero > /tmp/$n || break; done; echo stopped at $n", limits=limits
    )
    assert "No space left" in text(done)


def test_a_flood_is_cut_and_the_command_goes_on(sandboxed: Run) -> None:
    done = sandboxed("head -c 5000000 /dev/zero; echo end >&2", limits=Limits(output_bytes=1000))
    assert (len(done.stdout), done.cut, done.stderr, done.exit_code) == (1000, True, b"end\n", 0)


def test_locked_files_come_home(sandboxed: Run, workspace: Path) -> None:
    done = sandboxed("mkdir -p locked/deep; echo x > locked/deep/file; chmod 000 locked/deep/file locked/deep locked")
    assert done.exit_code == 0
    path = workspace / "locked" / "deep" / "file"
    path.chmod(0o600)
    assert path.read_text() == "x\n"


def test_tmp_and_home_are_fresh_for_each_command_or_kept(confinement: Confinement) -> None:
    async def work(keeps: bool) -> list[bytes]:
        async with open_bubblewrap(replace(confinement, keeps=keeps)) as sandbox:
            await sandbox.run(["/bin/bash", "-c", "echo 1 > /tmp/a; echo 2 > ~/b"])
            return [(await sandbox.run(["/bin/bash", "-c", "cat /tmp/a ~/b"])).stdout]

    assert anyio.run(work, False) == [b""]
    assert anyio.run(work, True) == [b"1\n2\n"]


def test_a_command_that_there_is_not_is_a_commands_fault(confinement: Confinement) -> None:
    async def work() -> Finished:
        async with open_bubblewrap(confinement) as sandbox:
            return await sandbox.run(["/usr/bin/no-such-thing"])

    done = anyio.run(work)
    assert done.exit_code == 1
    assert b"no-such-thing" in done.stderr
