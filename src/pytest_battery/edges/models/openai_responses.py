"""OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_battery.edges.models.answers import (
    answered,
    cached,
    count,
    error_in,
    event_object,
    items,
    merged,
    not_the_api,
    part,
    shown,
    stream_cut,
    text_of,
    usage_of,
)
from pytest_battery.edges.models.apis import Answer, StreamReading, Wire
from pytest_battery.errors import CallError
from pytest_battery.values.calls import Request, StopReason
from pytest_battery.values.usage import Usage

__all__ = ["OpenAIResponses"]

_FIXED = frozenset({"model", "input", "instructions", "stream", "store"})
_LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})


class OpenAIResponses:
    """``POST responses``; nothing is stored at the provider."""

    name = "openai-responses"

    def wire(self, request: Request, fields: Mapping[str, Any], *, key: str | None, stream: bool) -> Wire:
        system = [message.content for message in request.messages if message.role == "system"]
        body: dict[str, Any] = {
            "model": request.subject.model,
            "input": [
                {"role": message.role, "content": message.content}
                for message in request.messages
                if message.role != "system"
            ],
            "store": False,
        }
        if system:
            body["instructions"] = "\n\n".join(system)
        if request.output_schema is not None:
            schema = {"type": "json_schema", "name": "answer", "strict": True, "schema": dict(request.output_schema)}
            body["text"] = {"format": schema}
        if stream:
            body["stream"] = True
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return Wire("responses", headers, merged(body, fields, _FIXED))

    def read(self, document: Any) -> Answer:
        error_in(document)
        if not isinstance(document, Mapping) or not isinstance(document.get("output"), list):
            raise not_the_api(document, "output")
        if document.get("status") not in ("completed", "incomplete", None):
            status = shown(document["status"])
            raise CallError("error-body", "infrastructure", f"the response is {status}, which is no answer")
        parts = [
            one
            for item in document["output"]
            if part(item, "type") == "message"
            for one in items(part(item, "content"))
            if isinstance(one, Mapping)
        ]
        text = "".join(text_of(one.get("text")) for one in parts if one.get("type") == "output_text")
        refusal = "".join(text_of(one.get("refusal")) for one in parts if one.get("type") == "refusal")
        calls = any(part(item, "type") == "function_call" for item in document["output"])
        stop = _stop(document, refusal, calls)
        return answered(text or refusal, stop, _usage(document.get("usage")), document.get("model"))

    def stream(self) -> StreamReading:
        return _Stream(self)


class _Stream:
    """The last event carries the whole response."""

    def __init__(self, api: OpenAIResponses) -> None:
        self._api = api
        self._characters = 0
        self._whole: Any = None
        self.ended = False

    def feed(self, event: str | None, data: str) -> None:
        if data.strip() == "[DONE]":
            return
        found = event_object(data)
        kind = text_of(found.get("type")) or event
        if kind == "error":
            raise CallError("error-body", "infrastructure", f"the answer broke off with an error: {data[:500]}")
        if kind == "response.output_text.delta":
            self._characters += len(text_of(found.get("delta")))
        if kind in _LAST:
            self._whole, self.ended = found.get("response"), True

    def answer(self) -> Answer:
        if not self.ended:
            raise stream_cut(self._characters)
        return self._api.read(self._whole)


def _stop(document: Mapping[str, Any], refusal: str, calls: bool) -> StopReason:
    if refusal:
        return "refusal"
    if document.get("status") == "incomplete":
        reasons: Mapping[Any, StopReason] = {"max_output_tokens": "length", "content_filter": "filtered"}
        reason = part(document, "incomplete_details", "reason")
        return reasons.get(reason, "other") if isinstance(reason, str) else "other"
    return "tool-calls" if calls else "stop"


def _usage(usage: Any) -> Usage:
    """``input_tokens`` contains the cached ones, ``output_tokens`` the reasoning."""
    return usage_of(
        count(part(usage, "input_tokens")),
        count(part(usage, "output_tokens")),
        cache_read=cached(part(usage, "input_tokens_details", "cached_tokens")),
        cache_write=cached(part(usage, "input_tokens_details", "cache_write_tokens")),
        reasoning=count(part(usage, "output_tokens_details", "reasoning_tokens")),
    )
