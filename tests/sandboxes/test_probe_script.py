"""The probe that also runs inside of real agents, here from a shell: every attempt fails, and nothing of it stays."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from pytest_battery.edges.sandboxes import Confinement, Finished, Serving, open_bubblewrap

PROBE = Path(__file__).with_name("probe.sh")


@asynccontextmanager
async def answering(listener: socket.socket) -> AsyncIterator[None]:
    """The kernel answers for a socket that listens; nobody has to accept."""
    with listener:
        yield


@pytest.mark.parametrize("serving", [None, answering], ids=["without a relay", "with a relay"])
def test_nothing_that_the_probe_tries_succeeds(
    confinement: Confinement,
    workspace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    serving: Serving | None,
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("sk-planted")
    monkeypatch.setenv("PLANTED_API_KEY", "sk-planted")
    shutil.copy(PROBE, workspace)

    async def work(decoy: int) -> Finished:
        environment = {
            "PROBE_HIDDEN": f"{secret}\n{Path.home()}/.ssh\n/root\n{workspace}",
            "PROBE_DECOY": str(decoy),
            "PROBE_SECRET": "sk-planted",
            "PROBE_HOST": str(workspace),
            "PROBE_RELAY": "yes" if serving else "no",
        }
        async with open_bubblewrap(replace(confinement, environment=environment)) as sandbox:
            return await sandbox.run(["/bin/bash", "probe.sh"], seconds=60, serving=serving)

    with socket.create_server(("127.0.0.1", 0)) as decoy:
        done = anyio.run(work, decoy.getsockname()[1])
    lines = done.stdout.decode().splitlines()
    assert [line for line in lines if line.startswith("BROKEN")] == []
    assert lines[-1] == "probed"
    assert len([line for line in lines if line.startswith("held")]) > 25
    assert not Path("/usr/x").exists()


def test_nothing_that_it_tries_succeeds_for_an_ordinary_user_either(
    workspace: Path, as_ordinary_user: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    shutil.copy(PROBE, workspace)
    os.chown(workspace, 61234, 61234)
    code = (
        "import sys, anyio\nfrom contextlib import asynccontextmanager\nfrom pathlib import Path\n"
        "from pytest_battery.edges.sandboxes import *\n"
        "@asynccontextmanager\nasync def answering(listener):\n    with listener:\n        yield\n"
        "async def main():\n"
        "    told = {'PROBE_RELAY': 'yes', 'PROBE_HIDDEN': '/root', 'PROBE_HOST': sys.argv[1]}\n"
        "    mounts = [Mount(Path(sys.argv[1]), '/work', writable=True)]\n"
        "    async with open_bubblewrap(Confinement(mounts, environment=told)) as sandbox:\n"
        "        done = await sandbox.run(['/bin/bash', 'probe.sh'], seconds=60, serving=answering)\n"
        "    print(done.stdout.decode(), end='')\n"
        "anyio.run(main)\n"
    )
    done = as_ordinary_user(code, str(workspace))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("BROKEN")] == []
    assert "held relay yes" in lines
    assert lines[-1] == "probed"


def test_the_probe_tells_what_does_not_hold(confinement: Confinement, workspace: Path) -> None:
    shutil.copy(PROBE, workspace)

    async def work() -> Finished:
        environment = {"PROBE_HIDDEN": "/usr/bin/env\n/gone", "PROBE_RELAY": "yes"}
        async with open_bubblewrap(replace(confinement, environment=environment)) as sandbox:
            return await sandbox.run(["/bin/bash", "probe.sh"], seconds=60)

    lines = anyio.run(work).stdout.decode().splitlines()
    assert [line for line in lines if line.startswith("BROKEN")] == ["BROKEN hidden /usr/bin/env", "BROKEN relay yes"]


def test_outside_of_a_sandbox_the_probe_does_nothing() -> None:
    done = subprocess.run(["/bin/bash", str(PROBE)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
