"""The gap table: every cell against its reference, adjusted for how many gaps were looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_battery.saying.cells import CellRecords, Kind, Tally, TaskRecords, tally
from pytest_battery.saying.comparing import Comparison, compare
from pytest_battery.saying.dispersion import Estimate, estimate_cell
from pytest_battery.saying.exactness import Number
from pytest_battery.saying.holm import holm
from pytest_battery.saying.notes import cautions, incomparable, mixed, no_data, omissions, unshared
from pytest_battery.saying.resampling import ALPHA, DRAWS, SEED
from pytest_battery.saying.verdicts import Gap, among
from pytest_battery.values.permutations import Cell
from pytest_battery.values.tasks import Better, Metric

__all__ = ["CellRecords", "GapTable", "Row", "TaskRecords", "gap_table"]


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one cell.

    ``estimate`` is the cell's own value, None without data.  ``gap`` is None for the reference, where there is no
    reference, and where ``reason`` says that none can be computed.  ``n_cases`` counts the shared cases of a gap, else
    the cell's own cases with data; ``planned`` those it should have.  A cell alone is nobody's reference.
    """

    task: str
    cell: Cell
    metric: str
    better: Better
    kind: Kind | None
    primary: bool
    estimate: Estimate | None
    gap: Gap | None
    reason: str
    n_cases: int
    planned: int
    is_reference: bool = False
    shown: bool = True
    notes: tuple[str, ...] = ()

    @property
    def value(self) -> float | None:
        return None if self.estimate is None else self.estimate.value

    def as_json(self) -> dict[str, Any]:
        """Plain values in full precision."""
        return {
            "task": self.task,
            "subject": self.cell.subject.key,
            "stack": self.cell.stack.key,
            "metric": self.metric,
            "better": self.better,
            "kind": self.kind,
            "primary": self.primary,
            "reference": self.is_reference,
            "shown": self.shown,
            "estimate": None if self.estimate is None else self.estimate.as_json(),
            "n_cases": self.n_cases,
            "planned": self.planned,
            "gap": None if self.gap is None else self.gap.as_json(),
            "reason": self.reason,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class GapTable:
    """All rows, shown or not; ``m`` gaps were adjusted together, ``left_out`` could not be computed."""

    rows: tuple[Row, ...]
    m: int
    left_out: int
    seed: int = SEED
    draws: int = DRAWS
    alpha: float = ALPHA

    @property
    def shown(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.shown)

    def as_json(self) -> dict[str, Any]:
        return {
            "m": self.m,
            "left_out": self.left_out,
            "seed": self.seed,
            "draws": self.draws,
            "alpha": self.alpha,
            "rows": [row.as_json() for row in self.rows],
        }


@dataclass(frozen=True, slots=True)
class _Side:
    """A cell with its values of one metric."""

    records: CellRecords
    tally: Tally


@dataclass(frozen=True, slots=True)
class _Draft:
    """A row before its gap is computed: with what it compares, and the same if missing runs were the worst."""

    row: Row
    comparison: Comparison | None = None
    worst: Comparison | None = None
    reference: float | None = None


def gap_table(tasks: Sequence[TaskRecords], *, seed: int = SEED, draws: int = DRAWS, alpha: float = ALPHA) -> GapTable:
    """Rows of every task: for each metric, the primary one first, its cells in order.

    Every gap that can be computed counts for Holm's adjustment, whether its cell is shown or not.
    """
    drafts = [
        draft
        for task in tasks
        for place, metric in enumerate(task.ordered_metrics)
        for draft in _drafts(task, metric, primary=place == 0, seed=seed, draws=draws, alpha=alpha)
    ]
    comparisons = {index: draft.comparison for index, draft in enumerate(drafts) if draft.comparison}
    worst = {index: draft.worst for index, draft in enumerate(drafts) if draft.worst}
    gaps = compare([*comparisons.values(), *worst.values()], seed=seed, draws=draws, alpha=alpha)
    m = len(comparisons)
    if_worst = dict(zip(worst, gaps[m:], strict=True))
    rows = [draft.row for draft in drafts]
    for index, gap, p_holm in zip(comparisons, gaps[:m], holm([gap.p for gap in gaps[:m]]), strict=True):
        row = rows[index]
        notes = cautions(gap, (row.value, drafts[index].reference), if_worst.get(index))
        rows[index] = replace(row, gap=among(gap, p_holm, m, draws), n_cases=gap.n_cases, notes=(*row.notes, *notes))
    expected = sum(len(task.metrics) * _candidates(task) for task in tasks)
    return GapTable(tuple(rows), m, expected - m, seed, draws, alpha)


def _candidates(task: TaskRecords) -> int:
    return 0 if task.reference is None else sum(records.cell != task.reference for records in task.cells)


def _drafts(
    task: TaskRecords, metric: Metric, *, primary: bool, seed: int, draws: int, alpha: float
) -> Iterator[_Draft]:
    sides = [_Side(records, tally(records, metric.name)) for records in task.cells]
    rows = [_row(task, metric, side, primary=primary, seed=seed, draws=draws, alpha=alpha) for side in sides]
    where = next((place for place, side in enumerate(sides) if side.records.cell == task.reference), None)
    reference = None if where is None else sides[where]
    for place, (side, row) in enumerate(zip(sides, rows, strict=True)):
        if task.reference is None or place == where or row.reason:
            yield _Draft(row)
            continue
        if where is None or reference is None:
            yield _Draft(replace(row, reason="the reference has no data"))
            continue
        reason = incomparable(metric.name, side.tally, reference.records, reference.tally)
        if reason or row.kind is None:
            yield _Draft(replace(row, reason=reason))
            continue
        yield _Draft(
            replace(row, notes=(*row.notes, *unshared(side.tally, reference.tally))),
            _comparison(row.kind, metric, side.tally.values, reference.tally.values),
            _if_worst(row.kind, metric, side, reference),
            rows[where].value,
        )


def _row(task: TaskRecords, metric: Metric, side: _Side, *, primary: bool, seed: int, draws: int, alpha: float) -> Row:
    records, found = side.records, side.tally
    estimate, reason = None, ""
    if found.kind is not None:
        estimate = estimate_cell(
            found.kind, found.values, aggregate=metric.aggregate, seed=seed, draws=draws, alpha=alpha
        )
    elif found.types:
        reason = mixed(metric.name, found.types)
    else:
        reason = no_data(records, found)
    return Row(
        task=task.name,
        cell=records.cell,
        metric=metric.name,
        better=metric.better,
        kind=found.kind,
        primary=primary,
        estimate=estimate,
        gap=None,
        reason=reason,
        n_cases=len(found.values),
        planned=len(records.planned),
        is_reference=records.cell == task.reference and len(task.cells) > 1,
        shown=records.shown,
        notes=tuple(omissions(records, found)) if found.types else (),
    )


def _comparison(
    kind: Kind, metric: Metric, mine: Mapping[str, Sequence[Number]], other: Mapping[str, Sequence[Number]]
) -> Comparison:
    return Comparison(kind, mine, other, aggregate=metric.aggregate, better=metric.better)


def _if_worst(kind: Kind, metric: Metric, side: _Side, reference: _Side) -> Comparison | None:
    """The comparison with every missing run as the worst: a fail for rates, the worst value seen for numbers.

    None where none is missing.  Cases that neither cell has say nothing about either, and stay out.
    """
    seen = [value for one in (side, reference) for of_case in one.tally.values.values() for value in of_case]
    worst: Number = metric.better == "lower" if kind == "rate" else (max if metric.better == "lower" else min)(seen)
    known = side.tally.values.keys() | reference.tally.values.keys()
    missing = False
    filled: list[dict[str, tuple[Number, ...]]] = []
    for one in (side, reference):
        values = dict(one.tally.values)
        for case in one.records.planned:
            lacking = one.records.planned_runs - len(values.get(case, ()))
            if case in known and lacking > 0:
                values[case] = (*values.get(case, ()), *[worst] * lacking)
                missing = True
        filled.append(values)
    return _comparison(kind, metric, *filled) if missing else None
