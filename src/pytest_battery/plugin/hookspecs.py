"""The hooks a ``conftest.py`` or another plugin may answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_battery.edges.models.client import Provider
    from pytest_battery.values.permutations import Permutation

__all__ = ["pytest_battery_models", "pytest_battery_provision", "pytest_battery_scorers"]


@pytest.hookspec
def pytest_battery_models() -> Mapping[str, Provider]:  # type: ignore[empty-body]
    """Providers by the name that stands before the ``/`` of a subject, as in ``{"fake": FakeModel(handler)}``.

    Answer it in a ``conftest.py`` that pytest loads at its start: beside the task files, or above them.
    """


@pytest.hookspec
def pytest_battery_provision(permutation: Permutation, path: Path) -> None:
    """Put more into *path*, the fresh workspace of a run, before its agent sees it.  Called in a thread, for each run."""


@pytest.hookspec
def pytest_battery_scorers() -> Mapping[str, Callable[..., Any]]:  # type: ignore[empty-body]
    """Scorers by name: functions ``score(case, view)``, or factories ``(options, task_directory) -> Scorer``."""
