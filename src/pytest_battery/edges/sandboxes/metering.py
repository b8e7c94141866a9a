"""What a sandbox used, and a bound for all of it together: by control groups, where this process may make them.

That is root's, and not even root's in most containers.  Elsewhere nothing is metered, and each process has limits of its own.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

__all__ = ["Meter", "Used", "metered", "opened_meter"]

_NAME = re.compile(r"battery-(\d+)-\d+")
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Used:
    """By all processes of a run; None where it could not be told."""

    cpu_seconds: float | None = None
    peak_bytes: int | None = None


class Meter:
    """One group for each controller that there is; ``groups`` maps ``cpu``, ``memory``, ``pids`` to directories, and is empty
    where nothing can be metered."""

    def __init__(self, groups: dict[str, Path]) -> None:
        self.groups = groups

    def take_in(self, pid: int) -> None:
        """*pid* belongs to the groups, and so does all that it starts from now on.  Raises OSError."""
        for group in set(self.groups.values()):
            (group / "cgroup.procs").write_text(str(pid))

    def used(self) -> Used:
        """What was used so far."""
        cpu: float | None = None
        if (group := self.groups.get("cpu")) is not None:
            if (nanoseconds := _number(group / "cpuacct.usage")) is not None:
                cpu = nanoseconds / 1e9
            elif (told := _read(group / "cpu.stat")) and (
                found := re.search(r"^usage_usec (\d+)$", told, re.MULTILINE)
            ):
                cpu = int(found[1]) / 1e6
        peak: int | None = None
        if (group := self.groups.get("memory")) is not None:
            names = ("memory.max_usage_in_bytes", "memory.peak")
            peak = next((number for name in names if (number := _number(group / name)) is not None), None)
        return Used(cpu, peak)

    async def close(self) -> None:
        """Take the groups away.  The kernel keeps one for a moment after its last process has ended."""
        for group in set(self.groups.values()):
            for _ in range(100):
                try:
                    group.rmdir()
                except FileNotFoundError:
                    break
                except OSError:
                    await anyio.sleep(0.01)
                else:
                    break


@asynccontextmanager
async def metered(pid: int, memory_bytes: int, processes: int) -> AsyncIterator[Meter]:
    """What process *pid* starts from now on is metered, and bounded as `opened_meter` says; all must have ended on leaving."""
    meter = opened_meter(memory_bytes, processes)
    try:
        try:
            meter.take_in(pid)
        except OSError:  # half of it would be told as if it were all
            await meter.close()
            meter = Meter({})
        yield meter
    finally:
        with anyio.CancelScope(shield=True):
            await meter.close()


def opened_meter(memory_bytes: int, processes: int, root: Path = Path("/sys/fs/cgroup")) -> Meter:
    """Groups in which all processes together have *memory_bytes*, and are no more than *processes*."""
    if os.geteuid() != 0:
        return Meter({})
    name = f"battery-{os.getpid()}-{next(_numbers)}"
    made: dict[str, Path] = {}
    for controller, parent in _parents(root):
        group = parent / name
        with contextlib.suppress(OSError):
            _sweep(parent)
            group.mkdir(exist_ok=True)
            made[controller] = group
    for controller, files, value in (
        ("memory", ("memory.limit_in_bytes", "memory.max"), memory_bytes),
        ("memory", ("memory.swap.max",), 0),
        ("pids", ("pids.max",), processes),
    ):
        for file in files:
            if (path := made.get(controller, root) / file).is_file() and controller in made:
                with contextlib.suppress(OSError):
                    path.write_text(str(value))
    return Meter(made)


def _parents(root: Path) -> Iterator[tuple[str, Path]]:
    """For each controller the group of this process, in which one of our own can be made."""
    lines = (_read(Path("/proc/self/cgroup")) or "").splitlines()
    old = {kind: place for line in lines for kinds, place in [line.split(":", 2)[1:]] for kind in kinds.split(",")}
    unified = old.pop("", "/").lstrip("/")
    for controller, kind in (("cpu", "cpuacct"), ("memory", "memory"), ("pids", "pids")):
        if kind in old:
            # Inside a container its own group is mounted as the root, while /proc tells where that is outside.
            for place in (root / kind / old[kind].lstrip("/"), root / kind):
                if (place / "cgroup.procs").is_file():
                    yield controller, place
                    break
            continue
        for place in (root / unified, root):
            if (place / "cgroup.controllers").is_file():
                yield controller, place
                break


def _sweep(parent: Path) -> None:
    """Take away what a harness left that was killed."""
    for entry in parent.glob("battery-*"):
        if (found := _NAME.fullmatch(entry.name)) and not Path("/proc", found[1]).exists():
            with contextlib.suppress(OSError):
                entry.rmdir()


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


def _number(path: Path) -> int | None:
    told = (_read(path) or "").strip()
    return int(told) if told.isdigit() else None
