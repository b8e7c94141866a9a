"""Many gaps in one table: the adjustment, and how much evidence a gap needs to survive it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_battery.saying.standards import ALPHA

__all__ = ["cases_needed", "holm", "relabellings", "runs_needed"]


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment (Holm 1979), in the order given: never below p, never above 1, monotone in p."""
    adjusted = [1.0] * len(p)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        running = max(running, (len(p) - rank) * p[index])
        adjusted[index] = min(1.0, running)
    return adjusted


def cases_needed(gaps: int = 1, alpha: float = ALPHA) -> int:
    """Fewest differing cases with which one of *gaps* gaps could hold: the smallest p of C cases is 2 / 2**C."""
    return math.ceil(math.log2(2 * gaps / alpha) - 1e-12)


def relabellings(candidate: Sequence[int], reference: Sequence[int]) -> int:
    """How many ways there are to tell which runs are the candidate's, case by case."""
    return math.prod(math.comb(mine + other, mine) for mine, other in zip(candidate, reference, strict=True))


def runs_needed(cases: int = 1, gaps: int = 1, alpha: float = ALPHA) -> int:
    """Fewest runs per cell with which one of *gaps* gaps could hold on so few *cases* that runs are relabelled."""
    runs = 1
    while relabellings([runs] * cases, [runs] * cases) < 2 * gaps / alpha - 1e-9:
        runs += 1
    return runs
