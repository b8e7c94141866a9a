"""A process whose output is bounded, whose time is bounded, and that ends with all it started."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import anyio
from anyio.abc import ByteReceiveStream, Process

from pytest_battery.edges.sandboxes.confinement import Finished

__all__ = ["Kept", "ended", "finished", "in_memory", "kept"]


@dataclass(slots=True)
class Kept:
    """The beginning of a stream, and whether there was more."""

    content: bytes = b""
    cut: bool = False


async def kept(stream: ByteReceiveStream | None, most: int, into: Kept) -> None:
    """Read *stream* to its end and keep *most* bytes: whoever prints for ever must not wait, nor fill the memory."""
    if stream is None:
        return
    parts: list[bytes] = []
    size = 0
    async for part in stream:
        room = most - size
        if room > 0:
            parts.append(part[:room])
            size += min(len(part), room)
        into.cut = into.cut or len(part) > room
    into.content = b"".join(parts)


async def finished(process: Process, most: int, seconds: float | None, kill: Callable[[], None]) -> Finished:
    """Wait for *process*; *kill* ends it and all it started, when its time is up or whoever waits is cancelled."""
    started = time.monotonic()
    out, err = Kept(), Kept()
    timed_out = False
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(kept, process.stdout, most, out)
            group.start_soon(kept, process.stderr, most, err)
            with anyio.move_on_after(seconds) as scope:
                await process.wait()
            timed_out = scope.cancelled_caught
            kill()
    finally:
        await ended(process, kill)
    code = process.returncode
    assert code is not None
    return Finished(code, out.content, err.content, time.monotonic() - started, timed_out, out.cut or err.cut)


async def ended(process: Process, kill: Callable[[], None]) -> None:
    """End *process*, whoever is cancelled meanwhile; nothing happens to one that has ended."""
    kill()
    with anyio.CancelScope(shield=True):
        await process.wait()
        await process.aclose()


def in_memory(content: bytes) -> int:
    """A descriptor that *content* is read from, of no file; the caller closes it."""
    descriptor = os.memfd_create("battery", os.MFD_CLOEXEC)
    while content:
        content = content[os.write(descriptor, content) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
