"""Server-sent events, taken apart as their bytes come."""

from __future__ import annotations

import codecs
import re

from pytest_battery.errors import CallError

__all__ = ["LONGEST_LINE", "Events"]

LONGEST_LINE = 50_000_000
"""Characters of a line after which an answer is given up."""

_END = re.compile("\r\n|\n|\r(?!$)")  # a CR at the end of what came may be half of a CRLF


class Events:
    """``feed`` bytes, cut anywhere; get the events that are complete, as ``(name or None, data)``.

    Only the three line ends of the format end a line: characters that `str.splitlines` takes for one stand in JSON texts
    as they are.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._first = True
        self._name: str | None = None
        self._data: list[str] = []

    def feed(self, content: bytes, *, last: bool = False) -> list[tuple[str | None, str]]:
        """Take in *content*; with *last*, a line that was not ended ends here.

        Raises `CallError` (``too-long``) for a line beyond `LONGEST_LINE`.
        """
        text = self._rest + self._decoder.decode(content, last)
        if self._first and text:
            text = text.removeprefix("\ufeff")
            self._first = False
        lines = _END.split(text)
        self._rest = lines.pop()
        if last and self._rest:
            lines.append(self._rest.removesuffix("\r"))
            self._rest = ""
        if len(self._rest) > LONGEST_LINE:
            raise CallError(
                "too-long", "infrastructure", f"a line of the answer is longer than {LONGEST_LINE} characters"
            )
        found = []
        for line in lines:
            if event := self._line(line):
                found.append(event)
        if last and self._data:
            found.append(self._event())
        return found

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
