"""A row in words and numerals, the same in every kind of output."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_battery.saying.cells import Kind
from pytest_battery.saying.gaps import Row
from pytest_battery.saying.rendering.amounts import money
from pytest_battery.saying.verdicts import Gap

__all__ = [
    "MISSING",
    "Verdict",
    "bound_text",
    "detectable_text",
    "gap_text",
    "interval_text",
    "n_text",
    "needs_text",
    "p_text",
    "value_text",
    "verdict",
]

MISSING = "-"

_SAME = 1e-9  # differences below this are rounding, not measurement


@dataclass(frozen=True, slots=True)
class Verdict:
    """``words`` are the verdict, ``rest`` what follows it, with its own punctuation; ``text`` is both."""

    words: str
    rest: str = ""

    @property
    def text(self) -> str:
        return self.words + self.rest

    @property
    def alone(self) -> str:
        """``rest`` as it stands on a line of its own."""
        return self.rest.lstrip(" ,:")


def verdict(row: Row) -> Verdict:
    """The verdict of a row with a gap, why another has none, or how far a cell alone can be trusted."""
    gap = row.gap
    if gap is None:
        return _without_gap(row)
    reason = f": {gap.reason}" if gap.reason else ""
    if not gap.established:
        return Verdict("inconclusive", reason)
    scope = f", {gap.scope}" if gap.unit == "run" else ""
    if gap.holds:
        return Verdict(f"established ★ {gap.direction}", scope)
    return Verdict(f"established ☆ {gap.direction}", f"{scope} (not after Holm over {gap.m}){reason}")


def value_text(row: Row) -> str:
    if row.value is None or row.kind is None:
        return MISSING
    return _unsigned(row.value, _decimals(row.kind, [row.value]))


def gap_text(row: Row) -> str:
    if row.gap is None or row.kind is None:
        return MISSING
    return _signed(row.gap.estimate, _gap_decimals(row.kind, row.gap))


def interval_text(row: Row) -> str:
    """The gap's 95% interval; ``unbounded`` where this size gives none."""
    gap = row.gap
    if gap is None or row.kind is None:
        return MISSING
    if math.isinf(gap.lo) or math.isinf(gap.hi):
        return "unbounded"
    decimals = _gap_decimals(row.kind, gap)
    return f"[{_signed(gap.lo, decimals)}, {_signed(gap.hi, decimals)}]"


def n_text(row: Row) -> str:
    """How many cases the row rests on, and of how many where some are missing."""
    return str(row.n_cases) if row.n_cases == row.planned else f"{row.n_cases}/{row.planned}"


def p_text(p: float | None) -> str:
    """A p value with two significant digits or more; never 0."""
    if p is None:
        return MISSING
    if p < 0.001:
        return "<0.001"
    return f"{p:.3f}" if p < 0.0995 else f"{p:.2f}"


def detectable_text(row: Row) -> str:
    """For an inconclusive gap, how large a true one would have been seen; empty where that cannot be said."""
    gap = row.gap
    if gap is None or row.kind is None or gap.established or gap.mde80 is None:
        return ""
    if row.kind == "rate" and gap.mde80 >= 1:
        return ""
    held = "" if gap.m == 1 or gap.mde80_holm is None else f", of ±{_about(gap.mde80_holm)} among {gap.m} gaps"
    return f"a true gap of about ±{_about(gap.mde80)} would have been established 4 times in 5{held}"


def _about(size: float) -> str:
    about = float(f"{size:.2g}")
    return _unsigned(about, _decimals("number", [about]))


def needs_text(row: Row) -> str:
    """What it would take to find the gap the metric cares about; empty where that is told or unknown."""
    needs = row.needs
    if needs is None:
        return ""
    ways = []
    if needs.cases is not None and needs.cases > needs.cases_now:
        ways.append(f"about {needs.cases} cases ({needs.cases_now} now)")
    if needs.runs is not None and needs.runs > needs.runs_now:
        ways.append(f"{needs.runs} runs of each ({needs.runs_now} now)")
    among = f" among {needs.m} gaps" if needs.m > 1 else ""
    gap = f"a gap of {_about(needs.care)}{among}"
    if not ways:
        return f"{gap} would be found 4 times in 5 with what is there"
    price = "" if needs.usd is None else f", {money(needs.usd)}"
    return f"{gap} needs {', or '.join(ways)}{price}"


def bound_text(row: Row) -> str:
    """The greatest loss that an inconclusive gap's 95% interval leaves possible; empty where it is not bounded."""
    gap = row.gap
    if gap is None or row.kind is None or gap.established:
        return ""
    loss = -gap.lo if gap.better == "higher" else gap.hi
    if not math.isfinite(loss) or loss <= 0 or (row.kind == "rate" and loss >= 1):
        return ""
    return f"{100 * (1 - gap.alpha):.3g}%: no loss beyond {_unsigned(loss, _decimals(row.kind, [loss]))} {gap.scope}"


def _without_gap(row: Row) -> Verdict:
    if row.reason:
        for words in ("no data", "no gap"):
            if row.reason.startswith(words):
                return Verdict(words, row.reason[len(words) :])
        return Verdict("no gap", f": {row.reason}")
    estimate = row.estimate
    if row.is_reference or estimate is None or estimate.lo is None or estimate.hi is None or row.kind is None:
        return Verdict("")
    decimals = _decimals(row.kind, [estimate.lo, estimate.hi])
    return Verdict("alone", f": 95% [{_unsigned(estimate.lo, decimals)}, {_unsigned(estimate.hi, decimals)}]")


def _gap_decimals(kind: Kind, gap: Gap) -> int | None:
    return _decimals(kind, [value for value in (gap.estimate, gap.lo, gap.hi) if math.isfinite(value)])


def _decimals(kind: Kind, values: Sequence[float]) -> int | None:
    """Decimals with which no value reads as the zero, or the whole rate, that it is not; None for powers of ten.

    Rates have two to four; numbers as many as they need, up to three significant digits of the largest.
    """
    sizes = [abs(value) for value in values]
    largest = max(sizes)
    if kind == "rate":
        return next((few for few in (2, 3) if not any(_misread(size, few, (0, 1)) for size in sizes)), 4)
    if largest == 0:
        return 0
    if not 1e-6 <= largest < 1e9:
        return None
    most = max(0, 2 - math.floor(math.log10(largest)))
    few = 0
    while few < most and any(abs(size - round(size, few)) >= _SAME * largest for size in sizes):
        few += 1
    while few < most + 6 and any(_misread(size, few, (0,)) for size in sizes):
        few += 1
    return few


def _misread(size: float, decimals: int, marks: Sequence[int]) -> bool:
    return any(round(size, decimals) == mark and abs(size - mark) > _SAME for mark in marks)


def _signed(value: float, decimals: int | None) -> str:
    text = _unsigned(value, decimals)
    return f"+{text}" if value > 0 and text.strip("0.") else text


def _unsigned(value: float, decimals: int | None) -> str:
    text = f"{value:.3g}" if decimals is None else f"{value:.{decimals}f}"
    return text if text.strip("-0.") else text.lstrip("-")
