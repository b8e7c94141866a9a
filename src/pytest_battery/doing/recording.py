"""The model a run talks to: asks its provider and keeps every call."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pytest_battery.edges.models.client import Provider
from pytest_battery.errors import CallError
from pytest_battery.values.calls import Message, Reply, Request
from pytest_battery.values.subjects import Subject

__all__ = ["Artifact", "RecordingModel", "plain"]


@dataclass(frozen=True, slots=True)
class Artifact:
    """One call: what was asked, what came back (None where nothing did), and how long it took."""

    request: Request
    reply: Reply | None
    error: str | None
    started: datetime
    wall_ms: int

    def as_json(self) -> dict[str, Any]:
        """Plain values, for ``calls.jsonl``."""
        reply = self.reply
        return {
            "request_hash": self.request.hash(),
            "subject": self.request.subject.key,
            "request": self.request.content(),
            "envelope": plain(reply.envelope) if reply else None,
            "response": plain(reply.raw) if reply else None,
            "text": reply.text if reply else None,
            "stop_reason": reply.stop_reason if reply else None,
            "status": reply.status if reply else None,
            "headers": plain(reply.headers) if reply else {},
            "error": self.error,
            "started": self.started.isoformat(),
            "wall_ms": self.wall_ms,
        }


def plain(value: Any) -> Any:
    """*value* as JSON can say it; what it cannot say is named, so that nothing odd in a response loses the answer."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return f"<{type(value).__name__}>"


class RecordingModel:
    """``await model.complete("...")`` asks the run's subject, with its knobs.  What a Python test is given."""

    def __init__(self, provider: Provider, subject: Subject, output_schema: Mapping[str, Any] | None = None) -> None:
        self._provider, self.subject, self._schema = provider, subject, output_schema
        self.artifacts: list[Artifact] = []

    @property
    def stop_reason(self) -> str:
        """How the last reply ended."""
        replies = [artifact.reply for artifact in self.artifacts if artifact.reply is not None]
        return replies[-1].stop_reason if replies else "other"

    async def complete(
        self,
        prompt: str | Sequence[Message],
        *,
        system: str | None = None,
        output_schema: Mapping[str, Any] | None = None,
    ) -> Reply:
        """Ask once: a text, or the conversation so far.  Raises `CallError` where no reply came."""
        messages = [Message("user", prompt)] if isinstance(prompt, str) else list(prompt)
        if system is not None:
            messages.insert(0, Message("system", system))
        return await self.ask(Request(self.subject, tuple(messages), output_schema or self._schema))

    async def ask(self, request: Request) -> Reply:
        started, clock = datetime.now(UTC), time.monotonic()
        reply: Reply | None = None
        error: str | None = "cancelled"
        try:
            reply = await self._provider.complete(request)
            error = None
            return reply
        except CallError as failure:
            error = f"{failure.kind}: {failure}"
            raise
        finally:
            wall = max(0, round((time.monotonic() - clock) * 1000))
            self.artifacts.append(Artifact(request, reply, error, started, wall))
