"""A call that an agent made through the relay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, get_args

from pytest_battery.errors import Fault
from pytest_battery.values.calls import Reply, StopReason
from pytest_battery.values.subjects import Subject, parse_subject
from pytest_battery.values.usage import Cost, Usage

__all__ = ["RelayedCall"]


@dataclass(frozen=True, slots=True)
class RelayedCall:
    """One call, numbered from 1 in the order in which the agent made them; a retry of the agent's is a call of its own.

    ``asked_model`` is the model that the agent named, and *helper* says that this is not the one it was set to.
    ``envelope`` is the request as it went out: ``method``, ``url``, ``headers`` without credentials, ``body``.
    ``status``, ``headers`` and ``response`` are what the agent was answered, the last as a JSON document, as
    ``{"stream": [[event or null, data], ...]}`` or as ``{"text": ...}``; ``whole`` is False where the answer broke off.
    ``kind``, ``fault`` and ``message`` say why it is no answer, and are None where it is one.
    """

    number: int
    api: str
    subject: Subject
    request_hash: str
    started: datetime
    envelope: Mapping[str, Any]
    asked_model: str | None = None
    helper: bool = False
    observed: Mapping[str, Any] = field(default_factory=dict)
    wall_ms: int = 0
    first_byte_ms: int | None = None
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    response: Any = None
    whole: bool = True
    text: str = ""
    stop_reason: StopReason = "other"
    usage: Usage = field(default_factory=Usage)
    cost: Cost = field(default_factory=Cost)
    model: str | None = None
    kind: str | None = None
    fault: Fault | None = None
    message: str | None = None

    @property
    def answered(self) -> bool:
        return self.kind is None

    @property
    def reply(self) -> Reply | None:
        """What the model answered, as any other call has it; None where it didn't."""
        if not self.answered:
            return None
        return Reply(
            text=self.text,
            stop_reason=self.stop_reason,
            usage=self.usage,
            cost=self.cost,
            model=self.model,
            observed=self.observed,
            envelope=self.envelope,
            raw=self.response,
            status=self.status,
            headers=self.headers,
            attempts=({"status": self.status, "error": None, "message": None, "waited_s": 0, "wall_ms": self.wall_ms},),
        )

    def as_json(self) -> dict[str, Any]:
        """A line of ``calls.jsonl``: the fields of any call, and under ``relay`` those that only this one has."""
        known, reply = self.answered, self.reply
        return {
            "request_hash": self.request_hash,
            "subject": self.subject.key,
            "envelope": dict(self.envelope),
            "response": self.response,
            "text": self.text if known else None,
            "stop_reason": self.stop_reason if known else None,
            "usage": self.usage.model_dump() if known else None,
            "cost": self.cost.model_dump(),
            "model": self.model,
            "observed": dict(self.observed),
            "attempts": list(reply.attempts) if reply else [],
            "status": self.status,
            "headers": dict(self.headers),
            "error": None if known else f"{self.kind}: {self.message}",
            "started": self.started.isoformat(),
            "wall_ms": self.wall_ms,
            "relay": {
                "number": self.number,
                "api": self.api,
                "asked_model": self.asked_model,
                "helper": self.helper,
                "first_byte_ms": self.first_byte_ms,
                "whole": self.whole,
                "kind": self.kind,
                "fault": self.fault,
            },
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RelayedCall:
        """Raises KeyError, TypeError or ValueError for what was not written by `as_json`."""
        own = document["relay"]
        kind, fault = own["kind"], own["fault"]
        if fault is not None and fault not in get_args(Fault):
            raise ValueError(f"no fault is called {fault!r}")
        said = document["error"]
        known = kind is None
        return cls(
            number=own["number"],
            api=own["api"],
            subject=parse_subject(document["subject"]),
            request_hash=document["request_hash"],
            started=datetime.fromisoformat(document["started"]),
            envelope=document["envelope"],
            asked_model=own["asked_model"],
            helper=own["helper"],
            observed=document["observed"],
            wall_ms=document["wall_ms"],
            first_byte_ms=own["first_byte_ms"],
            status=document["status"],
            headers=document["headers"],
            response=document["response"],
            whole=own["whole"],
            text=document["text"] if known else "",
            stop_reason=document["stop_reason"] if known else "other",
            usage=Usage.model_validate(document["usage"] or {}),
            cost=Cost.model_validate(document["cost"]),
            model=document["model"],
            kind=kind,
            fault=fault,
            message=None if known else str(said).removeprefix(f"{kind}: "),
        )
