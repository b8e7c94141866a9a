"""What is waiting for the disk is written together, and each record's failure is its own."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import anyio
import pytest

from pytest_battery.doing.flushing import Flushing


@dataclass
class Record:
    name: str
    log: list[str]
    fails_at: str = ""
    gate: threading.Event = field(default_factory=threading.Event)

    def _step(self, step: str) -> None:
        self.log.append(f"{step} {self.name}")
        if step == self.fails_at:
            raise OSError(f"no {step} of {self.name}")

    def write(self) -> None:
        assert self.gate.wait(10)
        self._step("write")

    def sync(self) -> None:
        self._step("sync")

    def name_it(self) -> None:
        self._step("name")


@dataclass
class Steps:
    record: Record

    def write(self) -> None:
        self.record.write()

    def sync(self) -> None:
        self.record.sync()

    def name(self) -> None:
        self.record.name_it()


async def put(flushing: Flushing, record: Record, told: dict[str, str]) -> None:
    try:
        await flushing.done(Steps(record))
    except OSError as error:
        told[record.name] = str(error)
    else:
        told[record.name] = "kept"


def run(records: list[Record], first: Record) -> dict[str, str]:
    """*first* holds the thread until all others have come."""
    told: dict[str, str] = {}

    async def main() -> None:
        flushing = Flushing()
        async with anyio.create_task_group() as group:
            group.start_soon(put, flushing, first, told)
            for record in records:
                record.gate.set()
                group.start_soon(put, flushing, record, told)
            await anyio.wait_all_tasks_blocked()
            first.gate.set()
        flushing.close()

    anyio.run(main)
    return told


def test_what_came_while_the_disk_was_busy_takes_each_step_together() -> None:
    log: list[str] = []
    told = run([Record("b", log), Record("c", log)], Record("a", log))
    assert told == {"a": "kept", "b": "kept", "c": "kept"}
    assert log == [
        *("write a", "sync a", "name a"),
        *("write b", "write c", "sync b", "sync c", "name b", "name c"),
    ]


@pytest.mark.parametrize("step", ["write", "sync", "name"])
def test_a_refused_record_takes_no_other_with_it(step: str) -> None:
    log: list[str] = []
    told = run([Record("b", log, fails_at=step), Record("c", log)], Record("a", log))
    assert told == {"a": "kept", "b": f"no {step} of b", "c": "kept"}
    assert "name c" in log
    assert ("name b" in log) == (step == "name")


def test_a_writer_that_was_cancelled_holds_up_nobody() -> None:
    log: list[str] = []
    first, second = Record("a", log), Record("b", log)
    second.gate.set()
    told: dict[str, str] = {}

    async def main() -> None:
        flushing = Flushing()
        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as cancelled:
                    cancelled.start_soon(put, flushing, first, told)
                    await anyio.wait_all_tasks_blocked()
                    scope.cancel()
            group.start_soon(put, flushing, second, told)
            await anyio.wait_all_tasks_blocked()
            first.gate.set()
        flushing.close()

    anyio.run(main)
    assert told == {"b": "kept"}
    assert log[-1] == "name b"
