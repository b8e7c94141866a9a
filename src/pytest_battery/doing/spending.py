"""Money held while a run asks, so that no number of runs at once passes the budget."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from pytest_battery.doing.planning import Decision
from pytest_battery.doing.preparing import Prepared
from pytest_battery.doing.projecting import Projector
from pytest_battery.doing.recording import RecordingModel
from pytest_battery.edges.budget import Budget
from pytest_battery.errors import OverBudgetError

__all__ = ["Spending"]

_POLL = 0.05  # seconds between two looks at what others hold


class Spending:
    """*budget* is asked for when the first run is about to begin; None for no budget."""

    def __init__(self, budget: Callable[[], Budget | None], projector: Projector) -> None:
        self._budget, self._projector = budget, projector

    @asynccontextmanager
    async def held(self, prepared: Prepared, decision: Decision, model: RecordingModel) -> AsyncIterator[None]:
        """Money is held while the run asks, and what it cost is settled after.  Raises `OverBudgetError`.

        A cost that is not known in the end counts as what was held.
        """
        budget = self._budget()
        if budget is None:
            yield
            return
        projection = self._projector.of(prepared, decision.lane.permutation, [decision])
        if isinstance(projection, str):
            raise OverBudgetError(f"what a run of {decision.lane.permutation.subject.key} costs is {projection}")
        if projection.high == 0:
            yield
            return
        while True:
            admission, hold = budget.reserve(projection.high)
            if admission == "admitted":
                break
            if admission == "over":
                raise OverBudgetError(
                    f"${projection.high:.4f} more would pass the budget of ${budget.cap:.2f}; spent: ${budget.spent():.4f}"
                )
            await anyio.sleep(_POLL)
        model.usd_left = max(0.0, budget.cap - budget.spent())
        try:
            yield
        finally:
            costs = [artifact.reply.cost.usd if artifact.reply else None for artifact in model.artifacts]
            known = [cost for cost in costs if cost is not None]
            budget.settle(hold, sum(known) if len(known) == len(costs) else max(projection.high, sum(known)))
