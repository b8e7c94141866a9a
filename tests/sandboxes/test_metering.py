"""What a sandbox used is metered, and bounded as a whole, where this process may make control groups."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from pytest_battery.edges.sandboxes import Confinement, Finished, Limits, open_bubblewrap
from pytest_battery.edges.sandboxes.metering import Meter, Used, opened_meter

MIB = 1 << 20


@pytest.fixture
def groups() -> dict[str, Path]:
    async def work() -> dict[str, Path]:
        meter = opened_meter(64 * MIB, 60)
        await meter.close()
        return meter.groups

    return anyio.run(work)


def left() -> list[Path]:
    """Groups of this process that are still there."""
    return list(Path("/sys/fs/cgroup").rglob(f"battery-{os.getpid()}-*"))


def test_time_and_memory_of_all_it_starts_are_told(sandboxed: Callable[..., Finished], groups: dict[str, Path]) -> None:
    if not {"cpu", "memory"} <= groups.keys():
        pytest.skip("this process may not make control groups for cpu and memory")
    idle = sandboxed("true")
    # A string of 64 MiB, in a process that is nobody's child any more, and is not waited for by who started it.
    busy = sandboxed(
        "(setsid bash -c 'x=$(head -c 60M /dev/zero | tr \"\\0\" x); echo ${#x} > done' &); until [ -s done ]; do sleep 0.05; done"
    )
    assert busy.exit_code == 0
    assert idle.cpu_seconds is not None
    assert busy.cpu_seconds is not None
    assert busy.cpu_seconds > idle.cpu_seconds > 0
    assert idle.peak_bytes is not None
    assert busy.peak_bytes is not None
    assert busy.peak_bytes > 60 * MIB > idle.peak_bytes
    assert left() == []


def test_memory_is_bounded_for_all_together(sandboxed: Callable[..., Finished], groups: dict[str, Path]) -> None:
    if "memory" not in groups:
        pytest.skip("this process may not make control groups for memory")
    # Each of them alone would fit.  The first that the kernel ends is the end of all.
    script = (
        "for n in 1 2 3 4; do bash -c 'x=$(head -c 30M /dev/zero | tr \"\\0\" x); echo held; sleep 60' & done; wait -n"
    )
    done = sandboxed(script, limits=Limits(memory_bytes=64 * MIB), seconds=60)
    assert done.stdout.count(b"held") < 4
    assert done.peak_bytes is not None
    assert done.peak_bytes <= 64 * MIB


def test_a_run_that_is_cancelled_leaves_no_group(confinement: Confinement) -> None:
    async def work() -> None:
        async with open_bubblewrap(confinement) as sandbox:
            with anyio.move_on_after(0.5):
                await sandbox.run(["/bin/sleep", "60"])

    anyio.run(work)
    assert left() == []


def test_what_a_killed_harness_left_is_swept(groups: dict[str, Path]) -> None:
    if not groups:
        pytest.skip("this process may not make control groups")
    parent = next(iter(groups.values())).parent
    orphan = parent / "battery-4194305-0"  # beyond any process
    orphan.mkdir()
    anyio.run(opened_meter(64 * MIB, 60).close)
    assert not orphan.exists()


def test_where_there_are_no_groups_nothing_is_told(tmp_path: Path) -> None:
    meter = opened_meter(64 * MIB, 60, root=tmp_path)
    assert meter.groups == {}
    assert meter.used() == Used(None, None)
    anyio.run(meter.close)
    assert list(tmp_path.iterdir()) == []


def test_the_second_version_of_control_groups_is_read_as_well(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\n")
    (tmp_path / "memory.peak").write_text("73400320\n")
    assert Meter({"cpu": tmp_path, "memory": tmp_path}).used() == Used(1.5, 70 * MIB)
    (tmp_path / "memory.peak").unlink()  # before Linux 5.19
    assert Meter({"cpu": tmp_path, "memory": tmp_path}).used() == Used(1.5, None)


def test_a_process_that_has_gone_is_run_unmetered(confinement: Confinement, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Meter, pid: int) -> None:
        raise PermissionError(f"{pid} may not be moved")

    monkeypatch.setattr(Meter, "take_in", refused)

    async def work() -> Finished:
        async with open_bubblewrap(confinement) as sandbox:
            return await sandbox.run(["/bin/echo", "fine"])

    done = anyio.run(work)
    assert (done.stdout, done.cpu_seconds, done.peak_bytes) == (b"fine\n", None, None)
    assert left() == []
