"""OpenAI's chat completions, and everybody who speaks them."""

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
    no_choices,
    not_the_api,
    part,
    stream_cut,
    text_of,
    usage_of,
)
from pytest_battery.edges.models.apis import Answer, StreamReading, Wire
from pytest_battery.errors import CallError
from pytest_battery.values.calls import Request, StopReason
from pytest_battery.values.usage import Usage

__all__ = ["OpenAIChat"]

_FIXED = frozenset({"model", "messages", "stream", "stream_options", "response_format"})
_STOPS: Mapping[str, StopReason] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "filtered",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
}


class OpenAIChat:
    """``POST chat/completions``, with the key as a bearer token."""

    name = "openai-chat"

    def wire(self, request: Request, fields: Mapping[str, Any], *, key: str | None, stream: bool) -> Wire:
        body: dict[str, Any] = {
            "model": request.subject.model,
            "messages": [{"role": message.role, "content": message.content} for message in request.messages],
        }
        if request.output_schema is not None:
            schema = {"name": "answer", "strict": True, "schema": dict(request.output_schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return Wire("chat/completions", headers, merged(body, fields, _FIXED))

    def read(self, document: Any) -> Answer:
        error_in(document)
        if not isinstance(document, Mapping):
            raise not_the_api(document, "choices")
        choices = items(document.get("choices"))
        if not choices or not isinstance(choices[0], Mapping):
            raise no_choices(document, "choices")
        error_in(choices[0])
        message = choices[0].get("message", ...)
        if not isinstance(message, Mapping | None):
            raise not_the_api(document, "message")
        text = _content(part(message, "content"))
        refusal = text_of(part(message, "refusal"))
        stop = _stop(choices[0].get("finish_reason"), refusal, part(message, "tool_calls"))
        return answered(text or refusal, stop, _usage(document.get("usage")), document.get("model"))

    def stream(self) -> StreamReading:
        return _Stream()


class _Stream:
    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._refusal: list[str] = []
        self._finish: Any = None
        self._tools = self._chosen = False
        self._usage: Any = None
        self._model: Any = None
        self.ended = False

    def feed(self, event: str | None, data: str) -> None:
        if data.strip() == "[DONE]":
            self.ended = True
            return
        found = event_object(data)
        self._model = found.get("model") or self._model
        self._usage = found.get("usage") or self._usage
        for choice in items(found.get("choices"))[:1]:  # the last event of all has none, and the usage
            error_in(choice)
            self._chosen = self._chosen or isinstance(choice, Mapping)
            delta = part(choice, "delta")
            self._pieces.append(_content(part(delta, "content")))
            self._refusal.append(text_of(part(delta, "refusal")))
            self._tools = self._tools or bool(part(delta, "tool_calls"))
            self._finish = part(choice, "finish_reason") or self._finish

    def answer(self) -> Answer:
        text, refusal = "".join(self._pieces), "".join(self._refusal)
        if not self.ended and self._finish is None:  # servers there are that end without a marker
            raise stream_cut(len(text))
        if not self._chosen:
            raise no_choices([], "choices")
        stop = _stop(self._finish, refusal, self._tools)
        return answered(text or refusal, stop, _usage(self._usage), self._model)


def _content(value: Any) -> str:
    """The text of a message, whether it came whole or in parts; parts of another type are reasoning, and no answer.

    Raises `CallError` (``not-the-api``) for what is neither text nor parts.
    """
    if isinstance(value, list):
        return "".join(text_of(part(one, "text")) for one in value if part(one, "type") == "text")
    if not isinstance(value, str | None):
        raise not_the_api(value, "text as its content")
    return value or ""


def _stop(finish: Any, refusal: str, tools: Any) -> StopReason:
    if finish == "error":  # a gateway's word for a provider of its own that failed
        raise CallError("error-body", "infrastructure", "the answer ended with the finish reason 'error'")
    if refusal:
        return "refusal"
    stop = _STOPS.get(finish, "other") if isinstance(finish, str) else "other"
    return "tool-calls" if stop == "stop" and tools else stop


def _usage(usage: Any) -> Usage:
    """``prompt_tokens`` contains the cached ones, ``completion_tokens`` the reasoning.

    There are servers (xAI's) whose reasoning stands beside the completion; ``total_tokens`` tells which it is.
    """
    prompt, completion, total = (count(part(usage, f"{name}_tokens")) for name in ("prompt", "completion", "total"))
    reasoning = count(part(usage, "completion_tokens_details", "reasoning_tokens"))
    if prompt is not None and completion is not None and reasoning and total == prompt + completion + reasoning:
        completion += reasoning
    return usage_of(
        prompt,
        completion,
        cache_read=cached(part(usage, "prompt_tokens_details", "cached_tokens")),
        cache_write=cached(part(usage, "prompt_tokens_details", "cache_write_tokens")),
        reasoning=reasoning,
    )
