"""What one cell says by itself: its estimate and how far that can be trusted.  No verdict."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pytest_battery.saying.bounds import median_bounds, normal_quantile, t_quantile, wilson
from pytest_battery.saying.exactness import Number, PerCase, case_means, case_medians, double_median, whole_runs
from pytest_battery.saying.resampling import halves, kept_means, kept_medians, read_draws
from pytest_battery.saying.standards import ALPHA, DRAWS, SEED

__all__ = ["Estimate", "estimate_cell"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A cell's own value of a metric, in the metric's unit.

    ``lo`` and ``hi`` end its 95% interval, None where this size or data without any spread give none.  For numbers
    ``quartiles`` and ``extremes`` are those of all runs; None for rates.
    """

    value: float
    lo: float | None
    hi: float | None
    quartiles: tuple[float, float] | None = None
    extremes: tuple[float, float] | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "value": self.value,
            "lo": self.lo,
            "hi": self.hi,
            "quartiles": self.quartiles and list(self.quartiles),
            "extremes": self.extremes and list(self.extremes),
        }


def estimate_cell(
    kind: Literal["rate", "number"],
    runs: Mapping[str, Sequence[Number]],
    *,
    aggregate: Literal["median", "mean"] = "median",
    seed: int = SEED,
    draws: int = DRAWS,
    alpha: float = ALPHA,
) -> Estimate:
    """The estimate of one cell from case id -> values of its runs.

    A rate is the mean over cases of the case's rate, with Wilson's interval over an effective number of runs.  A number
    is the median (``aggregate="mean"``: mean) over cases of the case's median (mean), with the interval of the same
    half-sample draws that gaps have, from 6 cases on; for the median of a single case, between two order statistics
    of its runs, from 6 runs on.  Raises ValueError where there is no run.
    """
    cases = tuple(sorted(case for case, of_case in runs.items() if len(of_case)))
    if not cases:
        raise ValueError("an estimate needs at least one run")
    values = whole_runs([runs[case] for case in cases], [], booleans=kind == "rate")
    if kind == "rate":
        return _rate(case_means(values), sum(map(len, values.candidate)), alpha)
    by_mean = aggregate == "mean"
    per_case = case_means(values) if by_mean else case_medians(values)
    everything = sorted(float(value) for case in cases for value in runs[case])
    lo, hi = _number_ends(per_case, cases, everything, by_mean, seed, draws, alpha)
    quartiles = statistics.quantiles(everything, n=4, method="inclusive") if len(everything) > 1 else everything * 3
    return Estimate(
        value=_centre(per_case, by_mean),
        lo=lo,
        hi=hi,
        quartiles=(quartiles[0], quartiles[2]),
        extremes=(everything[0], everything[-1]),
    )


def _centre(per_case: PerCase, by_mean: bool) -> float:
    if not by_mean:
        return double_median(per_case.candidate) / (2 * per_case.scale)
    total = sum(per_case.candidate) if per_case.exact else math.fsum(per_case.candidate)
    return total / (len(per_case.candidate) * per_case.scale)


def _rate(per_case: PerCase, runs: int, alpha: float) -> Estimate:
    """Wilson's interval with as many trials as the spread between cases leaves, and Student's t for the normal.

    Runs of one case are alike, so there are fewer trials than runs: p(1-p) over the variance of the mean of the case
    rates, at least the number of cases, at most that of runs.  One case alone speaks for itself: all runs, normal.
    """
    rate = _centre(per_case, by_mean=True)
    cases = len(per_case.candidate)
    if cases == 1:
        lo, hi = wilson(rate, runs, normal_quantile(1 - alpha / 2))
        return Estimate(rate, lo, hi)
    variance = statistics.pvariance(per_case.candidate) / (cases - 1) / per_case.scale**2  # of the mean
    effective = float(cases)
    if variance > 0:
        effective = min(max(rate * (1 - rate) / variance * (cases - 1) / cases, cases), runs)
    lo, hi = wilson(rate, effective, t_quantile(1 - alpha / 2, cases - 1))
    return Estimate(rate, lo, hi)


def _number_ends(
    per_case: PerCase,
    cases: tuple[str, ...],
    everything: list[float],
    by_mean: bool,
    seed: int,
    draws: int,
    alpha: float,
) -> tuple[float | None, float | None]:
    if len(cases) == 1:
        bounds = None if by_mean else median_bounds(everything, alpha)
        return bounds if bounds and bounds[0] < bounds[1] else (None, None)
    half = halves(seed, cases, draws)
    centres = np.array(per_case.candidate, dtype=np.float64)
    if by_mean:
        noise = np.array([per_case.noise])
        reading = read_draws(kept_means(centres[None, :], half, noise), alpha)[0].over(per_case.scale)
    else:
        reading = read_draws(kept_medians(centres, half.kept)[None, :], alpha)[0].over(per_case.scale)
    # One value in every draw is no spread seen, not certainty.
    return (reading.lo, reading.hi) if math.isfinite(reading.lo) and reading.lo < reading.hi else (None, None)
