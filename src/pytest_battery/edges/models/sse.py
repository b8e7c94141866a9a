"""Server-sent events, taken apart as their bytes come."""

from __future__ import annotations

import codecs
import json

from pytest_battery.errors import CallError

__all__ = ["LONGEST_LINE", "Events"]

LONGEST_LINE = 50_000_000
"""Characters of a line after which an answer is given up."""


class Events:
    """``feed`` bytes, cut anywhere; get the events that are complete, as ``(name or None, data)``.

    Only the three line ends of the format end a line (LF, CR, CRLF): characters that `str.splitlines` takes for one
    stand in JSON texts as they are.  Every character is looked at once, however a long line is cut.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._started = self._after_cr = False
        self._pieces: list[str] = []  # of the line that has not ended yet
        self._length = 0
        self._name: str | None = None
        self._data: list[str] = []

    def feed(self, content: bytes, *, last: bool = False) -> list[tuple[str | None, str]]:
        """Take in *content*; with *last*, nothing follows.

        An event that the end cuts off is given if it is whole (JSON or ``[DONE]``), else it is dropped.
        Raises `CallError` (``too-long``) for a line beyond `LONGEST_LINE`.
        """
        found = [event for line in self._lines(self._decoder.decode(content, last)) if (event := self._line(line))]
        if last:
            cut = "".join(self._pieces)
            self._pieces, self._length = [], 0
            if cut:
                self._line(cut)
            if self._data and _is_whole("\n".join(self._data)):
                found.append(self._event())
        return found

    def _lines(self, text: str) -> list[str]:
        """The lines that *text* ends; what follows them is kept."""
        if text and not self._started:
            self._started, text = True, text.removeprefix("\ufeff")
        if not text:
            return []
        ends_in_cr = text.endswith("\r")
        if self._after_cr:
            text = text.removeprefix("\n")  # the other half of a CRLF
        self._after_cr = ends_in_cr
        first, *lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._pieces.append(first)
        self._length += len(first)
        if self._length > LONGEST_LINE:
            raise CallError(
                "too-long", "infrastructure", f"a line of the answer is longer than {LONGEST_LINE} characters"
            )
        if not lines:
            return []
        rest = lines.pop()
        lines.insert(0, "".join(self._pieces))
        self._pieces, self._length = [rest], len(rest)
        return lines

    def _line(self, line: str) -> tuple[str | None, str] | None:
        if not line:
            if self._data:
                return self._event()
            self._name = None
            return None
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        return None  # comments keep the connection alive; ids and retries mean nothing here

    def _event(self) -> tuple[str | None, str]:
        event = (self._name, "\n".join(self._data))
        self._name, self._data = None, []
        return event


def _is_whole(data: str) -> bool:
    if data.strip() == "[DONE]":
        return True
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True
