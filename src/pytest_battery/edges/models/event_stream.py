"""A chat completion that came in pieces, put together."""

from __future__ import annotations

import json
from typing import Any

from pytest_battery.errors import CallError

__all__ = ["joined_completion"]


def joined_completion(stream: str) -> dict[str, Any]:
    """The completion that the server-sent events in *stream* amount to, in the shape of one that came whole.

    Raises `CallError` for an event that is an error (``error-body``) or no JSON (``not-json``), and for a stream
    that ends before its end marker (``stream-cut``).
    """
    whole: dict[str, Any] = {"object": "chat.completion", "choices": []}
    pieces: list[str] = []
    ended = False
    # Not splitlines(): characters that it takes for the end of a line stand in JSON texts as they are.
    for line in stream.split("\n"):
        if not line.startswith("data:"):  # blank, or a comment that keeps the connection alive
            continue
        text = line.removeprefix("data:").strip()
        if text == "[DONE]":
            ended = True
            break
        event = _event(text)
        for name in ("id", "model", "created", "system_fingerprint", "usage", "timings"):
            if event.get(name) is not None:
                whole[name] = event[name]
        choices = event.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            continue
        if not whole["choices"]:
            whole["choices"] = [{"index": 0, "message": {"role": "assistant", "content": None}, "finish_reason": None}]
        delta = choices[0].get("delta")
        if isinstance(delta, dict) and isinstance(delta.get("content"), str):
            pieces.append(delta["content"])
        if choices[0].get("finish_reason") is not None:
            whole["choices"][0]["finish_reason"] = choices[0]["finish_reason"]
    if not ended:
        raise CallError("stream-cut", "infrastructure", f"the answer broke off after {len(''.join(pieces))} characters")
    if pieces:
        whole["choices"][0]["message"]["content"] = "".join(pieces)
    return whole


def _event(text: str) -> dict[str, Any]:
    try:
        event = json.loads(text)
    except ValueError as error:
        raise CallError("not-json", "infrastructure", f"an event of the answer is no JSON: {text[:200]!r}") from error
    if not isinstance(event, dict):
        raise CallError("not-json", "infrastructure", f"an event of the answer is no object: {text[:200]!r}")
    if event.get("error") is not None:
        raise CallError("error-body", "infrastructure", f"the answer broke off with an error: {text[:500]}")
    return event
