"""Limits that each process of a sandbox inherits."""

from __future__ import annotations

import contextlib
import os
import resource

from pytest_battery.edges.sandboxes.confinement import Limits

__all__ = ["limiting"]


def limiting(limits: Limits, uid: int | None) -> list[str]:
    """The beginning of a command that runs with *limits*; under user *uid*, None for that of this process.

    A limit above that of this process cannot be had without rights: there it is as it is.
    """
    # A user of its own has no other processes; else those that run already count too.
    others = 0 if uid is not None else _threads_of(os.getuid())
    wanted = {
        "nproc": (resource.RLIMIT_NPROC, others + limits.processes),
        "fsize": (resource.RLIMIT_FSIZE, limits.file_bytes),
        "data": (resource.RLIMIT_DATA, limits.data_bytes),
        "core": (resource.RLIMIT_CORE, 0),
    }
    return ["prlimit", *(f"--{name}={_had(kind, most)}" for name, (kind, most) in wanted.items()), "--"]


def _had(kind: int, most: int) -> int:
    hard = resource.getrlimit(kind)[1]
    return most if hard == resource.RLIM_INFINITY else min(most, hard)


def _threads_of(uid: int) -> int:
    """The limit is of threads, and of a user, not of a sandbox."""
    count = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                count += len(os.listdir(f"{entry.path}/task")) if entry.stat().st_uid == uid else 0
    return count
