"""A model that answers from what was recorded: no provider, no socket, no cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_battery.doing.artifacts import Artifact
from pytest_battery.doing.recording import RecordingModel
from pytest_battery.errors import CallError
from pytest_battery.values.calls import Reply, Request
from pytest_battery.values.differences import first_difference
from pytest_battery.values.subjects import Subject

__all__ = ["ReplayingModel", "recorded"]


def recorded(documents: Sequence[Mapping[str, Any]] | None, where: str) -> tuple[Artifact, ...]:
    """The calls of one run, in order.  Raises `CallError` (``not-recorded``) where there are none that can be read."""
    if documents is None:
        raise CallError(
            "not-recorded",
            "task",
            f"{where}: no evidence of this run is here (or it is another measurement's); measure it live",
        )
    try:
        return tuple(map(Artifact.from_json, documents))
    except (KeyError, TypeError, ValueError) as error:
        raise CallError(
            "not-recorded", "task", f"{where}: its evidence cannot be read: {type(error).__name__}: {error}"
        ) from None


class ReplayingModel(RecordingModel):
    """Finds each call by what it asks and how often that was asked before in this run: repeats never share an answer."""

    def __init__(
        self,
        calls: Sequence[Artifact],
        where: str,
        subject: Subject,
        output_schema: Mapping[str, Any] | None = None,
    ) -> None:
        """*calls* are those of the run that is replayed; *where* names it in errors."""
        super().__init__(None, subject, output_schema)
        self._calls, self._where = calls, where
        self._asked: Counter[str] = Counter()

    async def ask(self, request: Request) -> Reply:
        key = request.hash()
        same = [call for call in self._calls if call.request.hash() == key]
        occurrence = self._asked[key]
        self._asked[key] += 1
        if occurrence >= len(same):
            raise self._miss(request, len(same))
        call = same[occurrence]
        self.artifacts.append(call)
        if call.reply is None:
            kind, _, message = (call.error or "no reply").partition(": ")
            raise CallError(kind, "infrastructure", message or kind)
        return call.reply

    def _miss(self, request: Request, same: int) -> CallError:
        number = len(self.artifacts) + 1
        if same:
            what = f"this was asked {same} time{'' if same == 1 else 's'}, and is asked once more"
        elif not self._calls:
            what = "no call was recorded"
        else:
            near = self._calls[min(number, len(self._calls)) - 1].request
            what = first_difference(_whole(near), _whole(request)) or "another subject was asked"
        return CallError("not-recorded", "task", f"{self._where}: call {number} is not in its recording: {what}")


def _whole(request: Request) -> dict[str, Any]:
    return {"subject": request.subject.key, **request.content()}
