"""Records and cells, made in a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from pytest_battery.saying.cells import CellRecords, TaskRecords
from pytest_battery.values.fingerprints import Fingerprint
from pytest_battery.values.permutations import Cell
from pytest_battery.values.records import Environment, Record, ScorerSeen, StackSeen, SubjectSeen
from pytest_battery.values.stacks import Stack
from pytest_battery.values.subjects import parse_subject
from pytest_battery.values.tasks import Metric

Metrics = Mapping[str, Any]


def _record(cell: Cell, case: str, run: int, metrics: Metrics) -> Record:
    return Record(
        task=cell.task,
        case=case,
        run=run,
        subject=SubjectSeen(key=cell.subject.key, ref=cell.subject.ref),
        stack=StackSeen(key=cell.stack.key),
        fingerprint=Fingerprint(prompt="p", case="c"),
        scorer=ScorerSeen(name="matchers", sha="s"),
        measured_at=datetime(2026, 7, 29, tzinfo=UTC),
        wall_ms=1,
        state="valid",
        metrics={name: value for name, value in metrics.items() if value != "unjudged"},
        unjudged={name: "the judge abstained" for name, value in metrics.items() if value == "unjudged"},
        environment=Environment(plugin="0", python="3.11"),
    )


@pytest.fixture(scope="session")
def cell() -> Callable[..., CellRecords]:
    """``cell("local/a", {"case": [True, False]})``; a run is a value of ``correct`` or a dict of metrics."""

    def make(
        subject: str,
        runs: Mapping[str, Sequence[Any]],
        *,
        task: str = "triage",
        stack: str = "none",
        planned: Sequence[str] | None = None,
        planned_runs: int | None = None,
        **more: Any,
    ) -> CellRecords:
        of = Cell(task, parse_subject(subject), Stack(stack))
        records = {
            case: tuple(
                _record(of, case, place, value if isinstance(value, dict) else {"correct": value})
                for place, value in enumerate(values, start=1)
            )
            for case, values in runs.items()
        }
        most = max((len(values) for values in runs.values()), default=1)
        return CellRecords(
            of, records, tuple(runs if planned is None else planned), planned_runs or max(most, 1), **more
        )

    return make


@pytest.fixture(scope="session")
def task() -> Callable[..., TaskRecords]:
    """``task(reference, candidate, ...)``: the first cell is the reference unless told otherwise."""

    def make(
        *cells: CellRecords,
        name: str = "triage",
        metrics: Sequence[Metric] = (Metric("correct", "higher", primary=True),),
        reference: Cell | str | None = "first",
    ) -> TaskRecords:
        return TaskRecords(name, tuple(metrics), cells, cells[0].cell if reference == "first" else reference)  # type: ignore[arg-type]

    return make
