"""From the runs of two cells to a gap.

The unit of evidence follows from the design alone: 6 or more shared cases are kept or dropped whole; with 1 to 5 the
runs are relabelled within each case; with none, whole cases are relabelled.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pytest_battery.saying.bounds import newcombe, normal_quantile, on_its_side, t_quantile, unanimous_bounds
from pytest_battery.saying.exactness import (
    Number,
    PerCase,
    Runs,
    boolean_means,
    case_means,
    case_medians,
    double_median,
    whole_runs,
)
from pytest_battery.saying.holm import cases_needed, relabellings
from pytest_battery.saying.relabelling import Stratum, exchanged_means, exchanged_medians
from pytest_battery.saying.resampling import Reading, halves, kept_means, kept_medians, read_draws
from pytest_battery.saying.standards import ALPHA, DRAWS, SEED
from pytest_battery.saying.verdicts import Gap, Unit, floor_reason
from pytest_battery.values.tasks import Better

__all__ = ["Comparison", "compare"]

_BATCH = 32  # gaps whose draws are held at once: 2.5 MB, which stay in the processor's cache


@dataclass(frozen=True, slots=True)
class Comparison:
    """One gap to compute: case id -> the values of its runs, for the candidate and for the reference.

    Values of a ``rate`` are booleans (or 0 and 1).  The gap of a rate, and of a number with ``aggregate="mean"``, is
    the mean over shared cases of the difference of the case's means; of any other number, the median over shared
    cases of the difference of the case's medians.
    """

    kind: Literal["rate", "number"]
    candidate: Mapping[str, Sequence[Number]]
    reference: Mapping[str, Sequence[Number]]
    aggregate: Literal["median", "mean"] = "median"
    better: Better = "higher"

    @property
    def by_mean(self) -> bool:
        return self.kind == "rate" or self.aggregate == "mean"


@dataclass(frozen=True, slots=True)
class _Evidence:
    """A comparison, laid out.  ``gaps`` are the shared cases' gaps times ``per_case.scale``; none if none is shared.

    ``counts`` are how many runs each case has, in the candidate and in the reference.
    """

    comparison: Comparison
    unit: Unit
    cases: tuple[str, ...]
    counts: tuple[list[int], list[int]]
    per_case: PerCase
    gaps: list[float]

    @property
    def runs(self) -> Runs:
        """The shared cases' runs themselves, which few cases are judged by."""
        mine, other = self.comparison.candidate, self.comparison.reference
        booleans = self.comparison.kind == "rate"
        return whole_runs([mine[case] for case in self.cases], [other[case] for case in self.cases], booleans=booleans)

    @property
    def estimate(self) -> float:
        if not self.comparison.by_mean:
            if self.gaps:
                return double_median(self.gaps) / (2 * self.per_case.scale)
            ends = double_median(self.per_case.candidate), double_median(self.per_case.reference)
            return (ends[0] - ends[1]) / (2 * self.per_case.scale)
        total = sum if self.per_case.exact else math.fsum
        mine, other = self.per_case.candidate, self.per_case.reference
        if self.gaps:
            return total(self.gaps) / (len(self.gaps) * self.per_case.scale)
        crossed = total(mine) * len(other) - total(other) * len(mine)
        return crossed / (len(mine) * len(other) * self.per_case.scale)

    @property
    def sizes(self) -> tuple[list[int], list[int]]:
        """How many runs of every case (or, with none shared, how many cases) the two cells put in."""
        if self.unit == "case2":
            return [len(self.per_case.candidate)], [len(self.per_case.reference)]
        return self.counts


def compare(
    comparisons: Sequence[Comparison], *, seed: int = SEED, draws: int = DRAWS, alpha: float = ALPHA
) -> list[Gap]:
    """The gap of every comparison, each as if it were the only one: Holm's adjustment is the table's.

    Raises ValueError where a side of a comparison has no run at all.
    """
    evidence = [_evidence(comparison, alpha) for comparison in comparisons]
    readings: dict[int, Reading] = {}
    deviations: dict[int, float] = {}
    by_cases: dict[tuple[str, ...], list[int]] = {}  # gaps over the same cases share one matrix product
    for index, found in enumerate(evidence):
        if found.unit == "case" and found.comparison.by_mean:
            by_cases.setdefault(found.cases, []).append(index)
        elif found.unit == "case":
            kept = halves(seed, found.cases, draws).kept
            medians = kept_medians(np.array(found.gaps, dtype=np.float64), kept)
            readings[index] = read_draws(medians[None, :], alpha)[0].over(found.per_case.scale)
        else:
            readings[index] = _relabelled_reading(found, seed, draws, alpha)
    for cases, members in by_cases.items():
        half = halves(seed, cases, draws)
        parts = math.ceil(len(members) / _BATCH)
        for part in range(parts):  # of like sizes: BLAS adds a product's only row in another order than rows of many
            batch = members[part::parts]
            gaps = np.array([evidence[index].gaps for index in batch], dtype=np.float64)
            noise = np.array([evidence[index].per_case.noise for index in batch])
            deviations.update(zip(batch, gaps.std(axis=1, ddof=1).tolist(), strict=True))
            for index, reading in zip(batch, read_draws(kept_means(gaps, half, noise), alpha), strict=True):
                readings[index] = reading.over(evidence[index].per_case.scale)
    return [_gap(found, readings[index], deviations.get(index), alpha) for index, found in enumerate(evidence)]


def _evidence(comparison: Comparison, alpha: float) -> _Evidence:
    mine, other = _with_runs(comparison.candidate), _with_runs(comparison.reference)
    if not mine or not other:
        raise ValueError("a gap needs at least one run on either side")
    shared = tuple(sorted(mine.keys() & other.keys()))
    candidate = [mine[case] for case in shared or sorted(mine)]
    reference = [other[case] for case in shared or sorted(other)]
    if comparison.kind == "rate":
        per_case = boolean_means(candidate, reference)
    else:
        runs = whole_runs(candidate, reference)
        per_case = case_means(runs) if comparison.by_mean else case_medians(runs)
    unit: Unit = "case" if len(shared) >= cases_needed(1, alpha) else "run" if shared else "case2"
    gaps = list(map(operator.sub, per_case.candidate, per_case.reference)) if shared else []
    counts = list(map(len, candidate)), list(map(len, reference))
    return _Evidence(comparison, unit, shared, counts, per_case, gaps)


def _with_runs(side: Mapping[str, Sequence[Number]]) -> Mapping[str, Sequence[Number]]:
    return side if all(map(len, side.values())) else {case: runs for case, runs in side.items() if len(runs)}


def _relabelled_reading(found: _Evidence, seed: int, draws: int, alpha: float) -> Reading:
    if found.unit == "case2":
        scale, noise = found.per_case.scale, found.per_case.noise
        strata = [Stratum("two-sample", sorted(found.per_case.candidate), sorted(found.per_case.reference))]
    else:
        runs = found.runs
        scale, noise = runs.scale, runs.noise
        pairs = zip(found.cases, runs.candidate, runs.reference, strict=True)
        strata = [Stratum(case, sorted(mine), sorted(other)) for case, mine, other in pairs]
    if found.comparison.by_mean:
        values = exchanged_means(strata, seed=seed, draws=draws, noise=noise)
    else:
        values = exchanged_medians(strata, seed=seed, draws=draws)
    return read_draws(values[None, :], alpha)[0].over(scale)


def _gap(found: _Evidence, reading: Reading, deviation: float | None, alpha: float) -> Gap:
    comparison, unit = found.comparison, found.unit
    up, down = sum(gap > 0 for gap in found.gaps), sum(gap < 0 for gap in found.gaps)
    sizes = found.sizes
    ways = 0 if unit == "case" else relabellings(*sizes)
    floor = min(1.0, 2.0 ** (1 - up - down) if unit == "case" else 2 / ways)
    n_cases = len(found.cases) or min(len(found.per_case.candidate), len(found.per_case.reference))
    lo, hi, p = reading.lo, reading.hi, reading.p
    if floor > alpha and p <= alpha:
        # Exact draws cannot do this; 10,000 random ones can, about once in as many gaps that sit right at the line.
        lo, hi, p = min(lo, 0.0), max(hi, 0.0), floor
    established = lo > 0 or hi < 0
    assert established == (p <= alpha), "the interval excludes zero exactly where p is at most alpha"
    if comparison.kind == "rate":
        lo, hi = _rate_ends(found, lo, hi, alpha)
        assert established == (lo > 0 or hi < 0), "an exact bound must not change the verdict"
    counts = found.counts
    return Gap(
        estimate=found.estimate,
        lo=lo,
        hi=hi,
        p=p,
        p_holm=p,
        state="established" if established else "inconclusive",
        holds=established,
        unit=unit,
        better=comparison.better,
        n_cases=n_cases,
        n_cases_differ=up + down,
        n_cases_better=up if comparison.better == "higher" else down,
        n_cases_worse=down if comparison.better == "higher" else up,
        runs=(min(min(counts[0]), min(counts[1])), max(max(counts[0]), max(counts[1]))),
        p_floor=floor,
        draw_interval=(reading.lo, reading.hi),
        mde80=_detectable(found, reading, deviation, alpha),
        reason=floor_reason(unit, n_cases, up + down, ways, alpha) if floor > alpha else "",
        alpha=alpha,
    )


def _rate_ends(found: _Evidence, lo: float, hi: float, alpha: float) -> tuple[float, float]:
    """A rate's ends: within [-1, 1], and an exact bound where all draws are the same number."""
    if lo == hi and found.unit == "case" and len(set(found.gaps)) == 1:
        lo, hi = on_its_side(lo, unanimous_bounds(found.gaps[0] / found.per_case.scale, len(found.gaps), alpha))
    elif lo == hi and found.unit == "run":
        passes = [int(sum(map(sum, side))) for side in found.runs.sides]
        mine, other = map(sum, found.sizes)
        lo, hi = on_its_side(lo, newcombe(passes[0], mine, passes[1], other, alpha))
    return max(lo, -1.0), min(hi, 1.0)


def _detectable(found: _Evidence, reading: Reading, deviation: float | None, alpha: float) -> float | None:
    """The true gap that would have been established 4 times in 5: (t of 1 - alpha/2 plus t of .8) standard errors.

    The standard error is that of the mean of the cases' gaps (Miller 2024, arXiv 2411.00640), from their standard
    *deviation*; for medians, and where runs are relabelled, which have none, what the draws' interval implies.
    """
    if found.unit == "case":
        df = len(found.gaps) - 1
    else:
        mine, other = found.sizes
        df = sum(mine) + sum(other) - 2 * len(mine)
    if deviation is not None:
        error = deviation / math.sqrt(len(found.gaps)) / found.per_case.scale
    else:
        error = (reading.hi - reading.lo) / (2 * normal_quantile(1 - alpha / 2))
    if df < 1 or not math.isfinite(error) or error <= 0:
        return None
    return (t_quantile(1 - alpha / 2, df) + t_quantile(0.8, df)) * error
