"""Text that models, tasks and providers wrote, made safe to print.

A terminal obeys control characters; bidirectional overrides and zero-width characters make a line read as what it is
not; a lone surrogate cannot be written at all.  All of them become visible escapes, on one line.
"""

from __future__ import annotations

import codecs
import functools
import unicodedata

__all__ = ["encodable", "inert"]

_ESCAPED = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"})
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_MOST_MARKS = 2  # combining marks on one character; a pile of them runs over the lines above

# Letters, marks and symbols by category, but nothing is seen of them.
_BLANK = frozenset(
    [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)]
) | frozenset(range(0xE0100, 0xE01F0))

_PLAIN = {
    "★": "**",
    "☆": "*",
    "…": "...",
    "\N{MINUS SIGN}": "-",
    "±": "+/-",
    "\N{MULTIPLICATION SIGN}": "x",
    "≤": "<=",
    "≥": ">=",
    "→": "->",
    "·": "-",
    "\N{EN DASH}": "-",
    "\N{EM DASH}": "--",
    "\N{LEFT SINGLE QUOTATION MARK}": "'",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "“": '"',
    "”": '"',
}


def inert(text: str) -> str:
    r"""*text* on one line; what a terminal obeys or does not show is written as ``\n``, ``\x1b``, ``\u202e``.

    All kinds of spaces become plain ones.  What is left is printed as it is.
    """
    if text.isascii() and text.isprintable():
        return text
    marks, out = 0, []
    for char in text:
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if category == "Zs":
            out.append(" ")
        elif category in _ESCAPED or ord(char) in _BLANK or marks > _MOST_MARKS:
            out.append(_NAMED.get(char) or _escape(char))
        else:
            out.append(char)
    return "".join(out)


def encodable(text: str, encoding: str) -> str:
    r"""*text* in characters that *encoding* has: ``★`` becomes ``**``, what has no plain form ``\uXXXX``.

    An unknown encoding is taken for ASCII.
    """
    codec = _codec(encoding)
    try:
        text.encode(codec)
        return text
    except UnicodeEncodeError:
        return "".join(char if _fits(char, codec) else _PLAIN.get(char) or _escape(char) for char in text)


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


@functools.cache
def _codec(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        return "ascii"


def _fits(char: str, codec: str) -> bool:
    try:
        char.encode(codec)
    except UnicodeEncodeError:
        return False
    return True
