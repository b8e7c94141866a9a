"""The scorers a task may name: the built-in ones, those of the hook, and the project's own files."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from pytest_battery.errors import ScoringError
from pytest_battery.scoring.contract import Guarded, scorer_fault
from pytest_battery.scoring.labels import Labels
from pytest_battery.scoring.matchers import Matchers
from pytest_battery.scoring.project import function_factory, project_files, project_scorer
from pytest_battery.scoring.scorers import Factory, ScoreFunction, Scorer
from pytest_battery.scoring.templates import did_you_mean
from pytest_battery.values.tasks import ScorerChoice

__all__ = ["BOUNDED", "Registry"]

BOUNDED = frozenset({"labels", "matchers"})
"""Scorers whose time is linear in the reply, whatever it holds: they may grade in an event loop."""


class Registry:
    """Scorers by name.  ``more`` maps names to factories, or to plain functions ``score(case, view)``.

    A function whose first parameter is called ``case`` is a score function; anything else callable is a factory.
    Raises `ScoringError` for a name that is taken, and for what cannot be called.
    """

    def __init__(self, more: Mapping[str, Factory | ScoreFunction] | None = None) -> None:
        self._factories: dict[str, Factory] = {"labels": Labels, "matchers": Matchers}
        for name, given in (more or {}).items():
            self._add(name, _factory(name, given), "the hook pytest_battery_scorers")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._factories))

    def with_project(self, directory: Path) -> Registry:
        """This registry and the scorers in *directory* (``scorers/*.py``; see `project`); they are imported when used.

        Raises `ScoringError`, naming the file, where one has a name that is taken.
        """
        wider = Registry()
        wider._factories = dict(self._factories)
        for name, file in project_files(directory).items():
            wider._add(name, project_scorer(file), str(file))
        return wider

    def make(self, choice: ScorerChoice, task_directory: Path) -> Scorer:
        """The scorer a task chose, guarded: whatever it raises is a `ScoringError`.

        Raises `ScoringError` for an unknown name and for options it refuses.
        """
        factory = self._factories.get(choice.use)
        if factory is None:
            near = did_you_mean(choice.use, self._factories)
            raise ScoringError(
                f"there is no scorer {choice.use!r}{near}; the scorers are {', '.join(self.names)} "
                "(a file scorers/NAME.py adds NAME)"
            )
        try:
            scorer = factory(choice.options, task_directory)
        except ScoringError:
            raise
        except Exception as error:
            raise scorer_fault(f"scorer {choice.use!r} cannot be made", error) from error
        if not isinstance(scorer, Scorer):
            raise ScoringError(
                f"scorer {choice.use!r}: its factory returned a {type(scorer).__name__}; "
                "a scorer has name, check(case), score(case, view) and identity()"
            )
        return scorer if isinstance(scorer, Guarded) else Guarded(scorer)

    def _add(self, name: str, factory: Factory, where: str) -> None:
        if name in self._factories:
            raise ScoringError(f"{where}: there already is a scorer {name!r}; give this one another name")
        self._factories[name] = factory


def _factory(name: str, given: Callable[..., Any]) -> Factory:
    if not callable(given):
        raise ScoringError(
            f"the hook pytest_battery_scorers gives {given!r} as {name!r}; "
            "give a factory, or a function score(case, view)"
        )
    if inspect.isfunction(given) and next(iter(inspect.signature(given).parameters), None) == "case":
        return function_factory(name, cast(ScoreFunction, given))
    return given
