"""What a sandbox is made of, and what comes out of it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

__all__ = ["Confinement", "Finished", "Limits", "Mount", "OnOutput", "Sandbox", "Serving"]

Serving = Callable[[socket.socket], AbstractAsyncContextManager[None]]
"""Entered with a listening socket before a process starts, and left when it has ended."""

OnOutput = Callable[[bytes], None]
"""Given stdout as it comes, in pieces of any size; also what is beyond ``output_bytes``."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory of this machine, and where it stands inside."""

    host: Path
    inside: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one process and all it starts: ``processes`` at once, ``file_bytes`` for a single file, ``data_bytes`` of memory for
    a single process, ``memory_bytes`` for all of them together where that can be bounded (`metering`); ``output_bytes`` are
    kept of stdout and of stderr each, ``tmp_bytes`` is the size of /tmp and of the home where they live for one process
    only."""

    processes: int = 512
    file_bytes: int = 1 << 30
    data_bytes: int = 8 << 30
    memory_bytes: int = 8 << 30
    output_bytes: int = 64 << 20
    tmp_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True)
class Confinement:
    """``hidden`` are paths of this machine that must not be there inside.  ``environment`` is the whole of it, but for what
    every process needs (PATH, HOME, ...).  With ``keeps``, /tmp and the home live from process to process: they are
    folders of this machine then, and only ``file_bytes`` bounds them."""

    mounts: Sequence[Mount]
    environment: Mapping[str, str] = field(default_factory=dict)
    hidden: Sequence[Path] = ()
    limits: Limits = Limits()
    workdir: str = "/work"
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """How a process ended: by ``exit_code`` (128 and more than that for a signal, as a shell has it), or because its time was up.
    ``cut`` says that it printed more than is kept.  ``cpu_seconds`` and ``peak_bytes`` are of all it started, None where they
    cannot be told."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    wall_seconds: float
    timed_out: bool = False
    cut: bool = False
    cpu_seconds: float | None = None
    peak_bytes: int | None = None

    @property
    def signal(self) -> int | None:
        """What ended it, if a signal did; a process may also end with such a code by itself."""
        return self.exit_code - 128 if 128 < self.exit_code <= 192 else None


class Sandbox(Protocol):
    """An open sandbox.  Several processes may run in it, one after the other or at once."""

    kind: Literal["bubblewrap", "none"]
    address: str
    """Where `Serving` is reached from inside, as ``http://HOST:PORT``."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        seconds: float | None = None,
        serving: Serving | None = None,
        on_output: OnOutput | None = None,
    ) -> Finished:
        """Run *argv* in the working directory until it ends, or for *seconds*.  What it started ends with it.

        Without *serving* there is no network.  Raises `SandboxError` where the process could not be started at all.
        """
        ...
