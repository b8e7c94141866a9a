"""The gap table: every cell against its reference, adjusted for how many gaps were looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_battery.saying.cells import CellRecords, Elsewhere, Kind, Tally, TaskRecords, same_runs, tally
from pytest_battery.saying.comparing import Comparison, compare
from pytest_battery.saying.dispersion import Estimate, estimate_cell
from pytest_battery.saying.exactness import Number
from pytest_battery.saying.holm import holm
from pytest_battery.saying.needs import Needs, needs_of, spread_of, usd_per_run
from pytest_battery.saying.notes import (
    cautions,
    incomparable,
    mixed,
    no_data,
    omissions,
    other_models,
    same_measurement,
    unshared,
)
from pytest_battery.saying.standards import ALPHA, DRAWS, SEED
from pytest_battery.saying.verdicts import Gap, among
from pytest_battery.values.permutations import Cell
from pytest_battery.values.tasks import Better, Control, Metric

__all__ = ["CellRecords", "Elsewhere", "GapTable", "Row", "TaskRecords", "gap_table"]


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one cell.

    ``estimate`` is the cell's own value, None without data.  ``gap`` is None for the reference, where there is no
    reference, and where ``reason`` says that none can be computed.  ``n_cases`` counts the shared cases of a gap, else
    the cell's own cases with data; ``planned`` those it should have, ``measured`` the runs it has.  A cell alone is
    nobody's reference.  ``origin`` is where a reference that is no cell of this store lies; ``against`` names what the
    row is compared with.  A row is ``unchanged`` where both sides are the very same runs: nothing was compared.
    ``needs`` says what it would take to find the gap the metric cares about, where that was not found.  ``look`` counts
    how often the gap was looked at with other runs, None where nobody counts.
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
    measured: int = 0
    is_reference: bool = False
    shown: bool = True
    notes: tuple[str, ...] = ()
    origin: str = ""
    against: str = ""
    control: Control | None = None
    unchanged: bool = False
    needs: Needs | None = None
    look: int | None = None

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
            "origin": self.origin or None,
            "against": self.against or None,
            "control": self.control,
            "unchanged": self.unchanged,
            "look": self.look,
            "needs": self.needs and self.needs.as_json(),
            "shown": self.shown,
            "estimate": None if self.estimate is None else self.estimate.as_json(),
            "n_cases": self.n_cases,
            "planned": self.planned,
            "runs": self.measured,
            "gap": None if self.gap is None else self.gap.as_json(),
            "reason": self.reason,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class GapTable:
    """All rows, shown or not; ``m`` gaps were adjusted together, ``left_out`` could not be computed.

    A row that is unchanged is neither.
    """

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
    care: float | None = None
    usd: tuple[float | None, float | None] = (None, None)

    def needs(self, gap: Gap, m: int, alpha: float) -> Needs | None:
        """What it would take, where the metric says which gap it cares about and that could not be told yet."""
        if self.care is None or self.comparison is None or gap.holds:
            return None
        spread = spread_of(self.comparison, gap)
        return None if spread is None else needs_of(spread, self.care, m=m, alpha=alpha, usd_per_run=self.usd)


def gap_table(tasks: Sequence[TaskRecords], *, seed: int = SEED, draws: int = DRAWS, alpha: float = ALPHA) -> GapTable:
    """Rows of every task: for each metric, the primary one first, its cells in order.

    Every gap that can be computed counts for Holm's adjustment, whether its cell is shown or not.
    """
    drafts = [
        draft
        for task in tasks
        for place, metric in enumerate(task.ordered_metrics)
        for draft in _drafts(task, metric, primary=place == 0, seed=seed, draws=draws)
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
        gap = among(gap, p_holm, m, draws)
        needs = drafts[index].needs(gap, m, alpha)
        rows[index] = replace(row, gap=gap, n_cases=gap.n_cases, notes=(*row.notes, *notes), needs=needs)
    expected = sum(len(task.metrics) * _candidates(task) for task in tasks)
    unchanged = sum(row.unchanged for row in rows)
    return GapTable(tuple(rows), m, expected - m - unchanged, seed, draws, alpha)


def _candidates(task: TaskRecords) -> int:
    return sum(_compared_with(task, records) != "" for records in task.cells)


def _compared_with(task: TaskRecords, records: CellRecords) -> str:
    """The name of what a cell is compared with; empty where that is nothing."""
    if task.elsewhere is not None and records.cell not in task.controls:
        return task.elsewhere.name if records.cell in task.elsewhere.cells else ""
    return "" if task.reference is None or records.cell == task.reference else task.reference.label


def _drafts(task: TaskRecords, metric: Metric, *, primary: bool, seed: int, draws: int) -> Iterator[_Draft]:
    def sided(records: CellRecords) -> tuple[_Side, Row]:
        side = _Side(records, tally(records, metric.name))
        return side, _row(task, metric, side, primary=primary, seed=seed, draws=draws)

    sides = {records.cell: sided(records) for records in task.cells}
    for records in task.cells:
        side, row = sides[records.cell]
        against = _compared_with(task, records)
        found: tuple[_Side, Row] | None
        if task.elsewhere is not None and records.cell not in task.controls:
            found = sided(task.elsewhere.cells[records.cell]) if against else None
            if found is not None:
                yield _Draft(replace(found[1], is_reference=True, origin=task.elsewhere.label, shown=records.shown))
        else:
            found = sides.get(task.reference) if task.reference is not None else None
        row = replace(row, against=against, control=task.controls.get(records.cell))
        if not against or row.reason:
            yield _Draft(row)
        elif found is None:
            yield _Draft(replace(row, reason="the reference has no data"))
        else:
            yield _against(metric, side, row, *found)


def _against(metric: Metric, side: _Side, row: Row, reference: _Side, reference_row: Row) -> _Draft:
    reason = incomparable(metric.name, side.tally, reference.records, reference.tally)
    if reason or row.kind is None:
        return _Draft(replace(row, reason=reason))
    shared = side.tally.values.keys() & reference.tally.values.keys()
    same = same_runs(side.records, reference.records, sorted(shared))
    if shared and len(same) == len(shared):
        return _Draft(replace(row, reason=same_measurement(len(same), row.against), unchanged=True, n_cases=len(same)))
    notes = [*unshared(side.tally, reference.tally), *other_models(side.records, reference.records)]
    notes += [f"{len(same)} of {len(shared)} cases are the same runs on both sides"] if same else []
    return _Draft(
        replace(row, notes=(*row.notes, *notes)),
        _comparison(row.kind, metric, side.tally.values, reference.tally.values),
        _if_worst(row.kind, metric, side, reference),
        reference_row.value,
        metric.care,
        (usd_per_run(side.records.runs), usd_per_run(reference.records.runs)),
    )


def _row(task: TaskRecords, metric: Metric, side: _Side, *, primary: bool, seed: int, draws: int) -> Row:
    records, found = side.records, side.tally
    estimate, reason = None, ""
    if records.refused:
        reason = f"no data: {records.refused}"
    elif found.kind is not None:
        estimate = estimate_cell(found.kind, found.values, aggregate=metric.aggregate, seed=seed, draws=draws)
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
        measured=records.measured,
        is_reference=records.cell == task.reference and len(task.cells) > 1 and task.elsewhere is None,
        shown=records.shown,
        notes=(*records.remarks, *(omissions(records, found) if found.types else ())),
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
