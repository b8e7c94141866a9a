"""What a local model's server is sent, and what its answers mean."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from pytest_battery.edges.models.event_stream import joined_completion
from pytest_battery.edges.models.weights import LocalModel
from pytest_battery.errors import CallError, Fault, ProviderError
from pytest_battery.values.calls import Reply, Request, StopReason
from pytest_battery.values.subjects import Subject
from pytest_battery.values.usage import Cost, Usage

__all__ = ["KNOBS", "body", "broken", "completion", "knobs", "reply", "status_error", "usage"]

_SEED_MAX = 2**32 - 2  # the next one asks llama.cpp for a random seed

_Read = Callable[[str, LocalModel], "int | float | str | None"]


def _whole(low: int, high: int | None) -> _Read:
    def read(text: str, model: LocalModel) -> int | None:
        number = int(text) if re.fullmatch(r"-?\d+", text) else None
        return number if number is not None and low <= number <= (model.context if high is None else high) else None

    return read


def _number(low: float, high: float, *, above_low: bool = False) -> _Read:
    def read(text: str, model: LocalModel) -> float | int | None:
        try:
            number = float(text)
        except ValueError:
            return None
        if not math.isfinite(number) or not low <= number <= high or (above_low and number == low):
            return None
        return int(number) if number.is_integer() else number

    return read


KNOBS: Mapping[str, tuple[_Read, str]] = {
    "frequency_penalty": (_number(-2, 2), "a number from -2 to 2"),
    "max_tokens": (_whole(1, None), "a whole number from 1 to the {context} tokens of its context"),
    "min_p": (_number(0, 1), "a number from 0 to 1"),
    "presence_penalty": (_number(-2, 2), "a number from -2 to 2"),
    "seed": (_whole(0, _SEED_MAX), f"a whole number from 0 to {_SEED_MAX}"),
    "stop": (lambda text, model: text, "a text"),
    "temperature": (_number(0, 100), "a number from 0 to 100"),
    "top_k": (_whole(0, 1_000_000), "a whole number from 0 (off) to 1000000"),
    "top_p": (_number(0, 1, above_low=True), "a number above 0, up to 1"),
}
"""For each knob how its value is read (None: it cannot be honoured), and what it must be."""

_STOP_REASONS: Mapping[Any, StopReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "content_filter": "filtered",
}


def knobs(subject: Subject, model: LocalModel) -> dict[str, int | float | str]:
    """The subject's knobs as they go over the wire; raises `ProviderError` for one that cannot be honoured."""
    if subject.level is not None:
        raise ProviderError(
            f"{subject}: local models don't think: take the level :{subject.level} away "
            f"(knobs of a local model are {', '.join(KNOBS)})"
        )
    found: dict[str, int | float | str] = {}
    for name, text in subject.knobs:
        if name not in KNOBS:
            raise ProviderError(f"{subject}: a local model has no knob {name}; its knobs are {', '.join(KNOBS)}")
        read, rule = KNOBS[name]
        value = read(text, model)
        if value is None:
            raise ProviderError(f"{subject}: {name} must be {rule.format(context=model.context)}, not {text}")
        found[name] = value
    return found


def body(request: Request, model: LocalModel) -> dict[str, Any]:
    """The body of the request for *request*."""
    found: dict[str, Any] = {
        "model": model.name,
        "messages": [{"role": message.role, "content": message.content} for message in request.messages],
        "cache_prompt": True,
        # Only a stream lets the server notice that nobody waits any more, and stop generating.
        "stream": True,
        "stream_options": {"include_usage": True},
        **knobs(request.subject, model),
    }
    if request.output_schema is not None:
        schema = {"name": "reply", "strict": True, "schema": dict(request.output_schema)}
        found["response_format"] = {"type": "json_schema", "json_schema": schema}
    return found


def reply(request: Request, sent: Mapping[str, Any], answer: Any, status: int) -> Reply:
    """What *answer*, the completion in a response with status 200, says; raises `CallError` if it holds no reply."""
    if not isinstance(answer, dict):
        raise broken("malformed", f"the local server answered {type(answer).__name__}, not an object")
    if answer.get("error") is not None:
        raise broken("error-body", f"the local server answered {_error_text(answer)}")
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise broken("no-choices", f"the local server gave no choices: {_cut(choices)}")
    message = choices[0].get("message")
    if not isinstance(message, dict) or not isinstance(message.get("content"), str | None):
        raise broken("malformed", f"the local server gave a choice without text: {_cut(choices[0])}")
    text = message.get("content") or ""
    stop_reason = _STOP_REASONS.get(choices[0].get("finish_reason"), "other")
    if not text and stop_reason in ("stop", "other"):
        stop_reason = "empty"
    named = answer.get("model")
    return Reply(
        text=text,
        stop_reason=stop_reason,
        usage=usage(answer.get("usage")),
        cost=Cost(usd=0.0, priced_by="local"),
        model=named if isinstance(named, str) else None,
        observed={name: sent[name] for name, _ in request.subject.knobs if name in sent},
        envelope=sent,
        raw=answer,
        status=status,
    )


def usage(found: Any) -> Usage:
    """OpenAI's usage in disjoint parts; what is missing or cannot be is None."""
    counts = found if isinstance(found, dict) else {}
    details = counts.get("prompt_tokens_details")
    prompt = _count(counts.get("prompt_tokens"))
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    if prompt is not None and cached is not None and cached > prompt:
        prompt = cached = None
    return Usage(
        input=None if prompt is None or cached is None else prompt - cached,
        cache_read=cached,
        output=_count(counts.get("completion_tokens")),
    )


def completion(text: str, content_type: str) -> Any:
    """The completion in a response, whether it came in pieces or whole; raises `CallError` where there is none."""
    if content_type.startswith("text/event-stream"):
        return joined_completion(text)
    try:
        return json.loads(text)
    except ValueError as error:
        raise broken("not-json", f"the local server answered no JSON: {text[:200]!r}") from error


def status_error(status: int, text: str, *, with_schema: bool) -> CallError:
    """The error that a response with another status than 200 stands for."""
    try:
        answer = json.loads(text)
    except ValueError:
        answer = text
    error = answer.get("error") if isinstance(answer, dict) else None
    if isinstance(error, dict) and error.get("type") == "exceed_context_size_error":
        return CallError(
            "context-size",
            "task",
            f"the prompt has {error.get('n_prompt_tokens')} tokens, and the model's context {error.get('n_ctx')}: "
            "shorten the prompt",
        )
    fault: Fault = "us" if 400 <= status < 500 else "infrastructure"
    if status == 400 and with_schema:
        fault = "task"  # a schema is turned into a grammar, and not every schema can be
    return CallError(f"http-{status}", fault, f"the local server answered {status}: {_error_text(answer)}")


def broken(kind: str, message: str) -> CallError:
    """The error of a server that did not do what it should."""
    return CallError(kind, "infrastructure", message)


def _error_text(answer: Any) -> str:
    error = answer.get("error") if isinstance(answer, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return _cut(message if isinstance(message, str) else answer)


def _cut(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 500 else text[:500] + "..."


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
