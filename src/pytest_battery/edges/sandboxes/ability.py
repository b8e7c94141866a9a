"""Whether this machine can isolate an agent, found out by doing it."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from pytest_battery.edges.sandboxes.bubblewrap import open_bubblewrap
from pytest_battery.edges.sandboxes.confinement import Confinement, Mount
from pytest_battery.errors import SandboxError

__all__ = ["Ability", "ability"]


@dataclass(frozen=True, slots=True)
class Ability:
    """``why`` it does not work, and what would ``mend`` it; both empty where it works."""

    works: bool
    why: str = ""
    mend: str = ""


def ability() -> Ability:
    """Start a sandbox with everything a real one has, and run one command in it."""
    if shutil.which("bwrap") is None:
        return Ability(False, "bubblewrap is not installed", "apt-get install bubblewrap")
    if shutil.which("prlimit") is None:
        return Ability(False, "prlimit is not installed", "apt-get install util-linux")
    with tempfile.TemporaryDirectory() as directory:
        try:
            anyio.run(_tried, Path(directory))
        except SandboxError as error:
            return Ability(False, str(error), _mended(str(error)))
    return Ability(True)


async def _tried(directory: Path) -> None:
    async with open_bubblewrap(Confinement([Mount(directory, "/work", writable=True)])) as sandbox:
        done = await sandbox.run(["/bin/sh", "-c", "echo fine > /work/probe"], seconds=10, serving=_served)
    if done.exit_code:
        raise SandboxError(done.stderr.decode("utf-8", "replace").strip() or f"a command ended with {done.exit_code}")


@asynccontextmanager
async def _served(listener: socket.socket) -> AsyncIterator[None]:
    """Its network was reached: that is all there is to find out."""
    with listener:
        yield


def _mended(said: str) -> str:
    if "closed to other users" in said:
        return "set TMPDIR to a directory that other users may pass through, such as /tmp"
    if "Unknown option" in said or "unknown option" in said:
        return "a newer bubblewrap is needed, 0.8 or later: apt-get install bubblewrap"
    if "ermission" in said or "not permitted" in said or "namespace" in said:
        return (
            "user namespaces are switched off here: sysctl -w kernel.unprivileged_userns_clone=1 (Debian), "
            "kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), user.max_user_namespaces above 0; in a container, "
            "let it make them (for Docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined)"
        )
    return "see what bwrap says above"
