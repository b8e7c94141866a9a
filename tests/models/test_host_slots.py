from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from pytest_battery.edges.models.host_slots import HostSlots

LANES, TURNS, COUNT = 8, 3, 4

WORKER = """
import anyio, json, sys, time
from pathlib import Path
from pytest_battery.edges.models.host_slots import HostSlots

async def lane(slots, held):
    for _ in range(int(sys.argv[3])):
        async with slots.hold():
            began = time.monotonic()
            await anyio.sleep(0.05)
            held.append((began, time.monotonic()))

async def main():
    slots, held = HostSlots(Path(sys.argv[1]), "toy", 4), []
    print("here", flush=True)
    sys.stdin.readline()
    async with anyio.create_task_group() as lanes:
        for _ in range(int(sys.argv[2])):
            lanes.start_soon(lane, slots, held)
    print(json.dumps(held))

anyio.run(main)
"""

HOLDER = """
import anyio, sys
from pathlib import Path
from pytest_battery.edges.models.host_slots import HostSlots

async def main():
    async with HostSlots(Path(sys.argv[1]), "toy", 1).hold():
        print("held", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_two_processes_share_the_slots_and_both_get_some(tmp_path: Path) -> None:
    workers = [start(WORKER, tmp_path, LANES, TURNS) for _ in range(2)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "here\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
    held = [json.loads(worker.communicate(timeout=30)[0]) for worker in workers]
    assert [len(each) for each in held] == [LANES * TURNS] * 2

    changes = sorted(change for began, ended in held[0] + held[1] for change in ((began, 1), (ended, -1)))
    most, now = 0, 0
    for _, change in changes:
        now += change
        most = max(most, now)
    assert most == COUNT

    # Neither had to wait until the other was done: in the first half of the time both had a quarter of the turns.
    middle = (changes[0][0] + changes[-1][0]) / 2
    early = [sum(ended < middle for _, ended in each) for each in held]
    assert min(early) >= sum(early) / 4


def test_a_slot_of_a_killed_process_is_free(tmp_path: Path) -> None:
    holder = start(HOLDER, tmp_path)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    slots = HostSlots(tmp_path, "toy", 1)

    async def wait(seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            async with slots.hold():
                return True
        return False

    assert not anyio.run(wait, 0.2)
    holder.kill()
    holder.communicate()
    assert anyio.run(wait, 10)


@pytest.mark.anyio
async def test_a_cancelled_wait_and_a_failed_call_leave_the_slot_free(tmp_path: Path) -> None:
    slots = HostSlots(tmp_path, "toy", 1)

    async def fail() -> None:
        async with slots.hold():
            with anyio.move_on_after(0.05) as waited:
                async with slots.hold():
                    pass
            assert waited.cancelled_caught
            raise ZeroDivisionError

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            await fail()
