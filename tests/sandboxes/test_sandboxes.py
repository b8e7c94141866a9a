"""Opening a sandbox: what must be hidden is looked for, and what is served inside is reached."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from pytest_battery.edges.sandboxes import Confinement, Finished, Mount, Sandbox, open_bubblewrap, open_unconfined
from pytest_battery.errors import SandboxError


@asynccontextmanager
async def greeting(listener: socket.socket) -> AsyncIterator[None]:
    """Says hello to whoever connects."""
    listener.setblocking(False)

    async def serve() -> None:
        while True:
            await anyio.wait_readable(listener)
            connection, _ = listener.accept()
            connection.sendall(b"hello\n")
            connection.close()

    with listener:
        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            yield
            group.cancel_scope.cancel()


def greeted(sandbox: Sandbox) -> list[str]:
    host, port = sandbox.address.removeprefix("http://").split(":")
    return ["/bin/bash", "-c", f"exec 3<>/dev/tcp/{host}/{port} && cat <&3"]


@pytest.mark.parametrize("kind", ["bubblewrap", "none"])
def test_what_is_served_is_reached_from_inside(confinement: Confinement, kind: str) -> None:
    opening = open_bubblewrap if kind == "bubblewrap" else open_unconfined

    async def work() -> list[Finished]:
        async with opening(confinement) as sandbox:
            assert sandbox.kind == kind
            return [await sandbox.run(greeted(sandbox), seconds=20, serving=greeting) for _ in range(2)]

    assert [done.stdout for done in anyio.run(work)] == [b"hello\n"] * 2


def test_sandboxes_side_by_side_have_an_address_each(workspace: Path) -> None:
    found: list[bytes] = []

    async def one(number: int) -> None:
        own = workspace.parent / str(number)
        own.mkdir()
        async with open_bubblewrap(Confinement([Mount(own, "/work", writable=True)])) as sandbox:
            found.append((await sandbox.run(greeted(sandbox), seconds=20, serving=greeting)).stdout)

    async def work() -> None:
        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(one, number)

    anyio.run(work)
    assert found == [b"hello\n"] * 4


async def opened(confinement: Confinement) -> None:
    async with open_bubblewrap(confinement):
        pass


def test_what_a_mount_holds_is_not_hidden(confinement: Confinement, workspace: Path) -> None:
    (workspace / "answers").mkdir()
    hiding = replace(confinement, hidden=[workspace / "answers"])
    with pytest.raises(SandboxError, match=r"answers must be hidden, and .*workspace, which holds it"):
        anyio.run(opened, hiding)


def test_what_can_be_seen_all_the_same_is_not_hidden(confinement: Confinement) -> None:
    with pytest.raises(SandboxError, match="/usr/bin/env must be hidden, and can be seen in the sandbox"):
        anyio.run(opened, replace(confinement, hidden=[Path("/nowhere"), Path("/usr/bin/env")]))


def test_what_is_hidden_is_hidden(confinement: Confinement, tmp_path: Path) -> None:
    answers = tmp_path / "with space\nand line" / "answers"
    answers.mkdir(parents=True)
    anyio.run(opened, replace(confinement, hidden=[answers, tmp_path, Path.home(), Path("/etc/shadow")]))


def test_a_project_that_is_called_like_a_place_inside_is_hidden_all_the_same(
    confinement: Confinement, workspace: Path
) -> None:
    """`/work/main` of this machine and `main` of the workspace are two things."""
    (workspace / "main").mkdir()
    anyio.run(opened, replace(confinement, hidden=[Path("/work/main"), Path("/work")]))


def test_a_mount_that_is_not_there_is_told(confinement: Confinement, tmp_path: Path) -> None:
    more = replace(confinement, mounts=[*confinement.mounts, Mount(tmp_path / "gone", "/gone")])
    with pytest.raises(SandboxError, match="gone is not there, and should stand at /gone"):
        anyio.run(opened, more)


def test_a_sandbox_that_does_not_start_says_what_bubblewrap_said(confinement: Confinement) -> None:
    with pytest.raises(SandboxError, match="bwrap: "):
        anyio.run(opened, replace(confinement, workdir="/nowhere"))


def test_without_bubblewrap_nothing_is_run(
    confinement: Confinement, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match="apt-get install bubblewrap"):
        anyio.run(opened, confinement)


def test_read_only_is_read_only(confinement: Confinement, workspace: Path) -> None:
    brick = workspace.parent / "brick"
    brick.mkdir()
    (brick / "a").write_text("kept")

    async def work() -> Finished:
        more = replace(confinement, mounts=[*confinement.mounts, Mount(brick, "/brick")])
        async with open_bubblewrap(more) as sandbox:
            return await sandbox.run(["/bin/bash", "-c", "cat /brick/a; echo x > /brick/a"])

    done = anyio.run(work)
    assert done.stdout == b"kept"
    assert (brick / "a").read_text() == "kept"


def test_without_a_sandbox_the_environment_is_its_own_too(
    confinement: Confinement, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_API_KEY", "sk-planted")

    async def work() -> Finished:
        async with open_unconfined(replace(confinement, environment={"GIVEN": "yes"})) as sandbox:
            assert sandbox.place("/work/a") == str(workspace / "a")
            return await sandbox.run(["/bin/bash", "-c", "env; pwd; ls -a ~ | wc -l"])

    done = anyio.run(work).stdout.decode()
    assert "sk-planted" not in done
    assert "GIVEN=yes" in done
    assert done.endswith(f"{workspace}\n2\n")


def test_a_place_that_the_sandboxs_user_cannot_come_to_is_told(confinement: Confinement, workspace: Path) -> None:
    if os.geteuid():
        pytest.skip("only root's sandboxes run under another user")
    closed = workspace.parent / "closed"
    (closed / "brick").mkdir(parents=True)
    closed.chmod(0o700)
    more = replace(confinement, mounts=[*confinement.mounts, Mount(closed / "brick", "/brick")])
    with pytest.raises(SandboxError, match=f"chmod o\\+x {closed}"):
        anyio.run(opened, more)


def test_an_ordinary_user_has_a_sandbox_as_well(
    workspace: Path, as_ordinary_user: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    os.chown(workspace, 61234, 61234)
    script = (
        "import sys, anyio\nfrom pathlib import Path\nfrom pytest_battery.edges.sandboxes import *\n"
        "async def main():\n"
        "    async with open_bubblewrap(Confinement([Mount(Path(sys.argv[1]), '/work', writable=True)])) as sandbox:\n"
        "        done = await sandbox.run(['/bin/bash', '-c', 'id -u; cat /etc/shadow; touch /work/made /usr/x; ls /proc | grep -c [0-9]'])\n"
        "        print(done.stdout.decode(), done.stderr.decode())\n"
        "anyio.run(main)\n"
    )
    done = as_ordinary_user(script, str(workspace))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1000\n")
    assert "No such file" in done.stdout
    assert "Read-only file system" in done.stdout
    assert (workspace / "made").stat().st_uid == 61234
