"""Measured numbers as whole ones, so that ties are ties.

In floats 0.2 + 0.4 - 0.6 is not zero, yet a draw that ties with zero must count as the far side.  So a measured
number is taken to be the decimal it is written as (records are JSON) and scaled by a power of ten, and case means by
the least common multiple of the numbers of runs.  What does not fit stays in floats, where sums below a stated noise
count as zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

__all__ = ["Number", "PerCase", "Runs", "boolean_means", "case_means", "case_medians", "double_median", "whole_runs"]

Number = bool | int | float

_SCALES = [10.0**decimals for decimals in range(13)]
_LARGEST = 2**52
_LARGEST_RUN = 2**40  # leaves room for the multiples and sums of many runs
_ROUNDING = 1e-14  # of the values summed: some 50 units in the last place


@dataclass(frozen=True, slots=True)
class Runs:
    """Two cells' runs, case by case, times *scale*; whole numbers if *exact*."""

    candidate: list[list[float]]
    reference: list[list[float]]
    scale: int
    exact: bool

    @property
    def noise(self) -> float:
        """Below this, a sum of these numbers is rounding error."""
        return 0.0 if self.exact else _ROUNDING * sum(abs(x) for side in self.sides for runs in side for x in runs)

    @property
    def sides(self) -> tuple[list[list[float]], list[list[float]]]:
        return self.candidate, self.reference


@dataclass(frozen=True, slots=True)
class PerCase:
    """One number per case and cell, times *scale*; whole numbers if *exact*."""

    candidate: list[float]
    reference: list[float]
    scale: int
    exact: bool

    @property
    def noise(self) -> float:
        """Below this, a sum of these numbers is rounding error."""
        return 0.0 if self.exact else _ROUNDING * math.fsum(map(abs, (*self.candidate, *self.reference)))


def whole_runs(
    candidate: Sequence[Sequence[Number]], reference: Sequence[Sequence[Number]], *, booleans: bool = False
) -> Runs:
    """The runs on one scale; not exact, with scale 1, where a number has more than 12 decimals or too many digits.

    *booleans* says that there are no other numbers, and saves looking.
    """
    scale = 1 if booleans else _power_of_ten(chain(*candidate, *reference))
    if scale is None:
        return Runs([[*map(float, runs)] for runs in candidate], [[*map(float, runs)] for runs in reference], 1, False)
    if scale == 1:
        return Runs([[*map(int, runs)] for runs in candidate], [[*map(int, runs)] for runs in reference], 1, True)
    # A decimal times its power of ten is off by less than half before rounding: it is below 2**40.
    return Runs(
        [[round(x * scale) for x in runs] for runs in candidate],
        [[round(x * scale) for x in runs] for runs in reference],
        scale,
        True,
    )


def case_means(runs: Runs) -> PerCase:
    """The mean of every case's runs."""
    sides = runs.sides
    sums = [[sum(of_case) if runs.exact else math.fsum(of_case) for of_case in side] for side in sides]
    if runs.exact:
        multiple = math.lcm(*{len(of_case) for side in sides for of_case in side})
        whole = [
            [total * (multiple // len(of_case)) for total, of_case in zip(totals, side, strict=True)]
            for totals, side in zip(sums, sides, strict=True)
        ]
        if sum(abs(x) for side in whole for x in side) < _LARGEST:
            return PerCase(whole[0], whole[1], runs.scale * multiple, True)
    means = [
        [total / len(of_case) / runs.scale for total, of_case in zip(totals, side, strict=True)]
        for totals, side in zip(sums, sides, strict=True)
    ]
    return PerCase(means[0], means[1], 1, False)


def case_medians(runs: Runs) -> PerCase:
    """The median of every case's runs."""
    return PerCase(_double_medians(runs.candidate), _double_medians(runs.reference), 2 * runs.scale, runs.exact)


def _double_medians(side: Sequence[Sequence[float]]) -> list[float]:
    numbers = {len(of_case) for of_case in side}
    if len(numbers) != 1:
        return [double_median(of_case) for of_case in side]
    number = numbers.pop()
    middle = number // 2
    ordered = np.sort(np.array(side, dtype=np.float64), axis=1)
    medians: list[float] = (ordered[:, middle] + ordered[:, middle - 1 + number % 2]).tolist()
    return medians


def double_median(values: Sequence[float]) -> float:
    """Twice the median: whole for whole numbers, also where the median is the mean of two."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] + ordered[middle - 1 + len(ordered) % 2]


def boolean_means(candidate: Sequence[Sequence[Number]], reference: Sequence[Sequence[Number]]) -> PerCase:
    """As `case_means` of booleans, whose runs need not be made numbers one by one."""
    sides = (candidate, reference)
    numbers = set(map(len, chain(*sides)))
    multiple = math.lcm(*numbers)
    passes: list[list[float]] = [[of_case.count(True) for of_case in side] for side in sides]
    if len(numbers) == 1:
        return PerCase(passes[0], passes[1], multiple, True)
    whole = [
        [number * (multiple // len(of_case)) for number, of_case in zip(of_side, side, strict=True)]
        for of_side, side in zip(passes, sides, strict=True)
    ]
    if sum(map(sum, whole)) < _LARGEST:
        return PerCase(whole[0], whole[1], multiple, True)
    return case_means(whole_runs(candidate, reference, booleans=True))


def _power_of_ten(values: Iterable[Number]) -> int | None:
    """The smallest power of ten that makes all of them whole; None where it, or what it makes, would be too large.

    A float is the decimal of k places that it is written as exactly if rounding it to k places gives it back, and
    then rounding it to more places does so too.
    """
    try:
        measured = np.array([*values], dtype=np.float64)
    except OverflowError:
        return None
    largest = max(1.0, float(np.abs(measured).max(initial=0.0)))
    scales = [scale for scale in _SCALES if largest * scale <= _LARGEST_RUN]
    if not scales or len(_with_more_places(measured, scales[-1])):
        return None
    for scale in scales:
        measured = _with_more_places(measured, scale)
        if not len(measured):
            break
    return int(scale)


def _with_more_places(measured: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    others: NDArray[np.float64] = measured[np.rint(measured * scale) / scale != measured]
    return others
