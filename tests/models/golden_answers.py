"""Answers as the vendors' own types describe them, one file each: whole ones as JSON, streamed ones as they come."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_battery.edges.models.api_names import api
from pytest_battery.edges.models.apis import Answer
from pytest_battery.edges.models.sse import Events
from pytest_battery.errors import CallError

__all__ = ["GOLDEN", "Told", "names", "played", "streamed", "told"]

GOLDEN = Path(__file__).parent / "golden"

Told = tuple[str, str, tuple[int | None, int | None, int | None, int | None, int | None]]
"""Text, stop reason, and the tokens: input, cache_read, cache_write, output, reasoning."""


def names(speaks: str) -> set[str]:
    """Every file there is for one API."""
    return {path.name.removeprefix(f"{speaks}.") for path in GOLDEN.glob(f"{speaks}.*")}


def streamed(speaks: str, content: bytes, size: int) -> Answer:
    """*content* as it would come in pieces of *size* bytes."""
    events, reading = Events(), api(speaks).stream()
    for start in range(0, len(content), size):
        for event, data in events.feed(content[start : start + size]):
            reading.feed(event, data)
    for event, data in events.feed(b"", last=True):
        reading.feed(event, data)
    return reading.answer()


def played(speaks: str, name: str) -> Answer:
    """What the API makes of a file; a stream is the same however it is cut, and whatever ends its lines."""
    content = (GOLDEN / f"{speaks}.{name}").read_bytes().replace(b"\r\n", b"\n")
    if name.endswith(".json"):
        return api(speaks).read(json.loads(content))
    answers = [
        streamed(speaks, content.replace(b"\n", end), size)
        for end, size in ((b"\n", len(content)), (b"\n", 1), (b"\r\n", 7), (b"\r", 64))
    ]
    assert answers.count(answers[0]) == len(answers)
    return answers[0]


def told(speaks: str, name: str) -> Told | str:
    """What a file says, or the kind of its failure."""
    try:
        answer = played(speaks, name)
    except CallError as error:
        return error.kind
    usage = answer.usage
    counts = (usage.input, usage.cache_read, usage.cache_write, usage.output, usage.reasoning)
    return answer.text, answer.stop_reason, counts
