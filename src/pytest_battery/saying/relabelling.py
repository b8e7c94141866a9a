"""Draws where fewer than 6 cases are shared: the runs that a random relabelling of two cells would exchange.

A relabelling decides afresh which of the runs of a case are the candidate's.  The mean of the runs that leave minus
the mean of those that enter is positive exactly where the relabelled gap is smaller than the observed one, so the
share of draws on the far side of zero is the exact permutation p (Fisher, Mantel-Haenszel).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_battery.saying.resampling import kept_medians, random_words
from pytest_battery.saying.standards import DRAWS

__all__ = ["Stratum", "exchanged_means", "exchanged_medians", "relabelled"]


@dataclass(frozen=True, slots=True)
class Stratum:
    """What is relabelled together: the runs of one case in both cells, or, with no case shared, the cases themselves.

    The values are sorted by whoever makes it, so that the order of the runs decides nothing.
    """

    key: str
    candidate: Sequence[float]
    reference: Sequence[float]


def exchanged_means(
    strata: Sequence[Stratum], *, seed: int, draws: int = DRAWS, noise: float = 0.0
) -> NDArray[np.float64]:
    """For every draw the mean of what leaves minus the mean of what enters, (draws,); infinite where nothing moves.

    Strata are weighted by 1/runs of the candidate + 1/runs of the reference, times the number that moves.  Sums of
    whole numbers are exact below 2**53; of others, those up to *noise* count as zero.
    """
    multiple = math.lcm(*(len(side) for stratum in strata for side in (stratum.candidate, stratum.reference)))
    sums, moved = np.zeros(draws), np.zeros(draws)
    for stratum in strata:
        mine, other = len(stratum.candidate), len(stratum.reference)
        leaving, entering = relabelled(seed, stratum.key, mine, other, draws)
        weight = multiple // mine + multiple // other
        sums += weight * (_total(stratum.candidate, leaving) - _total(stratum.reference, entering))
        moved += weight * leaving.sum(axis=0, dtype=np.int64)
    sums[np.abs(sums) <= noise * 2 * multiple] = 0.0
    means: NDArray[np.float64] = np.where(moved == 0, np.inf, sums / np.maximum(moved, 1))
    return means


def exchanged_medians(strata: Sequence[Stratum], *, seed: int, draws: int = DRAWS) -> NDArray[np.float64]:
    """For every draw the median, over the strata where something moves, of what leaves minus what enters.

    Of each stratum these are the medians of what leaves and enters.  (draws,); infinite where nothing moves.
    """
    by_stratum = np.empty((len(strata), draws))
    for row, stratum in enumerate(strata):
        leaving, entering = relabelled(seed, stratum.key, len(stratum.candidate), len(stratum.reference), draws)
        still = ~leaving.any(axis=0)
        out = kept_medians(np.asarray(stratum.candidate, dtype=np.float64), leaving)
        into = kept_medians(np.asarray(stratum.reference, dtype=np.float64), entering)
        out[still] = np.inf
        into[still] = 0.0
        by_stratum[row] = out - into
    by_stratum.sort(axis=0)
    moved = np.isfinite(by_stratum).sum(axis=0)
    column = np.arange(draws)
    lower = by_stratum[np.maximum(moved - 1, 0) // 2, column]
    upper = by_stratum[np.minimum(moved // 2, len(strata) - 1), column]
    medians: NDArray[np.float64] = 0.5 * (lower + upper)
    return medians


def relabelled(
    seed: int, key: str, candidate: int, reference: int, draws: int = DRAWS
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """What random relabellings of *candidate* + *reference* runs exchange: (candidate, draws) and (reference, draws).

    The first array marks the candidate's runs that leave, the second the reference's that enter instead; in every
    draw they are equally many.  All relabellings are equally likely.
    """
    runs = candidate + reference
    keys = random_words(seed, f"run\0{candidate}\0{reference}\0{key}", draws * runs).reshape(draws, runs)
    chosen = np.argsort(keys, axis=1, kind="stable")[:, :candidate]
    labels = np.zeros((draws, runs), dtype=np.uint8)
    np.put_along_axis(labels, chosen, 1, axis=1)
    labels = np.ascontiguousarray(labels.T)
    return 1 - labels[:candidate], labels[candidate:]


def _total(values: Sequence[float], marks: NDArray[np.uint8]) -> NDArray[np.float64]:
    total: NDArray[np.float64] = np.asarray(values, dtype=np.float64) @ marks.astype(np.float64)
    return total
