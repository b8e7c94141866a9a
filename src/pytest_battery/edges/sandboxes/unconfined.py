"""No sandbox: a process as any other, for who has said twice that this is what they want.

It has a directory, an environment and a home of its own, and whatever this machine lets it do besides.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import anyio

from pytest_battery.edges.sandboxes.confinement import Confinement, Finished, Serving
from pytest_battery.edges.sandboxes.options import base_environment
from pytest_battery.edges.sandboxes.processes import ended, finished, in_memory
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
        self, argv: Sequence[str], *, stdin: bytes = b"", seconds: float | None = None, serving: Serving | None = None
    ) -> Finished:
        """As `Sandbox.run`, but that what was started ends only as far as it stayed in its process group."""
        given = in_memory(stdin)
        try:
            process = await anyio.open_process(
                argv,
                stdin=given,
                env={**base_environment(str(self._home)), **self._confinement.environment},
                cwd=self.place(self._confinement.workdir),
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxError(f"{argv[0]} cannot be run: {error.strerror}") from None
        finally:
            os.close(given)

        def kill() -> None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)

        most = self._confinement.limits.output_bytes
        if serving is None:
            return await finished(process, most, seconds, kill)
        try:
            async with serving(self._listener.dup()):
                return await finished(process, most, seconds, kill)
        except BaseException:
            await ended(process, kill)
            raise
