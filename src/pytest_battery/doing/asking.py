"""One run's asking: whoever does it, what comes of it is a reply or the reason why there is none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from pytest_battery.doing.preparing import Prepared
from pytest_battery.doing.recording import RecordingModel
from pytest_battery.edges.models.patience import running_limit
from pytest_battery.errors import CallError, StoreWriteError
from pytest_battery.values.calls import Message, Reply, Request
from pytest_battery.values.permutations import Lane
from pytest_battery.values.records import RunError
from pytest_battery.values.subjects import Subject

__all__ = ["Asker", "answered", "converse"]

Asker = Callable[[RecordingModel], Awaitable[str]]
"""What does the asking in a run: handed the recording model, returns the reply the scorer grades."""


async def answered(
    prepared: Prepared, lane: Lane, model: RecordingModel, asker: Asker | None
) -> tuple[str | None, RunError | None]:
    """The reply of one run, or why there is none.  Raises `StoreWriteError`."""
    try:
        with running_limit(prepared.task.timeout) as limit:
            return await _ask(prepared, lane, model, asker), None
        if limit.cancelled_caught:  # and not a TimeoutError of the test's own
            message = f"no reply within {prepared.task.timeout:g} s"
            return None, RunError(kind="timeout", fault="infrastructure", message=message)
    except CallError as failure:
        return None, RunError(kind=failure.kind, fault=failure.fault, message=str(failure))
    except StoreWriteError:
        raise
    except Exception as failure:  # a Python test or a provider may raise anything; the run is then no measurement
        message = f"{type(failure).__name__}: {failure}"
        if asker is not None:
            return None, RunError(kind="test-raised", fault="task", message=message)
        if prepared.driver is not None:
            return None, RunError(kind="driver-raised", fault="task", message=message)
        return None, RunError(kind="provider-raised", fault="us", message=message)
    raise AssertionError("a scope that ends without an answer was cancelled")


async def _ask(prepared: Prepared, lane: Lane, model: RecordingModel, asker: Asker | None) -> str:
    if asker is not None:
        return await asker(model)
    case = lane.permutation.case
    if prepared.driver is not None:
        returned = await prepared.driver(case, model)
        if isinstance(returned, Reply):
            return returned.text
        if not isinstance(returned, str):
            raise TypeError(f"the driver returned {type(returned).__name__}; return the reply to grade, a str")
        return returned
    subject, schema = lane.permutation.subject, prepared.task.output_schema
    return await converse(model, subject, prepared.asked[case.id].messages, schema)


async def converse(
    model: RecordingModel, subject: Subject, messages: Sequence[Message], schema: Mapping[str, Any] | None
) -> str:
    """Say what the user says, one after the other, in one conversation; the last reply.  Raises `CallError`."""
    said: list[Message] = []
    text = ""
    for message in messages:
        said.append(message)
        if message.role == "user":
            text = (await model.ask(Request(subject, tuple(said), schema))).text
            if not text.strip():
                break  # there is nothing to go on from: what was not answered is not parsed
            said.append(Message("assistant", text))
    return text
