"""What a scorer is: made once per task from its options, then asked about one run at a time.

A scorer calls no model and changes nothing; the same case and view always give the same score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pytest_battery.values.cases import Case

__all__ = ["Factory", "Score", "ScoreFunction", "Scorer", "View"]


@dataclass(frozen=True, slots=True)
class View:
    """What a scorer may look at, of one run.

    ``text`` is the reply, "" where the model gave none; ``stop_reason`` one of `values.calls.StopReason`;
    ``task_directory`` holds the task file; ``evidence`` is a directory of what else a run left, None for plain calls, whose
    reply is all there is.  ``steps`` maps the steps of a task of steps to their replies; ``text`` is the last of them.
    ``options`` are those of the task's ``[scorer]`` table; only project scorers need them here.
    """

    text: str
    stop_reason: str
    task_directory: Path
    evidence: Path | None = None
    steps: Mapping[str, str] = field(default_factory=dict, hash=False)
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Score:
    """A grade: each metric is in ``metrics``, or in ``unjudged`` with why it could not be told.

    A boolean becomes a rate, a number a median.  ``reasons`` explain metrics, in a short sentence each.
    """

    metrics: Mapping[str, bool | int | float]
    reasons: Mapping[str, str] = field(default_factory=dict)
    unjudged: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Scorer(Protocol):
    """Grades runs of one task."""

    @property
    def name(self) -> str:
        """As it is registered."""

    def check(self, case: Case) -> None:
        """Raise `ScoringError` where the options cannot work with *case*; called for every case before any call."""

    def score(self, case: Case, view: View) -> Score:
        """Grade one run."""

    def identity(self) -> Mapping[str, Any]:
        """Source digest and options as plain JSON: records are scored again when it changes."""


Factory = Callable[[Mapping[str, Any], Path], Scorer]
"""``factory(options, task_directory)`` makes a scorer, or raises `ScoringError`."""

ScoreFunction = Callable[[Case, View], "Score | Mapping[str, bool | int | float]"]
"""``score(case, view)``: all that a project scorer has to be."""
