"""Whether a design can tell anything at all; known before anything is spent, and without numpy."""

from __future__ import annotations

import math

from pytest_battery.saying.holm import cases_needed, runs_needed
from pytest_battery.saying.standards import ALPHA, DRAWS

__all__ = ["design_fault"]


def design_fault(cases: int, runs: int, m: int = 1, alpha: float = ALPHA) -> str:
    """Why a design of this size can establish nothing, whatever the answers are, and what would do; empty if it can.

    *cases* are shared by both cells, *runs* are those of a case in each.
    """
    if cases == 0:
        return "no case is shared"
    most = math.floor(alpha * (DRAWS + 1) / 2 + 1e-9)
    if m > most:
        return f"nothing can hold among {m} gaps: {DRAWS:,} draws allow at most {most}"
    if cases >= cases_needed(1, alpha):
        needed = cases_needed(m, alpha)
        return "" if cases >= needed else f"nothing can hold among {m} gaps: {needed} cases are needed ({cases} now)"
    needed = runs_needed(cases, m, alpha)
    if runs >= needed:
        return ""
    among = "nothing can be established" if runs < runs_needed(cases, 1, alpha) else f"nothing can hold among {m} gaps"
    return f"{among}: {cases_needed(m, alpha)} cases are needed ({cases} now), or {needed} runs of each ({runs} now)"
