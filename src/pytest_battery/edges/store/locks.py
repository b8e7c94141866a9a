"""One lock per lane, so that two sessions on one store never pay for the same run twice."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no byte-range locks of this kind
    fcntl = None  # type: ignore[assignment]

__all__ = ["LaneLocks"]

LOCK_FILE = ".lock"
POLL_SECONDS = 0.05


class LaneLocks:
    """Locks on bytes of one file, one byte a lane.

    The kernel releases them when the process ends, however it ends, and no clock can make one stale.  They hold
    between processes; inside one process the caller already runs each lane once.
    """

    def __init__(self, root: Path) -> None:
        self._path = root / LOCK_FILE
        self._descriptor: int | None = None

    @contextlib.asynccontextmanager
    async def holding(self, name: str) -> AsyncIterator[bool]:
        """Hold the lock of the lane *name*; yields whether another process held it first.

        Where the store cannot be written there is nothing to guard: nothing can be stored there either.
        """
        waited = False
        offset = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
        descriptor = self._open()
        if descriptor is None:
            yield False
            return
        while not _try(descriptor, offset):
            waited = True
            await anyio.sleep(POLL_SECONDS)
        try:
            yield waited
        finally:
            fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, offset)

    def _open(self) -> int | None:
        if self._descriptor is None and fcntl is not None:
            with contextlib.suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        return self._descriptor

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _try(descriptor: int, offset: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
    except (BlockingIOError, PermissionError):
        return False
    return True
