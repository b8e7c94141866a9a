"""A process whose output is bounded, whose time is bounded, and that ends with all it started."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import FileIO
from typing import Any

import anyio
from anyio.abc import Process

from pytest_battery.edges.sandboxes.confinement import Finished, OnOutput
from pytest_battery.errors import SandboxError

__all__ = ["Running", "ended", "finished", "in_memory", "started"]

_LAST_SECONDS = 2.0
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Running:
    """A process, and where its output is read.

    The pipes are ours and not asyncio's, which waits for a process until all who hold its pipes are gone.
    """

    process: Process
    out: FileIO
    err: FileIO


async def started(argv: Sequence[str], *, called: str | None = None, **more: Any) -> Running:
    """As `anyio.open_process`.  Raises `SandboxError` where nothing can be started; *called* is what it tells was to be run."""
    called = argv[0] if called is None else called
    pipes = [os.pipe(), os.pipe()]
    sources = [FileIO(source, "rb") for source, _ in pipes]
    try:
        process = await anyio.open_process(argv, stdout=pipes[0][1], stderr=pipes[1][1], **more)
    except BaseException as error:
        for source in sources:
            source.close()
        if isinstance(error, OSError):
            raise SandboxError(f"{called} cannot be run: {error.strerror}") from None
        if isinstance(error, ValueError):  # a NUL, or half of a surrogate pair
            raise SandboxError(f"{called} cannot be run with these arguments: {error}") from None
        raise
    finally:
        for _, sink in pipes:
            os.close(sink)
    return Running(process, *sources)


@dataclass(slots=True)
class _Kept:
    """The beginning of a stream, and whether there was more."""

    parts: list[bytes] = field(default_factory=list)
    cut: bool = False


async def _keep(source: FileIO, most: int, into: _Kept, tell: OnOutput | None = None) -> None:
    """Read *source* to its end and keep *most* bytes: whoever prints for ever must not wait, nor fill the memory."""
    room = most
    while True:
        await anyio.wait_readable(source)
        part = source.read(_PIECE)
        if not part:
            return
        if room:
            into.parts.append(part[:room])
        into.cut = into.cut or len(part) > room
        room = max(0, room - len(part))
        if tell is not None:
            tell(part)


async def finished(
    running: Running, most: int, seconds: float | None, kill: Callable[[], None], on_output: OnOutput | None = None
) -> Finished:
    """Wait for the process; *kill* ends it and all it started, when its time is up or whoever waits is cancelled."""
    begun = time.monotonic()
    out, err = _Kept(), _Kept()
    timed_out = False
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_keep, running.out, most, out, on_output)
            group.start_soon(_keep, running.err, most, err)
            with anyio.move_on_after(seconds) as scope:
                await running.process.wait()
            timed_out = scope.cancelled_caught
            kill()
            # All of a sandbox is gone by now; without one, somebody may still hold a pipe.
            group.cancel_scope.deadline = anyio.current_time() + _LAST_SECONDS
    finally:
        await ended(running, kill)
    code = running.process.returncode
    assert code is not None
    code = 128 - code if code < 0 else code
    return Finished(
        code, b"".join(out.parts), b"".join(err.parts), time.monotonic() - begun, timed_out, out.cut or err.cut
    )


async def ended(running: Running, kill: Callable[[], None]) -> None:
    """End the process, whoever is cancelled meanwhile; nothing happens to one that has ended."""
    kill()
    with anyio.CancelScope(shield=True):
        await running.process.wait()
        await running.process.aclose()
    running.out.close()
    running.err.close()


def in_memory(content: bytes) -> int:
    """A descriptor that *content* is read from, of no file; the caller closes it."""
    descriptor = os.memfd_create("battery", os.MFD_CLOEXEC)
    while content:
        content = content[os.write(descriptor, content) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
