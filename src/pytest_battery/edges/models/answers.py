"""What the APIs share: reading JSON that may be anything, and writing bodies that say what was asked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_battery.edges.models.apis import Answer
from pytest_battery.errors import CallError, ProviderError
from pytest_battery.values.calls import StopReason
from pytest_battery.values.usage import Usage

__all__ = [
    "answered",
    "cached",
    "count",
    "error_in",
    "event_object",
    "items",
    "merged",
    "no_choices",
    "not_the_api",
    "output_of",
    "part",
    "shown",
    "stream_cut",
    "text_of",
    "usage_of",
]


def part(value: Any, *path: str) -> Any:
    """What stands at *path* in nested objects; None where there is no such thing."""
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def items(value: Any) -> Sequence[Any]:
    """*value* if it is a list, else nothing."""
    return value if isinstance(value, list) else ()


def text_of(value: Any) -> str:
    """*value* if it is a text, else nothing."""
    return value if isinstance(value, str) else ""


def count(value: Any) -> int | None:
    """A number of tokens; None for whatever is none, such as a text, a fraction or a negative number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value >= 0 and value == value // 1 and value < 2**53 else None


def cached(value: Any) -> int | None:
    """A part of the input that concerns the cache: 0 where it is not mentioned, None where what stands there is no count.

    Where nothing else is known of the input either, `usage_of` takes the 0 back.
    """
    return 0 if value is None else count(value)


def output_of(output: int | None, reasoning: int | None) -> int | None:
    """*output*, unless the reasoning in it is more than all of it: then nobody knows."""
    return None if output is not None and reasoning is not None and reasoning > output else output


def usage_of(
    total_input: int | None,
    output: int | None,
    *,
    cache_read: int | None = 0,
    cache_write: int | None = 0,
    reasoning: int | None = None,
) -> Usage:
    """Usage from a total that contains what came from and went into the cache, both as `cached` gives them.

    A total smaller than its parts is not believed, and one with an unknown part leaves the rest unknown.
    """
    rest = None
    if total_input is not None and cache_read is not None and cache_write is not None:
        rest = total_input - cache_read - cache_write
    return Usage(
        input=rest if rest is not None and rest >= 0 else None,
        cache_read=cache_read if total_input is not None else cache_read or None,
        cache_write=cache_write if total_input is not None else cache_write or None,
        output=output_of(output, reasoning),
        reasoning=reasoning,
    )


def answered(text: str, stop: StopReason, usage: Usage, model: Any) -> Answer:
    """An answer; one that stopped by itself and says nothing is empty."""
    if stop == "stop" and not text.strip():
        stop = "empty"
    return Answer(text, stop, usage, model if isinstance(model, str) and model else None)


def error_in(document: Any) -> None:
    """Raise `CallError` (``error-body``) for a response that is an error, whatever its status says."""
    error = part(document, "error")
    if error:
        raise CallError("error-body", "infrastructure", f"the answer is an error: {shown(error, 500)}")


def shown(value: Any, characters: int = 200) -> str:
    """The start of *value* as JSON, for a message."""
    try:
        return json.dumps(value, ensure_ascii=False)[:characters]
    except RecursionError:
        return "something nested too deeply to be shown"


def not_the_api(document: Any, wanted: str) -> CallError:
    return CallError("not-the-api", "infrastructure", f"the answer has no {wanted}: {shown(document)}")


def no_choices(document: Any, name: str) -> CallError:
    return CallError(
        "no-choices", "infrastructure", f"the answer's {name} are null, missing or empty: {shown(document)}"
    )


def stream_cut(characters: int) -> CallError:
    return CallError("stream-cut", "infrastructure", f"the answer broke off after {characters} characters")


def event_object(data: str) -> Mapping[str, Any]:
    """The object an event carries; an event without data, such as one that keeps a connection alive, carries nothing.

    Raises `CallError`: ``not-json``, ``error-body``.
    """
    if not data.strip():
        return {}
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        raise CallError("not-json", "infrastructure", f"an event of the answer is no JSON: {data[:200]!r}") from None
    if not isinstance(event, dict):
        raise CallError("not-json", "infrastructure", f"an event of the answer is no object: {data[:200]!r}")
    error_in(event)
    return event


def merged(
    body: Mapping[str, Any], fields: Mapping[str, Any], fixed: frozenset[str], where: str = ""
) -> dict[str, Any]:
    """*body* with *fields* put in, objects into objects.

    Raises `ProviderError` for a field that would overwrite what is asked, which is *fixed* or already there.
    """
    result = dict(body)
    for name, value in fields.items():
        there = result.get(name)
        objects = isinstance(there, Mapping) and isinstance(value, Mapping)
        if name in fixed or (name in result and not objects):
            raise ProviderError(f"a knob may not write the field {where + name!r} of a request")
        if isinstance(there, Mapping) and isinstance(value, Mapping):
            result[name] = merged(there, value, frozenset(there), f"{where}{name}.")
        else:
            result[name] = value
    return result
