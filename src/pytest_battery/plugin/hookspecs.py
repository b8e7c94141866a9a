"""The hooks a ``conftest.py`` or another plugin may answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_battery.edges.models.client import Provider

__all__ = ["pytest_battery_models", "pytest_battery_scorers"]


@pytest.hookspec
def pytest_battery_models() -> Mapping[str, Provider]:  # type: ignore[empty-body]
    """Providers by the name that stands before the ``/`` of a subject, as in ``{"fake": FakeModel(handler)}``.

    Answer it in a ``conftest.py`` that pytest loads at its start: beside the task files, or above them.
    """


@pytest.hookspec
def pytest_battery_scorers() -> Mapping[str, Callable[..., Any]]:  # type: ignore[empty-body]
    """Scorers by name: functions ``score(case, view)``, or factories ``(options, task_directory) -> Scorer``."""
