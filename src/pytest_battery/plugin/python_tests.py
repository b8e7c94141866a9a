"""Tests written in Python: what asks, what its source is, and the model handed to it."""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_battery.doing.asking import Asker
from pytest_battery.doing.recording import RecordingModel
from pytest_battery.errors import BatteryError, TaskFileError
from pytest_battery.values.calls import Message, Reply
from pytest_battery.values.canonical import digest
from pytest_battery.values.subjects import Subject

__all__ = ["ModelOfTheRun", "asker_of", "asking_function", "source_digest"]

_current: contextvars.ContextVar[RecordingModel] = contextvars.ContextVar("the model of the run")


class ModelOfTheRun:
    """One object for all runs of an item, which run side by side: each call goes to the run it is made in.

    So a fixture of the user's may build a client on ``model``, once.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    async def complete(
        self,
        prompt: str | Sequence[Message],
        *,
        system: str | None = None,
        output_schema: Mapping[str, Any] | None = None,
    ) -> Reply:
        """Ask once: a text, or the conversation so far.  Raises `CallError` where no reply came."""
        model = _current.get(None)
        if model is None:
            raise BatteryError("`model` can be asked inside the test function only: a call belongs to one run")
        return await model.complete(prompt, system=system, output_schema=output_schema)


def asking_function(item: pytest.Function) -> Callable[..., Any] | None:
    """The coroutine function that asks, or None where the test is none.

    pytest-asyncio puts a synchronous wrapper in its place; the runs need the function itself, since they share one
    event loop.
    """
    for function in (item.obj, getattr(item.obj, "__wrapped__", None)):
        if inspect.iscoroutinefunction(function):
            return function
    return None


def asker_of(item: pytest.Function) -> Asker:
    """What one run does: call the test with the item's fixtures, take what it returns for the reply."""
    function = asking_function(item)
    if function is None:
        pytest.fail(
            f"{item.name} is not `async def`; a battery test awaits `model.complete(...)` and returns the reply",
            pytrace=False,
        )
    names = inspect.signature(function).parameters
    arguments = {name: item.funcargs[name] for name in names if name in item.funcargs}

    async def ask(model: RecordingModel) -> str:
        _current.set(model)
        returned = await function(**arguments)
        if isinstance(returned, Reply):
            return returned.text
        if not isinstance(returned, str):
            raise TypeError(f"the test returned {type(returned).__name__}; return the reply to grade, a str")
        return returned

    return ask


def source_digest(function: Callable[..., Any], test_file: Path, watch: Sequence[str]) -> str:
    """What a Python test asks with: the source of the function, and the content of the files it watches.

    *watch* are globs relative to the test file.  Raises `TaskFileError` for one that matches nothing.
    """
    try:
        source = inspect.getsource(inspect.unwrap(function))
    except OSError:
        source = ""
    seen: dict[str, str] = {}
    for pattern in watch:
        files = sorted(path for path in test_file.parent.glob(pattern) if path.is_file())
        if not files:
            raise TaskFileError(test_file, [f"{test_file.name}: watch={pattern!r} names no file"])
        for path in files:
            seen[path.relative_to(test_file.parent).as_posix()] = digest(path.read_bytes().hex())
    return digest([source.replace("\r\n", "\n"), seen])
