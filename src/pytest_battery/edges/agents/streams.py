"""The event stream of an agent: JSON, one event to a line, from a writer that can't be trusted.

Lines end at LF and nowhere else (a JSON text may hold U+2028).  Nothing in a stream makes this module raise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["MOST_LINE", "Event", "Odd", "at", "clean", "count", "events_of", "excerpt", "no_end", "text_at"]

MOST_LINE = 16 * 2**20
"""Bytes of a line that are read; the longest of a real run, with the whole conversation in it, stay far below."""

_MOST_KEPT = 20  # of lines that are named
_MOST_COUNT = 2**53


@dataclass(frozen=True, slots=True)
class Event:
    """``number`` is that of the line, from 1; ``type`` is never empty."""

    number: int
    type: str
    body: Mapping[str, Any]


class Odd:
    """Lines that can't be the agent's, and what else is odd; of each no more are kept than one can read."""

    def __init__(self) -> None:
        self._forged: list[str] = []
        self._notes: list[str] = []
        self._more = {"forged": 0, "notes": 0}

    def forged(self, event: Event, why: str) -> None:
        self.line(event.number, f"{why}: {excerpt(json.dumps(event.body, ensure_ascii=False))}")

    def line(self, number: int, why: str) -> None:
        self._keep("forged", self._forged, f"line {number}: {clean(why)}")

    def note(self, what: str) -> None:
        self._keep("notes", self._notes, clean(what))

    @property
    def forgeries(self) -> tuple[str, ...]:
        return self._told("forged", self._forged)

    @property
    def notes(self) -> tuple[str, ...]:
        return self._told("notes", self._notes)

    def _keep(self, kind: str, kept: list[str], what: str) -> None:
        if len(kept) < _MOST_KEPT:
            kept.append(what)
        else:
            self._more[kind] += 1

    def _told(self, kind: str, kept: list[str]) -> tuple[str, ...]:
        more = self._more[kind]
        return (*kept, f"and {more} more") if more else tuple(kept)


def events_of(stdout: bytes, odd: Odd) -> Iterator[Event]:
    """The events of *stdout*; what is none is told to *odd*."""
    number = start = 0
    while start < len(stdout):
        number += 1
        end = stdout.find(b"\n", start)
        whole = end >= 0
        end = end if whole else len(stdout)
        if end - start > MOST_LINE:
            odd.note(
                f"line {number} has {end - start} bytes, more than the {MOST_LINE} that are read of one; passed over"
            )
        elif line := stdout[start:end].strip(b" \t\r"):
            event = _event(number, line)
            if isinstance(event, Event):
                yield event
            elif whole:
                odd.line(number, f"{event}: {excerpt(line.decode('utf-8', 'replace'))}")
            else:
                odd.note(f"line {number}, the last, is cut off")
        start = end + 1


def _event(number: int, line: bytes) -> Event | str:
    try:
        body = json.loads(line.decode("utf-8", "replace"), parse_constant=_no_number)
    except (ValueError, RecursionError):
        return "not JSON"
    if not isinstance(body, dict):
        return "no object"
    kind = body.get("type")
    return Event(number, kind, body) if isinstance(kind, str) and kind else "no event, for it has no type"


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def at(body: Any, *path: str) -> Any:
    """What stands at *path*; None where nothing does."""
    for name in path:
        if not isinstance(body, Mapping):
            return None
        body = body.get(name)
    return body


def text_at(body: Any, *path: str) -> str | None:
    found = at(body, *path)
    return clean(found) if isinstance(found, str) else None


def count(body: Any, *path: str) -> int | None:
    """A number of things; None for what is none."""
    found = at(body, *path)
    counts = isinstance(found, int) and not isinstance(found, bool) and 0 <= found < _MOST_COUNT
    return found if counts else None


def clean(text: str) -> str:
    """*text* without halves of surrogate pairs, which can't be written down."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def excerpt(text: str, most: int = 120) -> str:
    """The beginning of *text*, on one line."""
    text = " ".join(clean(text[: 4 * most]).split())
    return text if len(text) <= most else f"{text[: most - 3]}..."


def no_end(stdout: bytes, stderr: bytes, exit_code: int, timed_out: bool) -> str:
    """Why a stream has no end, as far as can be told from outside."""
    said = excerpt(stderr[-2000:].decode("utf-8", "replace").strip(), 400)
    told = f"; it says: {said}" if said else ""
    if timed_out:
        return f"it was ended when its time was up{told}"
    what = "it said nothing" if not stdout.strip() else "its output breaks off"
    return f"{what}, and it exited with {exit_code}{told}"
