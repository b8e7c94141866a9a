r"""Regular expressions in time linear in the text, whatever the pattern: Google's RE2.

What differs from Python's ``re``: no look-around and no backreference; ``^`` and ``$`` are the very beginning and end
of the text (``$`` does not also match before a final line end; write ``\s*$``), with ``(?m)`` of each line; the end of
the text is ``\z``, not ``\Z``; ``\d \w \s \b`` know ASCII only (``\p{L}`` is any letter); a repetition is at most
1000 times.  Flags are written in front: ``(?i)`` ignore case, ``(?s)`` a dot matches a line end too, ``(?m)``.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import re2

from pytest_battery.errors import ScoringError

__all__ = ["control_character_fault", "escaped", "pattern_fault", "searches"]

MAX_MEMORY = 8 << 20
"""Bytes one compiled pattern may take, its automaton's states included."""

# Fewer than re2.escape() marks: the pattern is shown to people.
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$-]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_WRITTEN = {"\b": r"\b", "\t": r"\t", "\n": r"\n", "\f": r"\f", "\r": r"\r", "\x1b": r"\e"}
_HINTS = (
    (
        ("(?=", "(?!", "(?<"),
        "look-around is not supported by the linear-time engine: list two patterns, or match what stands around",
    ),
    (("(?>", "++", "*+", "?+"), "possessive and atomic groups are not needed: matching is linear in the text anyway"),
    (("\\Z",), "write \\z for the end of the text"),
    (("\\u",), "write \\x{HEX} for a character by its number"),
)


def searches(pattern: str, text: str, ignore_case: bool = False) -> bool:
    """Whether *pattern* matches somewhere in *text*; raises `ScoringError` for a pattern that cannot be used."""
    return _compile(pattern, ignore_case).search(text) is not None


def escaped(text: str) -> str:
    """A pattern that matches *text* and nothing else, also between other parts of a pattern and in ``[...]``."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def pattern_fault(pattern: str) -> str | None:
    """Why *pattern* cannot be used, and what to do, or None if it can."""
    try:
        _compile(pattern, False)
    except ScoringError as error:
        return str(error)
    return None


def control_character_fault(source: str) -> str | None:
    """Which control character a pattern or path of a task file holds, and how to write what was meant; None if none."""
    found = _CONTROL.search(source)
    if not found:
        return None
    character = found.group()
    written = _WRITTEN.get(character, f"\\x{ord(character):02x}")
    return (
        f"{source!r} holds the control character U+{ord(character):04X}: in double quotes TOML reads {written} as that "
        f"character; use single quotes, as in '{written}...'"
    )


@functools.lru_cache(maxsize=256)
def _compile(pattern: str, ignore_case: bool) -> Any:
    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.never_capture = True  # only whether the whole pattern matches counts
    options.log_errors = False
    options.case_sensitive = not ignore_case
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        found = error.args[0]
        reason = found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)
        raise ScoringError(f"the pattern {pattern!r} cannot be used: {reason}{_hint(reason)}") from error


def _hint(reason: str) -> str:
    if re.search(r"\\[1-9]\Z", reason):
        return "; a backreference is not supported by the linear-time engine: use a project scorer"
    return next((f"; {hint}" for signs, hint in _HINTS if any(sign in reason for sign in signs)), "")
