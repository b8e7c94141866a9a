"""A call of a model: what is asked, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_battery.values.canonical import digest
from pytest_battery.values.subjects import Subject
from pytest_battery.values.usage import Cost, Usage

__all__ = ["Message", "Reply", "Request", "StopReason"]

StopReason = Literal["stop", "length", "refusal", "filtered", "empty", "tool-calls", "other"]
"""How a reply ended.  All of them are results; only ``stop`` is a whole answer."""


@dataclass(frozen=True, slots=True)
class Message:
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Request:
    """One call: the subject, the conversation so far, and the JSON Schema the reply should follow, if any."""

    subject: Subject
    messages: tuple[Message, ...]
    output_schema: Mapping[str, Any] | None = None

    def content(self) -> dict[str, Any]:
        """What is asked, without whom: plain values, for fingerprints and evidence."""
        return {
            "messages": [{"role": message.role, "content": message.content} for message in self.messages],
            "output_schema": None if self.output_schema is None else dict(self.output_schema),
        }

    def hash(self) -> str:
        """Identity of the call: model, messages and parameters."""
        return digest({"subject": self.subject.key, **self.content()})


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered.

    ``observed`` maps knobs to the values that really went over the wire; ``raw`` is the provider's response and
    ``envelope`` the request as sent, both plain JSON for the evidence; ``headers`` are those worth keeping.
    """

    text: str
    stop_reason: StopReason = "stop"
    usage: Usage = field(default_factory=Usage)
    cost: Cost = field(default_factory=Cost)
    model: str | None = None
    observed: Mapping[str, Any] = field(default_factory=dict)
    envelope: Mapping[str, Any] = field(default_factory=dict)
    raw: Any = None
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    attempts: Sequence[Mapping[str, Any]] = ()
