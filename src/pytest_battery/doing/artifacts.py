"""One call of a model, as the evidence keeps it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pytest_battery.values.calls import Message, Reply, Request
from pytest_battery.values.relayed import RelayedCall
from pytest_battery.values.subjects import parse_subject
from pytest_battery.values.usage import Cost, Usage

__all__ = ["Artifact", "RelayedArtifact", "plain"]


@dataclass(frozen=True, slots=True)
class Artifact:
    """What was asked, what came back (None where nothing did), and how long it took."""

    request: Request
    reply: Reply | None
    error: str | None
    started: datetime
    wall_ms: int

    def as_json(self) -> dict[str, Any]:
        """Plain values, for ``calls.jsonl``; `from_json` reads them."""
        reply = self.reply
        return {
            "request_hash": self.request.hash(),
            "subject": self.request.subject.key,
            "request": self.request.content(),
            "envelope": plain(reply.envelope) if reply else None,
            "response": plain(reply.raw) if reply else None,
            "text": reply.text if reply else None,
            "stop_reason": reply.stop_reason if reply else None,
            "usage": reply.usage.model_dump() if reply else None,
            "cost": reply.cost.model_dump() if reply else None,
            "model": reply.model if reply else None,
            "observed": plain(reply.observed) if reply else None,
            "attempts": plain(list(reply.attempts)) if reply else [],
            "status": reply.status if reply else None,
            "headers": plain(reply.headers) if reply else {},
            "error": self.error,
            "started": self.started.isoformat(),
            "wall_ms": self.wall_ms,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Artifact:
        """Raises KeyError, TypeError or ValueError for what was not written by `as_json`."""
        content = document["request"]
        request = Request(
            parse_subject(document["subject"]),
            tuple(Message(message["role"], message["content"]) for message in content["messages"]),
            content["output_schema"],
        )
        reply = None
        if document["text"] is not None:
            reply = Reply(
                text=document["text"],
                stop_reason=document["stop_reason"],
                usage=Usage.model_validate(document.get("usage") or {}),
                cost=Cost.model_validate(document.get("cost") or {}),
                model=document.get("model"),
                observed=document.get("observed") or {},
                envelope=document.get("envelope") or {},
                raw=document.get("response"),
                status=document.get("status"),
                headers=document.get("headers") or {},
                attempts=tuple(document.get("attempts") or ()),
            )
        started = datetime.fromisoformat(document["started"])
        return cls(request, reply, document["error"], started, document["wall_ms"])


@dataclass(frozen=True, slots=True)
class RelayedArtifact:
    """A call through the relay, as the other calls of a run are kept."""

    call: RelayedCall

    @property
    def request(self) -> Request:
        return Request(self.call.subject, ())

    @property
    def reply(self) -> Reply | None:
        return self.call.reply

    @property
    def error(self) -> str | None:
        return None if self.call.answered else f"{self.call.kind}: {self.call.message}"

    def as_json(self) -> dict[str, Any]:
        return self.call.as_json()


_PLAIN = frozenset({str, int, bool, type(None)})


def plain(value: Any) -> Any:
    """*value* as JSON can say it; what it cannot say is named, so that nothing odd in a response loses the answer."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict:  # what nearly all of it is: to ask an abstract class costs ten times as much
        return {key if type(key) is str else str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return f"<{type(value).__name__}>"
