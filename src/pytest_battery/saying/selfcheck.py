"""Halves of one cell's own runs, compared as if they were two cells: how often they come out established.

Nothing differs between two halves of the same runs, so what is established here is established falsely: the rate is that
of the user's own data, their cases, their numbers of runs, their spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_battery.saying.bounds import normal_quantile, wilson
from pytest_battery.saying.cells import CellRecords, TaskRecords, tally
from pytest_battery.saying.comparing import Comparison, compare
from pytest_battery.saying.exactness import Number
from pytest_battery.saying.standards import ALPHA, SEED
from pytest_battery.values.permutations import Cell
from pytest_battery.values.tasks import Metric

__all__ = ["SPLITS", "SelfCheck", "selfcheck"]

SPLITS = 200


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """One metric of one cell: in ``splits`` random splits of its runs, ``stars`` were established at *alpha*.

    ``lo`` and ``hi`` are Wilson's 95% interval of the rate; the splits share their runs, so it is too narrow where few
    splits are possible.  ``reason`` says why nothing could be split, or is empty.
    """

    task: str
    cell: Cell
    metric: str
    cases: int
    splits: int
    stars: int
    lo: float
    hi: float
    reason: str = ""

    @property
    def rate(self) -> float | None:
        return self.stars / self.splits if self.splits else None

    def as_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "subject": self.cell.subject.key,
            "stack": self.cell.stack.key,
            "metric": self.metric,
            "cases": self.cases,
            "splits": self.splits,
            "stars": self.stars,
            "rate": self.rate,
            "interval": [self.lo, self.hi] if self.splits else None,
            "reason": self.reason,
        }


def selfcheck(tasks: Sequence[TaskRecords], *, splits: int = SPLITS, seed: int = SEED) -> tuple[SelfCheck, ...]:
    """Every metric of every cell, split in halves *splits* times; the same records give the same answer."""
    return tuple(
        _checked(task, records, metric, splits, seed)
        for task in tasks
        for metric in task.ordered_metrics
        for records in task.cells
    )


def _checked(task: TaskRecords, records: CellRecords, metric: Metric, splits: int, seed: int) -> SelfCheck:
    found = tally(records, metric.name)
    usable = {case: runs for case, runs in found.values.items() if len(runs) > 1}

    def result(made: int, stars: int, reason: str = "") -> SelfCheck:
        lo, hi = wilson(stars / made, made, normal_quantile(1 - ALPHA / 2)) if made else (0.0, 1.0)
        return SelfCheck(task.name, records.cell, metric.name, len(usable), made, stars, lo, hi, reason)

    if found.kind is None:
        return result(0, 0, "no measure here")
    if not usable:
        return result(0, 0, "needs two runs of a case or more")
    bits = np.random.PCG64(np.random.SeedSequence(seed))
    comparisons = []
    for _ in range(splits):
        halves = [_halved(runs, bits) for runs in usable.values()]
        mine = {case: half[0] for case, half in zip(usable, halves, strict=True)}
        other = {case: half[1] for case, half in zip(usable, halves, strict=True)}
        comparisons.append(Comparison(found.kind, mine, other, aggregate=metric.aggregate, better=metric.better))
    return result(splits, sum(gap.established for gap in compare(comparisons, seed=seed)))


def _halved(runs: Sequence[Number], bits: np.random.PCG64) -> tuple[tuple[Number, ...], tuple[Number, ...]]:
    """*runs* in random order, cut in the middle; of an odd number, one is left out."""
    order = sorted(range(len(runs)), key=lambda place: (int(bits.random_raw()), place))
    half = len(runs) // 2
    return tuple(runs[place] for place in order[:half]), tuple(runs[place] for place in order[half : 2 * half])
