"""The gate: which gaps and which gaps in the evidence turn a session red."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_battery.saying.cells import CellRecords, TaskRecords
from pytest_battery.saying.gaps import GapTable, Row
from pytest_battery.saying.notes import listed
from pytest_battery.saying.rendering.wording import (
    bound_text,
    detectable_text,
    gap_text,
    interval_text,
    n_text,
    p_text,
    verdict,
)

__all__ = ["Judgement", "Rules", "judge"]


@dataclass(frozen=True, slots=True)
class Rules:
    """``strict``: what is inconclusive fails.  ``margin``: the 95% interval must exclude a loss greater than this, in
    the metric's own unit."""

    strict: bool = False
    margin: float | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """One line of the gate.  ``name`` is a node id after ``gate::``."""

    name: str
    outcome: Literal["passed", "failed"]
    message: str


def judge(tasks: Sequence[TaskRecords], table: GapTable, rules: Rules) -> tuple[Judgement, ...]:
    """One judgement per gap of a primary metric, and one per cell that is not whole.

    The declared battery is judged, whatever was selected and shown: every cell of *tasks* must have all its runs.
    """
    found = [judgement for task in tasks for judgement in _of_task(task, table, rules)]
    if not found:
        found.append(Judgement("battery", "failed", "nothing to judge: no task has a gap; " + _NO_GAP))
    return tuple(found)


_NO_GAP = "name a second subject, or compare with another revision by --against"


def _of_task(task: TaskRecords, table: GapTable, rules: Rules) -> Iterator[Judgement]:
    rows = [row for row in table.rows if row.task == task.name and row.primary]
    by_cell = {row.cell: row for row in rows if not row.origin}
    compared = 0
    for records in task.cells:
        row = by_cell.get(records.cell)
        lacking = _lacking(records)
        if row is None or not row.against:
            if lacking:
                yield Judgement(f"{task.name}[{records.cell.label}]", "failed", f"not whole: {lacking}")
            continue
        compared += 1
        yield _of_row(row, lacking, rules)
    missing = [cell for cell in task.controls if cell not in by_cell]
    for cell in missing:
        yield Judgement(f"{task.name}[{cell.label} control]", "failed", "the control was not measured")
    if not compared:
        yield Judgement(task.name, "failed", f"no gap to judge: {_NO_GAP}")


def _of_row(row: Row, lacking: str, rules: Rules) -> Judgement:
    control = f", control: {row.control}" if row.control else ""
    name = f"{row.task}[{row.cell.label} vs {row.against}{control}]"
    fault = f"not whole: {lacking}" if lacking else _fault(row, rules)
    if fault:
        return Judgement(name, "failed", fault)
    return Judgement(name, "passed", _found(row))


def _lacking(records: CellRecords) -> str:
    """What a cell lacks of its planned runs; empty if it is whole."""
    if records.refused:
        return records.refused
    parts = [f"{number} {kind}" for kind, number in sorted(records.invalid.items()) if number]
    parts += [f"{records.stale} stale"] if records.stale else []
    short = [case for case in records.planned if len(records.runs.get(case, ())) < records.planned_runs]
    if not short:
        return ""
    why = f" ({', '.join(parts)})" if parts else ""
    runs = sum(records.planned_runs - len(records.runs.get(case, ())) for case in short)
    return f"{runs} of {len(records.planned) * records.planned_runs} runs have no result{why}, in {listed(short)}"


def _fault(row: Row, rules: Rules) -> str:
    """Why a whole cell fails; empty if it passes."""
    if row.unchanged:
        return f"unchanged, so nothing could be established (--gate=strict): {row.reason}" if rules.strict else ""
    if row.gap is None:
        return row.reason or "no gap could be computed"
    if row.control == "worse":
        worse = row.gap.holds and row.gap.direction == "worse"
        return "" if worse else f"the control should be established worse and is not: {_found(row)}"
    if row.control == "same":
        return f"the control should not differ and is established: {_found(row)}" if row.gap.holds else ""
    if row.gap.holds and row.gap.direction == "worse":
        return f"established worse: {_found(row)}"
    if rules.margin is not None and _worst(row) > rules.margin:
        return f"a loss greater than the margin of {rules.margin:g} is not excluded: {_found(row)}"
    if rules.strict and not row.gap.holds:
        return f"inconclusive (--gate=strict): {_found(row)}"
    return ""


def _worst(row: Row) -> float:
    """The greatest loss that the gap's interval holds."""
    assert row.gap is not None
    return -row.gap.lo if row.gap.better == "higher" else row.gap.hi


def _found(row: Row) -> str:
    if row.gap is None:
        return row.reason
    numerals = f"{row.metric} {gap_text(row)} {interval_text(row)}, n {n_text(row)}, p (Holm) {p_text(row.gap.p_holm)}"
    parts = [f"{numerals}: {verdict(row).text}", bound_text(row), detectable_text(row)]
    return "; ".join(filter(None, parts))
