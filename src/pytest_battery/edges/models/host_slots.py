"""At most so many requests at once, over all processes of this user on this host."""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

__all__ = ["HostSlots"]

POLL = 0.03
"""Mean seconds between two looks at the slots."""


class HostSlots:
    """*count* files ``NAME.slotN``; who holds the lock of one may ask.  A lock ends with its holder's process."""

    def __init__(self, directory: Path, name: str, count: int) -> None:
        self._paths = [directory / f"{name}.slot{number}" for number in range(count)]
        # Only as many lanes as there are slots look at the files; the others of this process wait in line.
        # A line belongs to an event loop, and a process may have one after the other.
        self._line: tuple[asyncio.AbstractEventLoop, anyio.Semaphore] | None = None

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Wait for a slot and hold it."""
        line = self._line_here()
        queued = line.value == 0
        async with line:
            if queued:
                # The slot this process has just let go of is not for itself alone: whoever polls in another
                # process gets as good a chance at it.
                await anyio.sleep(random.uniform(0, 2 * POLL))
            while (slot := self._take()) is None:
                await anyio.sleep(random.uniform(0, 2 * POLL))
            try:
                yield
            finally:
                os.close(slot)

    def _line_here(self) -> anyio.Semaphore:
        loop = asyncio.get_running_loop()
        if self._line is None or self._line[0] is not loop:
            self._line = (loop, anyio.Semaphore(len(self._paths)))
        return self._line[1]

    def _take(self) -> int | None:
        for path in self._paths:
            slot = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(slot)
            except BaseException:
                os.close(slot)
                raise
            else:
                return slot
        return None
