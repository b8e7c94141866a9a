"""No sandbox: a process as any other, for who has said twice that this is what they want.

It has a directory, an environment and a home of its own, and whatever this machine lets it do besides.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from pytest_battery.edges.sandboxes.confinement import Confinement, Finished, OnOutput, Serving
from pytest_battery.edges.sandboxes.options import base_environment
from pytest_battery.edges.sandboxes.processes import ended, finished, in_memory, started
from pytest_battery.errors import SandboxError

__all__ = ["Unconfined", "open_unconfined"]


@asynccontextmanager
async def open_unconfined(confinement: Confinement) -> AsyncIterator[Unconfined]:
    """Mounts stay where they are: `Unconfined.place` tells where what should stand inside is.  Raises `SandboxError`."""
    listener = socket.create_server(("127.0.0.1", 0))
    try:
        with tempfile.TemporaryDirectory(prefix="battery-", ignore_cleanup_errors=True) as home:
            yield Unconfined(confinement, Path(home), listener)
    finally:
        listener.close()


class Unconfined:
    """See `open_unconfined`."""

    kind: Literal["bubblewrap", "none"] = "none"

    def __init__(self, confinement: Confinement, home: Path, listener: socket.socket) -> None:
        self._confinement, self._home, self._listener = confinement, home, listener
        host, port = listener.getsockname()
        self.address = f"http://{host}:{port}"

    def place(self, inside: str) -> str:
        """Where *inside* is on this machine.  Raises `SandboxError` for what is no mount."""
        for mount in self._confinement.mounts:
            if inside == mount.inside or inside.startswith(f"{mount.inside}/"):
                return f"{mount.host}{inside.removeprefix(mount.inside)}"
        raise SandboxError(f"without a sandbox there is no {inside}")

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        seconds: float | None = None,
        serving: Serving | None = None,
        on_output: OnOutput | None = None,
    ) -> Finished:
        """As `Sandbox.run`, but that what was started ends only as far as it stayed in its process group."""
        given = in_memory(stdin)
        try:
            running = await started(
                argv,
                stdin=given if stdin else subprocess.DEVNULL,
                env={**base_environment(str(self._home)), **self._confinement.environment},
                cwd=self.place(self._confinement.workdir),
                start_new_session=True,
            )
        finally:
            os.close(given)

        def kill() -> None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(running.process.pid, signal.SIGKILL)

        most = self._confinement.limits.output_bytes
        if serving is None:
            return await finished(running, most, seconds, kill, on_output)
        try:
            async with serving(self._listener.dup()):
                return await finished(running, most, seconds, kill, on_output)
        except BaseException:
            await ended(running, kill)
            raise
