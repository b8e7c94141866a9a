"""What a task file puts into a sandbox's options and commands stays what it is: no option can be smuggled in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_battery.edges.sandboxes import Confinement, Finished, Limits, Mount, open_bubblewrap, open_unconfined
from pytest_battery.edges.sandboxes.options import packed
from pytest_battery.errors import SandboxError

KINDS = pytest.mark.parametrize("opening", [open_bubblewrap, open_unconfined], ids=["bubblewrap", "none"])


async def ran(confinement: Confinement, *argv: str, opening: Callable[..., object] = open_bubblewrap) -> Finished:
    async with opening(confinement) as sandbox:  # type: ignore[attr-defined]
        done: Finished = await sandbox.run(argv, seconds=30)
        return done


@pytest.mark.parametrize("where", ["name", "value", "mount", "workdir"])
def test_an_option_behind_a_nul_is_refused(confinement: Confinement, tmp_path: Path, where: str) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("sk-planted")
    evil = f"x\0--ro-bind\0{secret}\0/tmp/secret"
    given = {
        "name": replace(confinement, environment={evil: "x"}),
        "value": replace(confinement, environment={"A": evil}),
        "mount": replace(confinement, mounts=[*confinement.mounts, Mount(confinement.mounts[0].host, f"/{evil}")]),
        "workdir": replace(confinement, workdir=evil),
    }[where]
    with pytest.raises(SandboxError, match="holds a NUL"):
        anyio.run(ran, given, "/bin/cat", "/tmp/secret")


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
def test_options_arrive_as_they_were_given(told: list[str]) -> None:
    assert packed(told).decode().split("\0") == [*told, ""]


@pytest.mark.parametrize("value", ["--bind", "two\nlines", " spaces ", "", "ünïcode", "$HOME", "'\""])
def test_values_of_the_environment_arrive_as_they_were_given(confinement: Confinement, value: str) -> None:
    done = anyio.run(ran, replace(confinement, environment={"GIVEN": value}), "/usr/bin/printenv", "GIVEN")
    assert done.stdout.decode() == f"{value}\n"


def test_options_of_bubblewrap_in_a_command_are_the_commands(confinement: Confinement) -> None:
    assert anyio.run(ran, confinement, "/bin/echo", "--bind", "/", "/").stdout == b"--bind / /\n"


def test_a_name_that_is_no_text_can_be_mounted(confinement: Confinement, workspace: Path) -> None:
    odd = workspace.parent / "odd-\udcff"
    odd.mkdir()
    (odd / "a").write_text("x")
    mounts = [*confinement.mounts, Mount(odd, "/odd")]
    assert anyio.run(ran, replace(confinement, mounts=mounts), "/bin/cat", "/odd/a").stdout == b"x"


@KINDS
@pytest.mark.parametrize("argument", ["a\0b", "\ud800", "x" * 200_000], ids=["NUL", "half a pair", "too long"])
def test_an_argument_that_no_process_can_have_is_told(
    confinement: Confinement, opening: Callable[..., object], argument: str
) -> None:
    async def work() -> None:
        with pytest.raises(SandboxError, match="cannot be run"):
            await ran(confinement, "/bin/echo", argument, opening=opening)
        assert (await ran(confinement, "/bin/echo", "fine", opening=opening)).stdout == b"fine\n"

    anyio.run(work)


def test_where_a_hidden_link_leads_is_looked_for_too(confinement: Confinement, workspace: Path) -> None:
    link = workspace.parent / "link"
    link.symlink_to("/usr/bin/env")
    with pytest.raises(SandboxError, match="/usr/bin/env must be hidden, and can be seen"):
        anyio.run(ran, replace(confinement, hidden=[link]), "true")


@KINDS
def test_output_is_told_as_it_comes(confinement: Confinement, opening: Callable[..., object]) -> None:
    pieces: list[bytes] = []
    os.mkfifo(confinement.mounts[0].host / "go")

    async def work() -> Finished:
        async with opening(replace(confinement, limits=Limits(output_bytes=10))) as sandbox:  # type: ignore[attr-defined]
            done: Finished = await sandbox.run(
                ["/bin/sh", "-c", "echo first; read x < go; echo $x; echo no >&2"],
                seconds=30,
                on_output=go,
            )
            return done

    def go(piece: bytes) -> None:
        """The command waits for what is only written once its first line has come."""
        pieces.append(piece)
        if piece == b"first\n":
            with (confinement.mounts[0].host / "go").open("w") as pipe:
                pipe.write("second line\n")

    done = anyio.run(work)
    assert b"".join(pieces) == b"first\nsecond line\n"
    assert (done.stdout, done.stderr, done.cut) == (b"first\nseco", b"no\n", True)


@KINDS
def test_who_takes_the_output_and_fails_ends_the_command(
    confinement: Confinement, opening: Callable[..., object]
) -> None:
    def refuse(piece: bytes) -> None:
        raise ValueError(piece)

    async def work() -> None:
        async with opening(confinement) as sandbox:  # type: ignore[attr-defined]
            with pytest.raises(ExceptionGroup) as caught, anyio.fail_after(20):
                await sandbox.run(["/bin/sh", "-c", "echo x; sleep 60"], on_output=refuse)
            assert caught.group_contains(ValueError)

    anyio.run(work)


@KINDS
def test_who_is_given_nothing_reads_nothing(confinement: Confinement, opening: Callable[..., object]) -> None:
    done = anyio.run(lambda: ran(confinement, "/bin/readlink", "/proc/self/fd/0", opening=opening))
    assert done.stdout == b"/dev/null\n"


def test_without_a_sandbox_what_stays_behind_is_not_waited_for(confinement: Confinement) -> None:
    """It holds the pipes of a command that has ended."""

    async def work() -> tuple[Finished, int]:
        async with open_unconfined(confinement) as sandbox:
            with anyio.fail_after(30):
                done = await sandbox.run(["/bin/bash", "-c", "setsid sleep 300 & echo $!; sleep 0.2"])
        return done, int(done.stdout)

    done, left = anyio.run(work)
    os.kill(left, signal.SIGKILL)
    assert (done.exit_code, done.timed_out) == (0, False)


def test_limits_above_our_own_are_our_own(confinement: Confinement) -> None:
    """Without rights nobody raises what they were given, and that is no reason not to start."""
    code = (
        "import sys, resource, anyio\nfrom pathlib import Path\nfrom pytest_battery.edges.sandboxes import *\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
        "async def main():\n"
        "    async with open_bubblewrap(Confinement([Mount(Path(sys.argv[1]), '/work', writable=True)])) as sandbox:\n"
        "        print((await sandbox.run(['/bin/bash', '-c', 'ulimit -Hf'])).stdout.decode())\n"
        "anyio.run(main)\n"
    )
    host = str(confinement.mounts[0].host)
    done = subprocess.run([sys.executable, "-c", code, host], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("1024", "")


@KINDS
@pytest.mark.parametrize(
    ("script", "code", "by"), [("exit 3", 3, None), ("kill -9 $$", 137, 9), ("kill -TERM $$", 143, 15)]
)
def test_how_a_command_ended_is_told_alike(
    confinement: Confinement, opening: Callable[..., object], script: str, code: int, by: int | None
) -> None:
    done = anyio.run(lambda: ran(confinement, "/bin/sh", "-c", script, opening=opening))
    assert (done.exit_code, done.signal, done.timed_out) == (code, by, False)
