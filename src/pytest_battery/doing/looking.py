"""Count looks: who looks again and again, and stops at the first star, finds stars that are not there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from pytest_battery.edges.store import Store
from pytest_battery.errors import StoreWriteError
from pytest_battery.saying.cells import CellRecords, TaskRecords
from pytest_battery.saying.gaps import GapTable
from pytest_battery.saying.notes import look_note
from pytest_battery.values.canonical import digest
from pytest_battery.values.looks import Look, look_number

__all__ = ["looked"]


def looked(
    store: Store, tasks: Sequence[TaskRecords], table: GapTable, planned: int | None, now: datetime
) -> tuple[GapTable, str]:
    """*table* with the number of the look in the rows looked at before, and why it could not be counted, if so.

    Looks that are new are appended to the store's ledger.
    """
    ledger, problems = store.looks()
    looks = {(look.task, look.subject, look.stack): look for look in _looks(tasks, table, now)}
    fresh = []
    rows = []
    for row in table.rows:
        look = looks.get((row.task, row.cell.subject.key, row.cell.stack.key))
        if look is None or row.gap is None:
            rows.append(row)
            continue
        number = look_number(ledger, look)
        note = look_note(number, planned)
        rows.append(replace(row, look=number, notes=(*row.notes, note) if note else row.notes))
    known = {(look.gap, look.evidence) for look in ledger}
    fresh = [look for look in looks.values() if (look.gap, look.evidence) not in known]
    unsaid = f"{problems[0].path.name}: {problems[0].what}; not counted" if problems else ""
    try:
        if fresh:
            store.append_looks(fresh)
    except StoreWriteError as error:
        unsaid = f"this look is not counted: {error}"
    return replace(table, rows=tuple(rows)), unsaid


def _looks(tasks: Sequence[TaskRecords], table: GapTable, now: datetime) -> Iterator[Look]:
    """One look per cell of which a gap is shown."""
    shown = {(row.task, row.cell) for row in table.shown if row.gap is not None}
    for task in tasks:
        by_cell = {records.cell: records for records in task.cells}
        for records in task.cells:
            if (task.name, records.cell) not in shown:
                continue
            if task.elsewhere is not None and records.cell in task.elsewhere.cells:
                reference = task.elsewhere.cells[records.cell]
            elif task.reference in by_cell:
                reference = by_cell[task.reference]
            else:
                continue
            yield Look(
                task=task.name,
                subject=records.cell.subject.key,
                stack=records.cell.stack.key,
                reference=_since(reference),
                evidence=digest([_runs(records), _runs(reference)])[:32],
                at=now,
            )


def _since(reference: CellRecords) -> str:
    """What identifies a reference: the cell, and when the first of its runs was measured.  Runs that are added leave it
    what it is, else who adds runs to both sides would never look twice; measured anew, it is another one."""
    first = min(record.measured_at for runs in reference.runs.values() for record in runs)
    return digest([reference.cell.subject.key, reference.cell.stack.key, first.isoformat()])[:32]


def _runs(records: CellRecords) -> list[list[str | int]]:
    """What identifies the runs looked at: which they are and when they were measured, not how they were graded."""
    return sorted(
        [case, record.run, record.measured_at.isoformat(), record.evidence or ""]
        for case, runs in records.runs.items()
        for record in runs
    )
