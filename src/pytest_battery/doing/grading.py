"""A reply's grade, by the scorer and the metrics its task has now."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pytest_battery.doing.preparing import Prepared
from pytest_battery.errors import ContractError, ScoringError
from pytest_battery.scoring.contract import check_contract
from pytest_battery.scoring.scorers import Score, View
from pytest_battery.values.cases import Case
from pytest_battery.values.records import RunError

__all__ = ["graded"]


def graded(
    prepared: Prepared, case: Case, stop_reason: str, reply: str, steps: Mapping[str, str] = MappingProxyType({})
) -> tuple[Score, RunError | None]:
    """The score of *reply*, and why it is none where the scorer failed or broke its promise.

    *steps* are the replies of a task of steps; its *reply* is the last of them.
    """
    directory = prepared.task.path.parent
    view = View(text=reply, stop_reason=stop_reason, task_directory=directory, steps=dict(steps))
    try:
        score = prepared.scorer.score(case, view)
        metrics = check_contract(score, prepared.task.metrics)
        return Score(metrics, score.reasons, score.unjudged), None
    except ContractError as failure:
        return Score({}), RunError(kind="contract", fault="task", message=str(failure))
    except ScoringError as failure:
        return Score({}), RunError(kind="scorer-failed", fault="task", message=str(failure))
