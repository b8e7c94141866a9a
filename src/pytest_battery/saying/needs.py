"""What it would take to know: the gap this much evidence can find, and the evidence a gap would need.

Planned from the gap one cares about, never from the one observed: an established estimate is too large on average.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_battery.saying.bounds import normal_quantile, t_quantile
from pytest_battery.saying.comparing import Comparison
from pytest_battery.saying.exactness import Number
from pytest_battery.saying.holm import cases_needed
from pytest_battery.saying.standards import ALPHA
from pytest_battery.saying.verdicts import Gap
from pytest_battery.values.records import Record

__all__ = ["POWER", "Needs", "Spread", "detectable", "needs_of", "spread_of", "usd_per_run"]

POWER = 0.8
_FITTED, _EXTRA_CASES = 1.2, 4
"""Miller's formula (arXiv 2411.00640) is for many cases; the factor and the cases were fitted to this engine's own power
(bench/calibration.py prints the check)."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How much the cases' gaps vary, in squares of the metric's unit.

    ``within`` is the variance that one run of a case adds in either cell, both summed; None where no case has two runs
    in both.  ``between`` is what no number of runs takes away: cases that differ in how they differ.  ``runs`` is how
    many runs of a case the cells have, on average.
    """

    cases: int
    runs: float
    between: float
    within: float | None

    @property
    def total(self) -> float:
        """Variance of one case's gap at this number of runs."""
        return self.between + (self.within or 0.0) / self.runs


@dataclass(frozen=True, slots=True)
class Needs:
    """What would have a true gap of ``care`` hold, 4 times in 5, among the ``m`` gaps of the table.

    ``cases`` at the present number of runs, ``runs`` of each at the present cases; None where that cannot do, or
    cannot be told.  ``more_runs`` is how many runs the cheaper of the two adds, in both cells together, ``usd`` their price,
    None where no price is known.
    """

    care: float
    cases: int | None
    runs: int | None
    cases_now: int
    runs_now: int
    m: int
    more_runs: int | None = None
    usd: float | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "care": self.care,
            "cases": self.cases,
            "runs": self.runs,
            "cases_now": self.cases_now,
            "runs_now": self.runs_now,
            "m": self.m,
            "more_runs": self.more_runs,
            "usd": self.usd,
        }


def spread_of(comparison: Comparison, gap: Gap) -> Spread | None:
    """The spread of a comparison's shared cases; None with fewer than two of them, or where none varies.

    For medians both parts are scaled to the standard error that the gap's draws imply, (hi - lo) / (2 z).
    """
    shared = [case for case in comparison.candidate if comparison.reference.get(case) and comparison.candidate[case]]
    if len(shared) < 2:
        return None
    pairs = [(_floats(comparison.candidate[case]), _floats(comparison.reference[case])) for case in shared]
    gaps = [statistics.fmean(mine) - statistics.fmean(other) for mine, other in pairs]
    total = statistics.variance(gaps)
    repeated = [(mine, other) for mine, other in pairs if len(mine) > 1 and len(other) > 1]
    runs = statistics.harmonic_mean([len(side) for pair in pairs for side in pair])
    scale = _median_scale(comparison, gap, total, len(shared))
    if not repeated:
        return Spread(len(shared), runs, total * scale, None) if total > 0 else None
    within = statistics.fmean(statistics.variance(mine) + statistics.variance(other) for mine, other in repeated)
    between = max(0.0, total - within / runs)
    if between + within == 0:
        return None
    return Spread(len(shared), runs, between * scale, within * scale)


def _floats(values: Sequence[Number]) -> list[float]:
    return [float(value) for value in values]


def _median_scale(comparison: Comparison, gap: Gap, total: float, cases: int) -> float:
    lo, hi = gap.draw_interval
    if comparison.by_mean or total <= 0 or not math.isfinite(hi - lo) or hi <= lo:
        return 1.0
    error = (hi - lo) / (2 * normal_quantile(1 - gap.alpha / 2))
    return error**2 * cases / total


def needs_of(
    spread: Spread,
    care: float,
    *,
    m: int = 1,
    alpha: float = ALPHA,
    usd_per_run: tuple[float | None, float | None] = (None, None),
) -> Needs:
    """What a true gap of *care* needs.  *usd_per_run* is what a run of the candidate and of the reference costs.

    Cases: C = 1.2 (z[1 - alpha/2m] + z[.8])^2 (between + within / runs) / care^2 + 4; runs: the same, solved for them.
    """
    quantiles = (normal_quantile(1 - alpha / (2 * m)) + normal_quantile(POWER)) ** 2
    least = cases_needed(m, alpha)
    cases = max(least, math.ceil(_FITTED * quantiles * spread.total / care**2 + _EXTRA_CASES))
    runs_now = max(1, round(spread.runs))
    runs = None
    if spread.within is not None and spread.cases >= least:
        room = (spread.cases - _EXTRA_CASES) * care**2 / (_FITTED * quantiles) - spread.between
        if room > 0:
            runs = max(1, math.ceil(spread.within / room))
    ways = [2 * (cases - spread.cases) * runs_now]
    ways += [2 * (runs - runs_now) * spread.cases] if runs is not None else []
    more = max(0, min(ways))
    prices = [price for price in usd_per_run if price is not None]
    usd = more / 2 * sum(prices) if len(prices) == 2 else None
    return Needs(care, cases, runs, spread.cases, runs_now, m, more, usd)


def detectable(spread: Spread, *, m: int = 1, alpha: float = ALPHA) -> float:
    """The true gap that would hold 4 times in 5 at this design: (t[1 - alpha/2m] + t[.8]) standard errors."""
    degrees = spread.cases - 1
    return (t_quantile(1 - alpha / (2 * m), degrees) + t_quantile(POWER, degrees)) * math.sqrt(
        spread.total / spread.cases
    )


def usd_per_run(runs: Mapping[str, Sequence[Record]]) -> float | None:
    """The median price of a run, None where that of any is unknown."""
    costs = [record.cost.usd for of_case in runs.values() for record in of_case]
    known = [cost for cost in costs if cost is not None]
    return statistics.median(known) if known and len(known) == len(costs) else None
