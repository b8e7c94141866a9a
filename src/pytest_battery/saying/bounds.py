"""Intervals that have a formula, and the quantiles they need."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from statistics import NormalDist

from pytest_battery.saying.standards import ALPHA

__all__ = ["median_bounds", "newcombe", "normal_quantile", "on_its_side", "t_quantile", "unanimous_bounds", "wilson"]

_SERIES_UP_TO = 200  # degrees of freedom; beyond, the expansion is exact to 1e-12 and the series slow


def normal_quantile(probability: float) -> float:
    """The standard normal quantile, for 0 < probability < 1."""
    return NormalDist().inv_cdf(probability)


@functools.lru_cache(maxsize=1024)
def t_quantile(probability: float, df: int) -> float:
    """Student's t quantile for 1/2 <= *probability* < 1 and *df* >= 1 degrees of freedom.

    Up to 200 degrees the distribution function, a finite series in the cosine of arctan(t/sqrt(df)) (Abramowitz and
    Stegun 26.7.3, 26.7.4), is inverted by bisection; beyond, the expansion around the normal quantile (26.7.5).
    Raises ValueError outside these ranges.
    """
    if not 0.5 <= probability < 1 or df < 1:
        raise ValueError(f"no t quantile of {probability} with {df} degrees of freedom")
    if df > _SERIES_UP_TO:
        return _t_expansion(normal_quantile(probability), df)
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        if _t_within(middle, df) < 2 * probability - 1:
            low = middle
        else:
            high = middle
    return math.sqrt(df) * math.tan((low + high) / 2)


def wilson(rate: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's score interval of a *rate* observed over *n* trials (*n* may be an effective number)."""
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def newcombe(passes: int, n: int, others: int, m: int, alpha: float = ALPHA) -> tuple[float, float]:
    """Newcombe's hybrid score interval of passes/n - others/m (Newcombe 1998, method 10)."""
    z = normal_quantile(1 - alpha / 2)
    p, q = passes / n, others / m
    p_lo, p_hi = wilson(p, n, z)
    q_lo, q_hi = wilson(q, m, z)
    return p - q - math.hypot(p - p_lo, q_hi - q), p - q + math.hypot(p_hi - p, q - q_lo)


def median_bounds(values: Sequence[float], alpha: float = ALPHA) -> tuple[float, float] | None:
    """The interval of a median between two order statistics (binomial, exact); None below 6 values at alpha = .05."""
    ordered = sorted(values)
    n, below, rank = len(ordered), 0, 0
    while rank < n // 2:
        below += math.comb(n, rank)
        if 2 * below > alpha * 2**n:
            break
        rank += 1
    return (ordered[rank - 1], ordered[n - rank]) if rank else None


def unanimous_bounds(gap: float, cases: int, alpha: float = ALPHA) -> tuple[float, float]:
    """The interval of a rate gap that is the same *gap* in every one of *cases* cases.

    With 95% confidence at least a share q = (alpha/2)**(1/cases) of all cases is like these (exact binomial); the
    others may lie anywhere from -1 to 1.  So all gaps 0 give [-(1-q), 1-q], and all gaps 1 give [2q-1, 1], which
    excludes zero from 6 cases on, exactly where p can be <= .05.
    """
    q = (alpha / 2) ** (1 / cases)
    return max(-1.0, q * gap - (1 - q)), min(1.0, q * gap + (1 - q))


def on_its_side(point: float, bounds: tuple[float, float]) -> tuple[float, float]:
    """*bounds* around an interval that is one *point*, widened without crossing zero: it must not change a verdict."""
    lo, hi = min(bounds[0], point), max(bounds[1], point)
    if point > 0 >= lo:
        lo = point
    if point < 0 <= hi:
        hi = point
    return lo, hi


def _t_within(theta: float, df: int) -> float:
    """P(|T| <= sqrt(df) tan(theta))."""
    sine, cosine = math.sin(theta), math.cos(theta)
    if df == 1:
        return 2 * theta / math.pi
    term = total = cosine if df % 2 else 1.0
    for k in range(3 if df % 2 else 2, df - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    if df % 2:
        return 2 / math.pi * (theta + sine * total)
    return sine * total


def _t_expansion(x: float, df: int) -> float:
    first = (x**3 + x) / 4
    second = (5 * x**5 + 16 * x**3 + 3 * x) / 96
    third = (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384
    fourth = (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160
    return x + first / df + second / df**2 + third / df**3 + fourth / df**4
