"""The grammar of ids, and the shortest way to write a number."""

from __future__ import annotations

import re
from decimal import Context, Decimal, InvalidOperation

__all__ = ["ID_RULE", "MAX_ID", "id_fault", "shortest_number", "snake_case"]

ID_RULE = "letters, digits, '.', '_' and '-', beginning with a letter or a digit"
MAX_ID = 100
"""Longest id in bytes; a record's file name holds one and must stay below 255."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?\Z", re.ASCII)
_CAMEL = re.compile(r"(?<=[a-z0-9])[A-Z]")


def id_fault(text: str) -> str | None:
    """Why *text* cannot be an id, or None if it can."""
    if not _ID.match(text):
        return f"{text!r} is not an id: use {ID_RULE}"
    if len(text) > MAX_ID:
        return f"{text[:20]!r}... is {len(text)} characters long; an id has at most {MAX_ID}"
    return None


def shortest_number(text: str) -> str | None:
    """*text* as the shortest plain number (``0.70`` -> ``0.7``, ``1e3`` -> ``1000``), or None if it is no number."""
    if not _NUMBER.match(text):
        return None
    try:
        number = Decimal(text).normalize(Context(prec=len(text)))  # no digit is lost, whatever the session's context
    except InvalidOperation:
        return None
    if number == 0:
        return "0"
    exponent = number.adjusted()
    if -12 <= exponent <= 20:
        return format(number, "f")
    sign, digits, _ = number.as_tuple()
    mantissa = "".join(map(str, digits))
    point = f".{mantissa[1:]}" if len(mantissa) > 1 else ""
    return f"{'-' if sign else ''}{mantissa[0]}{point}e{exponent}"


def snake_case(name: str) -> str:
    """``maxTokens`` -> ``max_tokens``."""
    return _CAMEL.sub(lambda match: "_" + match.group().lower(), name)
