"""Whether a battery of this size can tell anything at all, before anything is spent on it."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_battery.doing.choosing import Choice, cells_of, controls_of
from pytest_battery.doing.preparing import Prepared
from pytest_battery.saying.designs import design_fault
from pytest_battery.saying.standards import ALPHA

__all__ = ["design_faults"]


def design_faults(
    prepared: Sequence[Prepared], choice: Choice, *, against: bool, looks: int | None = None
) -> dict[str, str]:
    """By task, why no gap of it can hold among all the gaps its table will show, whatever the answers are.

    *against*: cells are compared with their own records elsewhere.  Tasks that can are left out, and those without a gap.
    """
    gaps = {one.task.name: _gaps(one, choice, against) * len(one.task.metrics) for one in prepared}
    m = max(1, sum(gaps.values()))
    faults = {}
    for one in prepared:
        fault = design_fault(len(one.task.cases), choice.runs or one.task.runs, m, ALPHA / (looks or 1))
        if fault and gaps[one.task.name]:
            faults[one.task.name] = fault
    return faults


def _gaps(prepared: Prepared, choice: Choice, against: bool) -> int:
    cells = cells_of(prepared.task, choice)
    if not against:
        return len(cells) - 1
    controls = controls_of(prepared.task, cells)
    return len(cells) - len(controls) + sum(cell in controls for cell in cells)
