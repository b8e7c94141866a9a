"""Task files as pytest modules: one function per case, one item per permutation."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_battery.doing.preparing import Prepared
from pytest_battery.edges.taskfiles import looks_like_a_task_file
from pytest_battery.errors import BatteryError, TaskFileError
from pytest_battery.plugin.python_tests import asking_function, source_digest
from pytest_battery.plugin.session import Battery, battery_of
from pytest_battery.values.cases import Case
from pytest_battery.values.permutations import Cell, Permutation

__all__ = ["TaskFile", "parametrize", "task_file"]


def task_file(path: Path, parent: pytest.Collector) -> TaskFile | None:
    """A collector for *path* if it is a task file; other people's TOML is left alone."""
    try:
        if not looks_like_a_task_file(path.read_bytes()):
            return None
    except OSError:
        return None
    return TaskFile.from_parent(parent, path=path)


class TaskFile(pytest.Module):
    """A TOML task file.

    pytest asks a module for its object and collects the functions in it.  Here the object is made from the task,
    so that ids, marks, fixtures of every scope, ``-k``, ``-m``, ``--lf`` and node ids are pytest's own.
    """

    grid: dict[str, list[Any]]

    def _getobj(self) -> types.ModuleType:
        module = types.ModuleType(self.path.stem)
        module.__file__ = str(self.path)
        self.grid = {}
        try:
            battery = battery_of(self.config)
            prepared = battery.load(self.path)
        except TaskFileError as error:
            if hasattr(self.config, "workerinput"):
                raise self.CollectError(str(error)) from None
            return module  # the session ends with all faults of all files in one message
        if prepared.task.kind == "python":
            return module
        module.pytestmark = _tags(prepared)  # type: ignore[attr-defined]
        arms = _Arms()
        for permutation in battery.permutations(prepared):
            if battery.is_hidden(permutation, f"{self.nodeid}::{permutation.id}"):
                continue
            case = permutation.case
            if case.id not in self.grid:
                self.grid[case.id] = []
                setattr(module, case.id, _function(module, case, self.path, prepared))
            self.grid[case.id].append(arms.parameter(permutation))
        return module


def _tags(prepared: Prepared) -> list[Any]:
    return [getattr(pytest.mark, tag) for tag in prepared.task.tags]


class _Arms:
    """Ids and marks, one object per cell: with many cases, most of what collection costs."""

    def __init__(self, marks: Sequence[Any] = ()) -> None:
        self._marks = tuple(marks)
        self._known: dict[Cell, tuple[str, tuple[Any, ...]]] = {}

    def parameter(self, permutation: Permutation, prefix: str = "") -> Any:
        cell = permutation.cell
        known = self._known.get(cell)
        if known is None:
            marks = (*self._marks, _subject_mark(cell), pytest.mark.stack(name=cell.stack.key))
            known = self._known[cell] = (cell.arm, marks)
        return pytest.param(permutation, id=prefix + known[0], marks=known[1])


def _subject_mark(cell: Cell) -> Any:
    subject = cell.subject
    knobs = {name: int(value) if value.lstrip("-").isdigit() else value for name, value in subject.knobs}
    return pytest.mark.subject(model=subject.ref, thinking=subject.level, **knobs)


def _asked() -> None:  # the item is measured by the plugin's pytest_pyfunc_call; this body is never run
    raise AssertionError


_NOTHING = inspect.signature(_asked)


def _function(module: types.ModuleType, case: Case, path: Path, prepared: Prepared) -> types.FunctionType:
    """A test function whose name, file and line are the case's, so that every location points there."""
    line = case.line if case.source.endswith(path.name) else 1
    code = _asked.__code__.replace(
        co_filename=str(path), co_firstlineno=max(1, line), co_name=case.id, co_qualname=case.id
    )
    function = types.FunctionType(code, {}, case.id)
    function.__module__ = module.__name__
    messages = prepared.asked[case.id].messages
    function.__doc__ = messages[-1].content if messages else None  # what --collect-only -v prints
    function.__signature__ = _NOTHING  # type: ignore[attr-defined]  # pytest asks five times, and finds out each time
    function.__test__ = True  # type: ignore[attr-defined]  # whatever python_functions says
    function.pytestmark = [pytest.mark.usefixtures("permutation")]  # type: ignore[attr-defined]
    return function


def parametrize(metafunc: pytest.Metafunc, marker: pytest.Mark | None) -> None:
    """Give a function its permutations: the case of a task file, or a Python test marked ``battery``."""
    parent = metafunc.definition.parent
    if isinstance(parent, TaskFile):
        metafunc.parametrize("permutation", parent.grid[metafunc.function.__name__], indirect=True)
    elif marker is not None:
        _parametrize_python(metafunc, marker)


def _parametrize_python(metafunc: pytest.Metafunc, marker: pytest.Mark) -> None:
    definition = metafunc.definition
    place = f"{definition.nodeid}: @pytest.mark.battery"
    watch: Any = marker.kwargs.get("watch", ())
    if len(marker.args) != 1 or not isinstance(marker.args[0], str) or set(marker.kwargs) - {"watch"}:
        pytest.fail(
            f'{place}: write @pytest.mark.battery("task.toml"), with watch=["file.py"] if need be', pytrace=False
        )
    if "permutation" not in metafunc.fixturenames:
        pytest.fail(f"{place}: the test uses none of the fixtures; it needs `case` and `model`", pytrace=False)
    if asking_function(definition) is None:
        pytest.fail(
            f"{place}: make the test `async def`: it awaits `model.complete(...)` and returns the reply", pytrace=False
        )
    try:
        battery = battery_of(metafunc.config)
        path = definition.path.parent / marker.args[0]
        watched = [watch] if isinstance(watch, str) else list(watch)
        source = source_digest(definition.obj, definition.path, watched)
        prepared = battery.load_python(path, definition.originalname, source)
    except TaskFileError as error:
        pytest.fail(f"{place}: {error}", pytrace=False)
    except BatteryError as error:
        pytest.fail(f"{place}: {error}", pytrace=False)
    metafunc.parametrize("permutation", list(_python_parameters(battery, prepared, definition.nodeid)), indirect=True)


def _python_parameters(battery: Battery, prepared: Prepared, nodeid: str) -> Iterable[Any]:
    arms = _Arms(_tags(prepared))
    for permutation in battery.permutations(prepared):
        if not battery.is_hidden(permutation, f"{nodeid}[{permutation.case.id}-{permutation.cell.arm}]"):
            yield arms.parameter(permutation, f"{permutation.case.id}-")
