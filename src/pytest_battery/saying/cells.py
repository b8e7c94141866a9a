"""The records a table is made from, and their values of one metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pytest_battery.saying.exactness import Number
from pytest_battery.values.permutations import Cell
from pytest_battery.values.records import Record
from pytest_battery.values.tasks import Control, Metric

__all__ = ["CellRecords", "Elsewhere", "Kind", "Tally", "TaskRecords", "same_runs", "tally"]

Kind = Literal["rate", "number"]

_TOO_LARGE = 1e150  # sums and products of such numbers leave the range of floats


@dataclass(frozen=True, slots=True)
class CellRecords:
    """What is known of one cell of one task.

    ``runs`` maps case ids to the case's valid, fresh records; ``planned`` are the cases it should have, with
    ``planned_runs`` runs each.  ``stale`` counts records left out because what they measured has changed since,
    ``invalid`` runs without a result, by the class of their error.  A cell that is not ``shown`` still counts when p
    is adjusted.  ``refused`` says why its records cannot be compared with others at all; ``remarks`` are what its
    row should say beside its numbers.
    """

    cell: Cell
    runs: Mapping[str, tuple[Record, ...]]
    planned: tuple[str, ...]
    planned_runs: int
    stale: int = 0
    invalid: Mapping[str, int] = field(default_factory=dict)
    shown: bool = True
    refused: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def measured(self) -> int:
        """How many runs it has a result of."""
        return sum(map(len, self.runs.values()))


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The same cells in another store: ``name`` as people typed it, ``label`` a short one for rows."""

    name: str
    label: str
    cells: Mapping[Cell, CellRecords]


@dataclass(frozen=True, slots=True)
class TaskRecords:
    """A task: its metrics, its cells in the order of their declaration, and what they are compared with.

    That is ``reference``, one of the cells, or, where there is an ``elsewhere``, each cell's own records there.
    Cells that are ``controls`` are compared with ``reference`` in both cases.
    """

    name: str
    metrics: tuple[Metric, ...]
    cells: tuple[CellRecords, ...]
    reference: Cell | None
    elsewhere: Elsewhere | None = None
    controls: Mapping[Cell, Control] = field(default_factory=dict)

    @property
    def ordered_metrics(self) -> tuple[Metric, ...]:
        """The primary metric (the one marked, or the first), then the others as declared."""
        return tuple(sorted(self.metrics, key=lambda metric: not metric.primary))


@dataclass(frozen=True, slots=True)
class Tally:
    """One metric of one cell: case id -> the values of its runs, judged and of planned cases only.

    ``types`` counts the values by what they are, in words.  ``total`` runs were looked at, ``unjudged`` of them have
    no value, ``unplanned`` cases were left out whole.
    """

    values: Mapping[str, tuple[Number, ...]]
    types: Mapping[str, int]
    total: int
    unjudged: int
    unplanned: int

    @property
    def kind(self) -> Kind | None:
        """What the metric is here; None where it is nothing, mixed, or not a measure."""
        return _KINDS.get(next(iter(self.types))) if len(self.types) == 1 else None


def same_runs(mine: CellRecords, other: CellRecords, cases: Collection[str]) -> tuple[str, ...]:
    """Those of *cases* whose runs are the very same on both sides: one measurement, stored twice."""

    def identities(records: CellRecords, case: str) -> set[object]:
        return {(record.run, record.measured_at, record.evidence) for record in records.runs.get(case, ())}

    if mine.cell != other.cell:
        return ()
    return tuple(case for case in cases if identities(mine, case) == identities(other, case))


_KINDS: dict[str, Kind] = {"a boolean": "rate", "a number": "number"}


def tally(records: CellRecords, metric: str) -> Tally:
    """The values of *metric* in *records*."""
    planned = set(records.planned)
    types: Counter[str] = Counter()
    values: dict[str, tuple[Number, ...]] = {}
    total = unjudged = 0
    for case in records.planned:
        found: list[Number] = []
        for record in records.runs.get(case, ()):
            total += 1
            value = record.metrics.get(metric)
            if value is None or metric in record.unjudged:
                unjudged += 1
                continue
            types[_type_of(value)] += 1
            if not isinstance(value, str):
                found.append(value)
        if found:
            values[case] = tuple(found)
    unplanned = sum(1 for case, of_case in records.runs.items() if of_case and case not in planned)
    return Tally(values, dict(types), total, unjudged, unplanned)


def _type_of(value: bool | int | float | str) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "text"
    return "a number" if abs(value) <= _TOO_LARGE else "a number beyond 1e150"
