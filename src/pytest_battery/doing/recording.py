"""The model a run talks to: asks its provider and keeps every call."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pytest_battery.doing.artifacts import Artifact, RelayedArtifact
from pytest_battery.edges.models.client import Provider
from pytest_battery.edges.models.providers import ProviderConfig
from pytest_battery.errors import CallError
from pytest_battery.values.calls import Message, Reply, Request
from pytest_battery.values.subjects import Subject

__all__ = ["RecordedCalls", "RecordingModel"]


@dataclass(frozen=True, slots=True)
class RecordedCalls:
    """What an agent was answered in the run that is replayed: lines of ``calls.jsonl``, and the provider it asked."""

    config: ProviderConfig
    documents: Sequence[Mapping[str, Any]]


class RecordingModel:
    """``await model.complete("...")`` asks the run's subject, with its knobs.  What a Python test is given.

    ``usd_left`` is what a budget has left when the run begins, None without one: an agent is ended there, for nobody can tell
    beforehand how often it will ask.  ``files`` are what the run leaves besides, for its evidence; ``ended`` is how an agent's run ended, where the model's last
    reply does not tell.
    """

    def __init__(
        self, provider: Provider | None, subject: Subject, output_schema: Mapping[str, Any] | None = None
    ) -> None:
        self._provider, self.subject, self._schema = provider, subject, output_schema
        self.artifacts: list[Artifact | RelayedArtifact] = []
        self.recorded: RecordedCalls | None = None
        self.usd_left: float | None = None
        self.files: dict[str, bytes] = {}
        self.ended: str | None = None

    @property
    def provider(self) -> Provider | None:
        """Who is asked; None where nobody is, in a replay."""
        return self._provider

    @property
    def stop_reason(self) -> str:
        """How the last reply ended."""
        if self.ended is not None:
            return self.ended
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
            assert self._provider is not None, "whoever has no provider answers in another way"
            reply = await self._provider.complete(request)
            error = None
            return reply
        except CallError as failure:
            error = f"{failure.kind}: {failure}"
            raise
        finally:
            wall = max(0, round((time.monotonic() - clock) * 1000))
            self.artifacts.append(Artifact(request, reply, error, started, wall))
