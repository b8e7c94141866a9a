"""What became of an item, in plain values that travel on its report."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pytest_battery.doing.measuring import LaneResult
from pytest_battery.doing.preparing import Prepared
from pytest_battery.saying.rendering.inert import inert
from pytest_battery.values.permutations import Permutation
from pytest_battery.values.records import Record

__all__ = ["Outcome", "cached_reason", "invalid_line", "outcome_of", "over_budget"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """``value`` is the primary metric over the runs, as people read it ("0.67"); ``usd`` was paid just now.

    ``python`` says what the controller needs to know of a task that only a worker's Python test names.
    """

    how: Literal["cached", "measured", "replayed", "re-scored", "invalid", "over-budget"]
    task: str
    subject: str
    stack: str
    kept: int
    measured: int
    replayed: int
    rescored: int
    invalid: int
    value: str
    seconds: float
    usd: float
    python: tuple[str, str, str] | None = None

    def as_plain(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}  # all plain already: no deep copy of each

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Outcome:
        return cls(**plain)


def outcome_of(permutation: Permutation, prepared: Prepared, results: Sequence[LaneResult]) -> Outcome:
    counts = {
        how: sum(result.how == how for result in results) for how in ("kept", "measured", "replayed", "re-scored")
    }
    invalid = sum(result.record.state == "invalid" for result in results)
    fresh = [result.record for result in results if result.how == "measured"]
    done = (how for how in ("measured", "replayed", "re-scored") if counts[how])
    how: Any = next(done, "cached")
    task = prepared.task
    return Outcome(
        how="invalid" if invalid else how,
        task=task.name,
        subject=permutation.subject.key,
        stack=permutation.stack.key,
        kept=counts["kept"],
        measured=counts["measured"],
        replayed=counts["replayed"],
        rescored=counts["re-scored"],
        invalid=invalid,
        value=_value(task.primary.name, [result.record for result in results]),
        seconds=max((record.wall_ms for record in fresh), default=0) / 1000,
        usd=sum(record.cost.usd or 0.0 for record in fresh),
        python=None if prepared.source is None else (str(task.path), task.name.rpartition(".")[2], prepared.source),
    )


def over_budget(permutation: Permutation, prepared: Prepared) -> Outcome:
    """An item of which runs were not started."""
    plain = outcome_of(permutation, prepared, ()).as_plain()
    return Outcome(**{**plain, "how": "over-budget"})


def _value(metric: str, records: Sequence[Record]) -> str:
    values = [record.metrics[metric] for record in records if metric in record.metrics]
    if not values or any(isinstance(value, str) or value is None for value in values):
        return "-"
    if all(isinstance(value, bool) for value in values):
        return f"{sum(map(bool, values)) / len(values):.2f}"
    return f"{statistics.median(float(value) for value in values):.4g}"  # type: ignore[arg-type]


def cached_reason(results: Sequence[LaneResult]) -> str:
    newest = max(result.record.measured_at for result in results)
    return f"cached: measured {newest:%Y-%m-%d %H:%M} UTC"


def invalid_line(results: Sequence[LaneResult]) -> str:
    """One line: why there is no measurement, and of how many runs."""
    errors = [result.record.error for result in results if result.record.state == "invalid"]
    first = next((error for error in errors if error is not None), None)
    what = f"{first.kind} ({first.fault}): {first.message}" if first else "no reason kept"
    return inert(f"no measurement in {len(errors)} of {len(results)} runs: {what}")
