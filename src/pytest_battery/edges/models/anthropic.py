"""Anthropic's Messages, at Anthropic and at Google's Vertex AI."""

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
    not_the_api,
    output_of,
    part,
    stream_cut,
    text_of,
)
from pytest_battery.edges.models.apis import Answer, StreamReading, Wire
from pytest_battery.errors import CallError
from pytest_battery.values.calls import Request, StopReason
from pytest_battery.values.usage import Usage

__all__ = ["Anthropic", "VertexAnthropic"]

_VERSION = "2023-06-01"
_FIXED = frozenset({"model", "messages", "system", "stream", "anthropic_version"})
_STOPS: Mapping[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool-calls",
    "refusal": "refusal",
}


class Anthropic:
    """``POST v1/messages``, with the key in ``x-api-key``."""

    name = "anthropic"

    def wire(self, request: Request, fields: Mapping[str, Any], *, key: str | None, stream: bool) -> Wire:
        body = merged({"model": request.subject.model, **_asked(request, stream)}, fields, _FIXED)
        headers = {"anthropic-version": _VERSION} | ({} if key is None else {"x-api-key": key})
        return Wire("v1/messages", headers, body)

    def read(self, document: Any) -> Answer:
        if part(document, "type") == "error":
            error_in(document)
            raise CallError("error-body", "infrastructure", "the answer is an error that says nothing more")
        error_in(document)
        content = part(document, "content")
        if not isinstance(document, Mapping) or not (
            isinstance(content, list) or (content is None and document.get("type") == "message")
        ):
            raise not_the_api(document, "content")
        text = "".join(text_of(part(one, "text")) for one in items(content) if part(one, "type") == "text")
        return answered(text, _stop(document.get("stop_reason")), _usage(document.get("usage")), document.get("model"))

    def stream(self) -> StreamReading:
        return _Stream()


class VertexAnthropic(Anthropic):
    """The same at Vertex AI: the model is in the path, the token a bearer's."""

    def __init__(self, project: str, location: str) -> None:
        self._project, self._location = project, location

    def wire(self, request: Request, fields: Mapping[str, Any], *, key: str | None, stream: bool) -> Wire:
        body = merged({"anthropic_version": "vertex-2023-10-16", **_asked(request, stream)}, fields, _FIXED)
        verb = "streamRawPredict" if stream else "rawPredict"
        place = f"projects/{quote(self._project, '')}/locations/{quote(self._location, '')}"
        path = f"v1/{place}/publishers/anthropic/models/{quote(request.subject.model, '@')}:{verb}"
        return Wire(path, {} if key is None else {"authorization": f"Bearer {key}"}, body)


def _asked(request: Request, stream: bool) -> dict[str, Any]:
    system = [message.content for message in request.messages if message.role == "system"]
    body: dict[str, Any] = {
        "messages": [
            {"role": message.role, "content": message.content}
            for message in request.messages
            if message.role != "system"
        ]
    }
    if system:
        body["system"] = "\n\n".join(system)
    if request.output_schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": dict(request.output_schema)}}
    if stream:
        body["stream"] = True
    return body


class _Stream:
    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._usage: dict[str, Any] = {}
        self._stop: Any = None
        self._model: Any = None
        self.ended = False

    def feed(self, event: str | None, data: str) -> None:
        found = event_object(data)
        kind = found.get("type") or event
        if kind == "error":
            raise CallError("error-body", "infrastructure", f"the answer broke off with an error: {data[:500]}")
        if kind == "message_start":
            message = found.get("message")
            self._model = part(message, "model")
            self._take_usage(part(message, "usage"))
            self._usage.pop("output_tokens", None)  # what was written before the answer began
        elif kind == "content_block_start":
            self._pieces.append(text_of(part(found, "content_block", "text")))
        elif kind == "content_block_delta" and part(found, "delta", "type") == "text_delta":
            self._pieces.append(text_of(part(found, "delta", "text")))
        elif kind == "message_delta":
            self._stop = part(found, "delta", "stop_reason") or self._stop
            self._take_usage(found.get("usage"))
        elif kind == "message_stop":
            self.ended = True

    def _take_usage(self, usage: Any) -> None:
        """Counts are cumulative: a later one replaces an earlier one, and is never added to it."""
        for name, value in usage.items() if isinstance(usage, Mapping) else ():
            if value is not None:
                self._usage[name] = value

    def answer(self) -> Answer:
        text = "".join(self._pieces)
        if not self.ended:
            raise stream_cut(len(text))
        return answered(text, _stop(self._stop), _usage(self._usage), self._model)


def _stop(reason: Any) -> StopReason:
    return _STOPS.get(reason, "other") if isinstance(reason, str) else "other"


def _usage(usage: Any) -> Usage:
    """``input_tokens`` is what neither came from the cache nor went into it."""
    known = count(part(usage, "input_tokens"))
    read, written = (cached(part(usage, f"cache_{name}_input_tokens")) for name in ("read", "creation"))
    reasoning = count(part(usage, "output_tokens_details", "thinking_tokens"))
    return Usage(
        input=known,
        cache_read=read if known is not None else read or None,
        cache_write=written if known is not None else written or None,
        output=output_of(count(part(usage, "output_tokens")), reasoning),
        reasoning=reasoning,
    )
