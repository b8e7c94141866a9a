"""A gap and its verdict: established or inconclusive, and when it cannot be told, why and what would do."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

from pytest_battery.saying.bounds import normal_quantile
from pytest_battery.saying.holm import cases_needed, runs_needed
from pytest_battery.saying.standards import ALPHA, DRAWS
from pytest_battery.values.tasks import Better

__all__ = ["Direction", "Gap", "State", "Unit", "among", "floor_reason"]

Direction = Literal["better", "worse"]
State = Literal["established", "inconclusive"]
Unit = Literal["case", "run", "case2"]
"""What a draw keeps or exchanges: shared cases, the runs of 1 to 5 shared cases, or, with none shared, whole cases."""


@dataclass(frozen=True, slots=True)
class Gap:
    """One metric of one cell minus the same metric of its reference, in the metric's own unit.

    ``lo`` and ``hi`` end the 95% interval, infinite where this size gives none; ``draw_interval`` is that interval as
    the draws gave it, before a rate's was clipped to [-1, 1] or, where all draws agree, widened to an exact bound.
    ``p_floor`` is the smallest p that such data could give.  ``p_holm`` is adjusted over ``m`` gaps, and ``holds`` says
    whether the gap survives that: the gate acts on it.

    ``n_cases`` counts shared cases (for unit ``case2``, the cases of the smaller side), ``n_cases_differ`` those whose
    gap is not zero, ``n_cases_better`` and ``n_cases_worse`` each way.  ``runs`` are the fewest and the most runs of a
    case.  ``mde80`` is the true gap that data like these would have established 4 times in 5, ``mde80_holm`` the one that
    would have held among ``m``; both None where the data show no spread.  ``reason`` is empty or says why the verdict is not firmer.
    """

    estimate: float
    lo: float
    hi: float
    p: float
    p_holm: float
    state: State
    holds: bool
    unit: Unit
    better: Better
    n_cases: int
    n_cases_differ: int
    n_cases_better: int
    n_cases_worse: int
    runs: tuple[int, int]
    p_floor: float
    draw_interval: tuple[float, float]
    mde80: float | None = None
    mde80_holm: float | None = None
    reason: str = ""
    m: int = 1
    alpha: float = ALPHA

    @property
    def established(self) -> bool:
        return self.state == "established"

    @property
    def direction(self) -> Direction | None:
        """Which way an established gap points, by the metric's own ``better``; None for an inconclusive one."""
        if not self.established:
            return None
        return "better" if (self.lo > 0) == (self.better == "higher") else "worse"

    @property
    def scope(self) -> str:
        """What the statement is about."""
        if self.unit == "run":
            return "on this case" if self.n_cases == 1 else f"on these {self.n_cases} cases"
        return "on cases like these"

    def as_json(self) -> dict[str, Any]:
        """Plain values in full precision; an end that is not bounded is None."""
        plain: dict[str, Any] = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        plain.update(
            lo=_bounded(self.lo),
            hi=_bounded(self.hi),
            draw_interval=[_bounded(end) for end in self.draw_interval],
            runs={"min": self.runs[0], "max": self.runs[1]},
            scope=self.scope,
            direction=self.direction,
            gate="established" if self.holds else "inconclusive",
        )
        return plain


def floor_reason(unit: Unit, n_cases: int, differ: int, ways: int, alpha: float = ALPHA) -> str:
    """Why evidence of this size could not establish any gap, and what could.

    *ways* is the number of relabellings; it is read for the units that relabel only.
    """
    if unit == "case":
        return f"{differ} of {n_cases} shared cases differ; at least {cases_needed(1, alpha)} must"
    what, each = ("runs", runs_needed(n_cases, 1, alpha)) if unit == "run" else ("cases", runs_needed(1, 1, alpha))
    needed = math.ceil(2 / alpha - 1e-9)
    return f"{ways} relabellings of these {what} exist; at least {needed} are needed ({each} {what} per cell)"


def among(gap: Gap, p_holm: float, m: int, draws: int = DRAWS) -> Gap:
    """*gap* as one of *m*: its adjusted p, whether it holds, and the reason where more was or would be needed."""
    holds = gap.established and p_holm <= gap.alpha
    reason = gap.reason
    if not holds and gap.p_floor <= gap.alpha:
        parts = [] if gap.established else [_differing(gap)]
        reason = "; ".join(part for part in (*parts, _cannot_hold(gap, m, draws)) if part)
    return dataclasses.replace(
        gap, p_holm=p_holm, m=m, holds=holds, reason=reason, mde80_holm=_detectable_among(gap, m)
    )


def _detectable_among(gap: Gap, m: int) -> float | None:
    """The same standard error times the quantiles of alpha / m: Holm's first step, which is its hardest."""
    if gap.mde80 is None:
        return None
    quantiles = [normal_quantile(1 - gap.alpha / (2 * among)) + normal_quantile(0.8) for among in (1, m)]
    return gap.mde80 * quantiles[1] / quantiles[0]


def _differing(gap: Gap) -> str:
    if gap.unit == "case2":
        return ""
    if not gap.n_cases_differ:
        return "no case differs"
    verb = "differs" if gap.n_cases == 1 else "differ"
    count = f"{gap.n_cases_differ} of {gap.n_cases} cases {verb}"
    up, down = gap.n_cases_better, gap.n_cases_worse
    if not up or not down:
        return f"{count}, all {'better' if up else 'worse'}" if gap.n_cases_differ > 1 else count
    return f"{count}, {up} each way" if up == down else f"{count}, {up} better and {down} worse"


def _cannot_hold(gap: Gap, m: int, draws: int) -> str:
    if m == 1:
        return ""
    if 2 * m / (draws + 1) > gap.alpha:
        most = math.floor(gap.alpha * (draws + 1) / 2 + 1e-9)
        return f"cannot hold among {m} gaps: {draws:,} draws allow at most {most}"
    if gap.p_floor * m <= gap.alpha:
        return ""
    if gap.unit == "case":
        needed = cases_needed(m, gap.alpha)
        if gap.n_cases < needed:
            return f"cannot hold among {m} gaps: needs {needed} shared cases ({gap.n_cases} now)"
        return (
            f"cannot hold among {m} gaps: {gap.n_cases_differ} of {gap.n_cases} shared cases differ; "
            f"at least {needed} must"
        )
    if gap.unit == "run":
        needed = runs_needed(gap.n_cases, m, gap.alpha)
        return f"cannot hold among {m} gaps: needs {needed} runs per cell ({gap.runs[0]} now)"
    return f"cannot hold among {m} gaps: needs {runs_needed(1, m, gap.alpha)} cases per cell ({gap.n_cases} now)"


def _bounded(end: float) -> float | None:
    return end if math.isfinite(end) else None
