"""Parts of records that are the same for thousands of them: parsed once, and one object for all.

A record is mostly what it shares with the others of its cell: subject, knobs, stack, environment.
Read one by one they are half of the time and most of the memory that a store takes.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError, create_model

from pytest_battery.values.records import Record

__all__ = ["Parts"]

_NAMES = ("environment", "knobs", "stack", "subject")
_STARTS = tuple(f'  "{name}": '.encode() for name in _NAMES)
_MOST = 4096
"""So many different sets of parts are remembered."""

_fields: dict[str, Any] = dict.fromkeys(_NAMES, (Any, None))
_Own = create_model("_Own", __base__=Record, **_fields)
"""A record whose shared parts are wanting."""


class Parts:
    """What was seen of records that were written line by line, as the store does it."""

    def __init__(self) -> None:
        self._known: dict[bytes, dict[str, Any]] = {}
        self._layout: tuple[int, tuple[int, ...]] = (0, ())

    def parse(self, content: bytes) -> Record | None:
        """The record that *content* is, where all its parts are known; None for one that is to be read as a whole."""
        count, places = self._layout
        lines = content.split(b"\n")
        if len(lines) != count:
            return None
        found = [lines[place] for place in places]
        for line, start in zip(found, _STARTS, strict=True):
            if not line.startswith(start):
                return None
        parts = self._known.get(b"\n".join(found))
        if parts is None:
            return None
        for place in reversed(places):
            del lines[place]
        try:
            record: Any = _Own.model_validate_json(b"\n".join(lines))
        except ValidationError:
            return None
        record.__dict__.update(parts)
        record.__pydantic_fields_set__.update(_NAMES)
        record.__class__ = Record
        whole: Record = record
        return whole

    def learn(self, content: bytes, record: Record) -> None:
        """Remember the parts of *record*, which *content* was read as."""
        lines = content.split(b"\n")
        places: list[int] = []
        for start in _STARTS:
            place = next((index for index, line in enumerate(lines) if line.startswith(start)), None)
            if place is None or not _stands_alone(lines[place]):
                return
            places.append(place)
        if places != sorted(places):
            return
        if len(self._known) >= _MOST:
            self._known.clear()
        self._layout = (len(lines), tuple(places))
        self._known[b"\n".join(lines[place] for place in places)] = {name: getattr(record, name) for name in _NAMES}


def _stands_alone(line: bytes) -> bool:
    """Whether *line* is one whole entry, with a comma behind it: without it, the others are still JSON."""
    try:
        return line.endswith(b",") and len(json.loads(b"{" + line[:-1] + b"}")) == 1
    except ValueError:
        return False
