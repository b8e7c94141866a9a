"""What a test may ask for.  All of it is about the permutation the item measures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_battery.edges.store import Store
    from pytest_battery.values.cases import Case
    from pytest_battery.values.permutations import Permutation
    from pytest_battery.values.stacks import Stack
    from pytest_battery.values.subjects import Subject

__all__ = ["battery_store", "case", "model", "permutation", "stack", "subject"]


@pytest.fixture
def permutation(request: pytest.FixtureRequest) -> Permutation:
    """The permutation this item measures: task, subject, stack and case."""
    found: Permutation | None = getattr(request, "param", None)
    if found is None:
        pytest.fail('only a test marked @pytest.mark.battery("task.toml") measures a permutation', pytrace=False)
    return found


@pytest.fixture
def subject(permutation: Permutation) -> Subject:
    """The model and its knobs."""
    return permutation.subject


@pytest.fixture
def stack(permutation: Permutation) -> Stack:
    """The harness; `none` for plain calls."""
    return permutation.stack


@pytest.fixture
def case(permutation: Permutation) -> Case:
    """The case, a mapping of its fields: ``case["text"]``."""
    return permutation.case


@pytest.fixture
def model(permutation: Permutation) -> Any:
    """The subject, to be asked: ``await model.complete("...")``.  Every call is recorded with the run it belongs to."""
    from pytest_battery.plugin.python_tests import ModelOfTheRun

    return ModelOfTheRun(permutation.subject)


@pytest.fixture
def battery_store(request: pytest.FixtureRequest) -> Store:
    """The session's store."""
    from pytest_battery.plugin.session import battery_of

    return battery_of(request.config).store
