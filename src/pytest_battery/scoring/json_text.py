"""The JSON of a reply, whether it stands alone, in a fence, or with text around it.

The first rule that applies decides:

1. The whole reply, without the white space around it, is JSON: that value, of any type.
2. The reply has Markdown fences: the last one marked ``json`` (also ``jsonc``, ``json5``), even if broken; else
   the last one without a mark that holds JSON.  A fence that is never closed ends with the reply.
3. The last outermost object or array in the text.  One that is still open when the reply ends was cut off, and
   decides.  The inner parts of one that is cut off or broken are not taken for it.

JSON is strict: no NaN, no infinity, no trailing comma, and no key twice in one object.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pytest_battery.scoring.plain_text import plain_text

__all__ = ["NoJsonError", "find_json"]

_FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,})[ \t]*([^\n`]*)$", re.MULTILINE)
_OPENER = re.compile(r"[{\[]")
_JSON_MARKS = {"json", "jsonc", "json5"}
MAX_TRIES = 10_000
"""Braces and brackets that turn out to begin no JSON before a reply is given up: each costs a pass over the text."""


class NoJsonError(ValueError):
    """A reply without one JSON value to grade; the message says why."""


def find_json(text: str) -> Any:
    """The JSON value of *text*, its strings as `plain_text` leaves them; raises `NoJsonError`.

    What lies behind `MAX_TRIES` braces that begin no JSON is not looked for.
    """
    try:
        return _plain(_find(text.strip("\ufeff \t\r\n")))
    except RecursionError:
        raise NoJsonError("the JSON is nested too deeply to be read") from None


def _find(text: str) -> Any:
    whole = _decode(text, 0)
    if whole.ended == len(text) and text:
        return whole.value()
    unmarked: list[_Decoded] = []
    marked: list[_Decoded] = []
    for mark, content in _fences(text):
        decoded = _decode(content, 0)
        if mark in _JSON_MARKS:
            whole_fence = decoded.ended in (None, len(content))
            marked.append(decoded if whole_fence else _Decoded(fault="more than one JSON value in a fence"))
        elif not mark and decoded.ended == len(content) and content:
            unmarked.append(decoded)
    if marked or unmarked:
        return (marked or unmarked)[-1].value()
    return _last_inside(text)


def _fences(text: str) -> Iterator[tuple[str, str]]:
    """The mark and the stripped content of each fence, in order."""
    opened: tuple[str, str, int] | None = None
    for found in _FENCE.finditer(text):
        ticks, info = found[1], found[2].strip()
        if opened is None:
            mark = info.split()[0].lower().strip("{}.") if info else ""
            opened = (ticks, mark, found.end())
        elif not info and ticks.startswith(opened[0]):
            yield opened[1], text[opened[2] : found.start()].strip()
            opened = None
    if opened is not None:
        yield opened[1], text[opened[2] :].strip()


def _last_inside(text: str) -> Any:
    last: _Decoded | None = None
    failures = 0
    opener = _OPENER.search(text)
    while opener and failures < MAX_TRIES:
        start = opener.start()
        decoded = _decode(text, start)
        if decoded.ended is not None:
            last, resume = decoded, decoded.ended
        elif decoded.cut:
            raise NoJsonError(f"the JSON that begins at character {start + 1} is not closed")
        else:
            # What lies before the mistake belongs to the broken value, and is not looked at again.
            resume = max(decoded.failed, start + 1)
            failures += 1
        opener = _OPENER.search(text, resume)
    if last is None:
        raise NoJsonError("there is no JSON in the reply")
    return last.value()


@dataclass(frozen=True, slots=True)
class _Decoded:
    """A try at one place: a value and where it ended, or why there is none and where that was seen."""

    ended: int | None = None
    found: Any = None
    fault: str = ""
    failed: int = 0
    cut: bool = False

    def value(self) -> Any:
        if self.fault:
            raise NoJsonError(self.fault)
        return self.found


def _decode(text: str, start: int) -> _Decoded:
    faults: list[str] = []
    decoder = json.JSONDecoder(
        object_pairs_hook=lambda pairs: _object(pairs, faults),
        parse_constant=lambda name: faults.append(f"{name} is not JSON"),
        parse_float=lambda digits: _number(float, digits, faults),
        parse_int=lambda digits: _number(int, digits, faults),
    )
    try:
        found, ended = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text) or error.msg.startswith("Unterminated string")
        what = "the JSON is not closed" if cut else f"not JSON: {error.msg} at character {error.pos + 1}"
        return _Decoded(fault=what, failed=error.pos, cut=cut)
    return _Decoded(ended, found, fault=faults[0] if faults else "")


def _object(pairs: list[tuple[str, Any]], faults: list[str]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        faults.append(f"the JSON gives the key {twice!r} twice")
    return made


def _number(kind: type[int] | type[float], digits: str, faults: list[str]) -> int | float:
    try:
        number = kind(digits)
    except ValueError:  # more digits than Python turns into an int
        number = math.inf
    if not isinstance(number, int) and not math.isfinite(number):
        faults.append(f"the number {digits[:20]}... is too large")
    return number


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {plain_text(key): _plain(item) for key, item in value.items()}
    return value
