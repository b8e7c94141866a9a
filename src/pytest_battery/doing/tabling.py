"""From the store to what a table is made of: the fresh, valid records of each cell, and what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from pytest_battery.doing.choosing import Choice, cells_of, controls_of, reference_of
from pytest_battery.doing.elsewhere import Other
from pytest_battery.doing.garbage import no_garbage_collection
from pytest_battery.doing.planning import Decision, Models, decide_all
from pytest_battery.doing.preparing import Prepared
from pytest_battery.edges.store import Store
from pytest_battery.saying.gaps import CellRecords, Elsewhere, TaskRecords
from pytest_battery.values.permutations import Cell, Permutation
from pytest_battery.values.records import Record
from pytest_battery.values.tasks import Task

__all__ = ["Tabled", "tabled"]


@dataclass
class Tabled:
    """The records of the tasks shown, and what they have in common or odd, for the lines around the table."""

    tasks: list[TaskRecords] = field(default_factory=list)
    cases: int = 0
    stops: Counter[str] = field(default_factory=Counter)
    models: dict[str, set[str]] = field(default_factory=dict)
    usd: float = 0.0
    unpriced: int = 0
    oldest: Record | None = None
    edited: list[str] = field(default_factory=list)
    other: Other | None = None

    def saw(self, record: Record) -> None:
        if record.edited:
            self.edited.append(f"{record.task}/{record.subject.key}/{record.case}-{record.run}")
        if record.stop_reason not in (None, "stop"):
            self.stops[record.stop_reason] += 1
        if record.response_model:
            self.models.setdefault(record.subject.key, set()).add(record.response_model)
        if record.cost.usd is None:
            self.unpriced += 1
        else:
            self.usd += record.cost.usd
        if self.oldest is None or record.measured_at < self.oldest.measured_at:
            self.oldest = record


def tabled(
    store: Store,
    models: Models,
    prepared: Sequence[Prepared],
    choice: Choice,
    shown: Callable[[Cell], bool] = lambda cell: True,
    decided: Mapping[Permutation, Sequence[Decision]] = MappingProxyType({}),
    other: Other | None = None,
) -> Tabled:
    """Read what the table of *prepared* needs; with *other*, each cell is compared with its own records there.

    Every declared cell counts for Holm, whatever was selected; *shown* says which rows are printed.  The reference
    is always among them, also when it is not one of the cells measured now.  What is in *decided* as kept is not read
    again.
    """
    with no_garbage_collection():
        return _tabled(store, models, prepared, choice, shown, decided, other)


def _tabled(
    store: Store,
    models: Models,
    prepared: Sequence[Prepared],
    choice: Choice,
    shown: Callable[[Cell], bool],
    decided: Mapping[Permutation, Sequence[Decision]],
    other: Other | None,
) -> Tabled:
    result = Tabled(other=other)
    for one in prepared:
        task = one.task
        cells = cells_of(task, choice)
        reference = reference_of(task, cells)
        controls = controls_of(task, cells)
        needed = other is None or bool(controls)
        rows = [reference, *cells] if needed and reference not in cells else list(cells)
        result.cases += len(task.cases)
        runs = choice.runs or task.runs
        result.tasks.append(
            TaskRecords(
                name=task.name,
                metrics=tuple(sorted(task.metrics, key=lambda metric: metric is not task.primary)),
                cells=tuple(
                    _cell_records(
                        cell,
                        one.task,
                        runs,
                        shown(cell) or (other is None and cell == reference),
                        result,
                        partial(_decisions, store, models, one, decided),
                    )
                    for cell in rows
                ),
                reference=reference,
                elsewhere=None if other is None else _there(other, models, one, cells, runs, shown),
                controls=controls,
            )
        )
    return result


def _there(
    other: Other, models: Models, prepared: Prepared, cells: Sequence[Cell], runs: int, shown: Callable[[Cell], bool]
) -> Elsewhere:
    controls = controls_of(prepared.task, cells)
    there = {cell: other.records(prepared, models, cell, runs, shown(cell)) for cell in cells if cell not in controls}
    return Elsewhere(other.name, other.label, there)


def _decisions(
    store: Store,
    models: Models,
    prepared: Prepared,
    decided: Mapping[Permutation, Sequence[Decision]],
    permutation: Permutation,
) -> Sequence[Decision]:
    known = decided.get(permutation) if decided else None
    if known is not None and all(decision.action == "keep" for decision in known):
        return known
    return decide_all(store, models, prepared, permutation)


def _cell_records(
    cell: Cell,
    task: Task,
    runs: int,
    shown: bool,
    result: Tabled,
    decisions: Callable[[Permutation], Sequence[Decision]],
) -> CellRecords:
    found: dict[str, tuple[Record, ...]] = {}
    stale = 0
    invalid: Counter[str] = Counter()
    for case in task.cases:
        kept = []
        for decision in decisions(Permutation(cell, case, runs)):
            record = decision.record
            if record is None:
                continue
            if decision.stale:
                stale += 1
            elif record.state == "invalid":
                invalid[record.error.kind if record.error else "invalid"] += 1
            elif decision.action == "re-score":
                stale += 1
            else:
                kept.append(record)
                if shown:
                    result.saw(record)
        if kept:
            found[case.id] = tuple(kept)
    return CellRecords(
        cell=cell,
        runs=found,
        planned=tuple(case.id for case in task.cases),
        planned_runs=runs,
        stale=stale,
        invalid=dict(invalid),
        shown=shown,
    )
