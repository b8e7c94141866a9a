"""What an HTTP API of models is to the transport: how a request is written, and how what comes back is read.

An API does no I/O.  The transport sends `Wire`, hands back what came, and an API says what it means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pytest_battery.values.calls import Request, StopReason
from pytest_battery.values.usage import Usage

__all__ = ["Answer", "Api", "StreamReading", "Wire"]


@dataclass(frozen=True, slots=True)
class Wire:
    """One HTTP request: *path* is relative to the provider's base URL, query string and all; *body* becomes JSON."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a response says.  ``usage`` has unknown parts where the provider did not report them; ``model`` is the id
    that the provider says answered."""

    text: str
    stop_reason: StopReason
    usage: Usage = field(default_factory=Usage)
    model: str | None = None


class StreamReading(Protocol):
    """Reads one streamed answer, event by event."""

    def feed(self, event: str | None, data: str) -> None:
        """Take in one server-sent event; one without data says nothing.

        Raises `CallError`: ``not-json``, ``error-body`` (an error inside a stream), ``not-the-api``.
        """
        ...

    @property
    def ended(self) -> bool:
        """Whether the end marker of the API has come: what follows it is not waited for."""
        ...

    def answer(self) -> Answer:
        """What all events amount to.  Raises `CallError`: ``stream-cut`` where the end marker never came, and all that
        `Api.read` raises."""
        ...


class Api(Protocol):
    """One vendor's way of asking.  Objects are stateless and shared."""

    name: str
    """``openai-chat``, ``openai-responses``, ``anthropic`` or ``google``."""

    def wire(self, request: Request, fields: Mapping[str, Any], *, key: str | None, stream: bool) -> Wire:
        """The request for *request*; *fields* are the knobs' own fields, nested as on the wire and merged into the body.

        *key* is the credential, which goes into the header the vendor wants.  Raises `ProviderError` for what the API
        cannot carry (such as an output schema, where it has no field for one).
        """
        ...

    def read(self, document: Any) -> Answer:
        """What the JSON of a whole, 200 response says.

        Raises `CallError`: ``error-body`` for an error in a 200 body, ``no-choices`` where the list of answers is null,
        missing or empty, ``not-the-api`` for a body of another shape.
        """
        ...

    def stream(self) -> StreamReading:
        """A reader for one streamed answer."""
        ...
