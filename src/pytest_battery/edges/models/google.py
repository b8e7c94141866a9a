"""Google's generateContent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from pytest_battery.edges.models.answers import (
    answered,
    cached,
    count,
    error_in,
    event_object,
    items,
    merged,
    no_choices,
    not_the_api,
    part,
    stream_cut,
    text_of,
    usage_of,
)
from pytest_battery.edges.models.apis import Answer, StreamReading, Wire
from pytest_battery.values.calls import Request, StopReason
from pytest_battery.values.usage import Usage

__all__ = ["Google"]

_FIXED = frozenset({"contents", "systemInstruction"})
_STOPS: Mapping[str, StopReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    "SAFETY": "filtered",
    "RECITATION": "filtered",
    "BLOCKLIST": "filtered",
    "PROHIBITED_CONTENT": "filtered",
    "SPII": "filtered",
    "ESCALATION": "filtered",
    "IMAGE_SAFETY": "filtered",
    "IMAGE_PROHIBITED_CONTENT": "filtered",
    "IMAGE_RECITATION": "filtered",
    "MALFORMED_FUNCTION_CALL": "tool-calls",  # its arguments were no JSON
    "UNEXPECTED_TOOL_CALL": "tool-calls",
    "TOO_MANY_TOOL_CALLS": "tool-calls",
}
_ROLES = {"user": "user", "assistant": "model"}


class Google:
    """``POST v1beta/models/MODEL:generateContent``, with the key in ``x-goog-api-key``."""

    name = "google"

    def wire(self, request: Request, fields: Mapping[str, Any], *, key: str | None, stream: bool) -> Wire:
        system = [message.content for message in request.messages if message.role == "system"]
        body: dict[str, Any] = {
            "contents": [
                {"role": _ROLES[message.role], "parts": [{"text": message.content}]}
                for message in request.messages
                if message.role != "system"
            ]
        }
        if system:
            body["systemInstruction"] = {"parts": [{"text": "\n\n".join(system)}]}
        if request.output_schema is not None:
            schema = {"responseMimeType": "application/json", "responseJsonSchema": dict(request.output_schema)}
            body["generationConfig"] = schema
        verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
        headers = {} if key is None else {"x-goog-api-key": key}
        return Wire(f"v1beta/models/{quote(request.subject.model, '')}:{verb}", headers, merged(body, fields, _FIXED))

    def read(self, document: Any) -> Answer:
        error_in(document)
        if not isinstance(document, Mapping):
            raise not_the_api(document, "candidates")
        reading = _Reading()
        reading.take(document)
        return reading.answer(document)

    def stream(self) -> StreamReading:
        return _Stream()


class _Reading:
    """One response, or several that follow one another."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.finish: Any = None
        self._calls = False
        self._usage: Any = None
        self._model: Any = None
        self._blocked: Any = None
        self._candidates = 0

    def take(self, document: Mapping[str, Any]) -> None:
        self._usage = document.get("usageMetadata") or self._usage
        self._model = document.get("modelVersion") or self._model
        self._blocked = part(document, "promptFeedback", "blockReason") or self._blocked
        for candidate in items(document.get("candidates"))[:1]:
            self._candidates += isinstance(candidate, Mapping)
            self.finish = part(candidate, "finishReason") or self.finish
            for one in items(part(candidate, "content", "parts")):
                if part(one, "thought") is not True:
                    self.pieces.append(text_of(part(one, "text")))
                self._calls = self._calls or bool(part(one, "functionCall"))

    def answer(self, document: Any) -> Answer:
        if not self._candidates:
            if self._blocked:
                return answered("", "filtered", _usage(self._usage), self._model)
            if isinstance(document, Mapping) and "usageMetadata" not in document and "candidates" not in document:
                raise not_the_api(document, "candidates")
            raise no_choices(document, "candidates")
        stop: StopReason = _STOPS.get(self.finish, "other") if isinstance(self.finish, str) else "other"
        if stop == "stop" and self._calls:
            stop = "tool-calls"
        return answered("".join(self.pieces), stop, _usage(self._usage), self._model)


class _Stream:
    """Every event is a response; the one with a finish reason is the last that says anything."""

    def __init__(self) -> None:
        self._reading = _Reading()
        self._blocked = False

    @property
    def ended(self) -> bool:
        return False  # there is no marker: usage may follow the finish reason, so the end is the end of the stream

    def feed(self, event: str | None, data: str) -> None:
        found = event_object(data)
        self._blocked = self._blocked or bool(part(found, "promptFeedback", "blockReason"))
        self._reading.take(found)

    def answer(self) -> Answer:
        if self._reading.finish is None and not self._blocked:
            raise stream_cut(len("".join(self._reading.pieces)))
        return self._reading.answer(None)


def _usage(usage: Any) -> Usage:
    """``promptTokenCount`` contains the cached ones; thoughts stand beside the candidates' tokens, and are output."""
    written = [part(usage, f"{name}TokenCount") for name in ("candidates", "thoughts")]
    counts = [count(value) for value in written if value is not None]  # a count that is 0 is left out
    known = [number for number in counts if number is not None]
    return usage_of(
        count(part(usage, "promptTokenCount")),
        sum(known) if counts and len(known) == len(counts) else None,
        cache_read=cached(part(usage, "cachedContentTokenCount")),
        reasoning=count(written[1]),
    )
