"""Text fitted into columns of a terminal, counted as the terminal counts them.  For text that is already inert."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

__all__ = ["columns", "left", "right", "shortened", "wrapped"]


def columns(text: str) -> int:
    """How many columns *text* takes: wide characters two, combining marks none."""
    return len(text) if text.isascii() else sum(map(_width, text))


def left(text: str, width: int) -> str:
    """*text* with spaces behind it up to *width* columns."""
    return text + " " * (width - columns(text))


def right(text: str, width: int) -> str:
    """*text* with spaces before it up to *width* columns."""
    return " " * (width - columns(text)) + text


def shortened(text: str, width: int, ellipsis: str = "…") -> str:
    """*text* in at most *width* columns, with an ellipsis in the middle where it is longer."""
    if columns(text) <= width:
        return text
    room = width - columns(ellipsis)
    if room < 2:
        return _head(text, width)[0]
    head, _ = _head(text, (room + 1) // 2)
    tail = ""
    for char in reversed(text):
        if columns(char + tail) > room - columns(head):
            break
        tail = char + tail
    while tail and not _width(tail[0]):  # a mark without the character it stands on
        tail = tail[1:]
    return head + ellipsis + tail


def wrapped(text: str | Sequence[str], width: int, indent: str = "", first: str | None = None) -> list[str]:
    """*text* broken at spaces into lines of at most *width* columns, words longer than a line broken too.

    A sequence is put together with commas and broken between its members only.

    Every line begins with *indent*, the first with *first* if that is given.
    """
    lines: list[str] = []
    line, empty = indent if first is None else first, True
    words = text.split() if isinstance(text, str) else [f"{word}," for word in text[:-1]] + [*text[-1:]]
    for word in words:
        rest = word
        while rest:
            room = width - columns(line) - (0 if empty else 1)
            if columns(rest) <= room:
                line, rest, empty = line + ("" if empty else " ") + rest, "", False
            elif not empty:
                lines.append(line)
                line, empty = indent, True
            else:
                piece, rest = _head(rest, max(room, 2))
                lines.append(line + piece)
                line = indent
    return lines if empty else [*lines, line]


def _head(text: str, width: int) -> tuple[str, str]:
    """The longest beginning of *text* that fits, and what follows."""
    taken = 0
    for place, char in enumerate(text):
        taken += _width(char)
        if taken > width:
            return text[:place], text[place:]
    return text, ""


def _width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
