"""The file paths a text cites, whole.

A path counts as cited only where it stands whole: ``x/a.py`` and ``data.py`` do not cite ``a.py``, and ``../src/a.py``,
``/src/a.py`` and ``a/src/a.py`` do not cite ``src/a.py``.  Understood around a path are back-ticks, quotes, brackets,
bold, trailing punctuation, ``key=`` and ``label:`` before it, and a line behind it (``:12``, ``:12-20``, ``:12:5``,
``#L12``, ``#L12-L20``).  Taken as the same path: ``\\`` for ``/``, ``./`` in front, ``//`` and ``x/..`` inside, a final
``/``.  White space ends a path, unless the path looked for holds it.  Case matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pytest_battery.scoring.plain_text import plain_text

__all__ = ["cited_paths", "plain_path"]

_JOINT = "\ue000"
"""Stands for what would end a token inside a path that is looked for; a private character no path holds."""

# White space, quotes and the punctuation of other scripts end a token whatever stands around them.
_ENDS = '\\s`"<>|“”„«»‘’「」『』、。，；：（）→'  # noqa: RUF001
_TOKEN = re.compile(f"[^{_ENDS}]+")
_END = re.compile(f"[{_ENDS}]")
_SEPARATOR = re.compile(r"[=,;(\[{]|:(?!\d)")
_EMPHASIS = re.compile(r"[('\[{]*(\*{1,3})([^*]+)\1[^*\w/]*\Z")
_OPENING = re.compile(r"\*\*(?!/)|[('\[{]")
_CLOSING = re.compile(r"(?:(?<!/)\*\*|(?<!/)(?<!/\.)\.|[)\]}',;:!?…-])\Z")
_LINE = re.compile(r"(?::\d{1,9}(?:[-:]\d{1,9}){0,3}|#L\d{1,9}(?:-L?\d{1,9})?):?\Z")
_POSSESSIVE = re.compile(r"'s\Z")
_DRIVE = re.compile(r"[A-Za-z]:")

_MAX_OPENING, _MAX_CLOSING = 4, 12
"""Marks taken off before and behind a token: more than a sentence has, and a bound on the work for a hostile one."""

_MAX_PATH = 4096
"""Characters; what is longer is no path."""


def plain_path(path: str) -> str | None:
    """*path* in its shortest form, with ``/``; None for one that is absolute, leaves its root, or names nothing.

    ``./src//a.py`` and ``src\\x\\..\\a.py`` are ``src/a.py``; ``.github/ci.yml`` stays.
    """
    path = path.replace("\\", "/")
    if path.startswith("/") or _DRIVE.match(path):
        return None
    steps: list[str] = []
    for step in path.split("/"):
        if step == "..":
            if not steps:
                return None
            steps.pop()
        elif step not in ("", "."):
            steps.append(step)
    return "/".join(steps) or None


def cited_paths(text: str, wanted: Iterable[str]) -> set[str]:
    """Those of *wanted* (paths as `plain_path` gives them) that *text* cites.

    Takes time proportional to the length of *text* times the number of *wanted* that hold white space, plus one.
    """
    text = plain_text(text)
    joined = {_joined(path): path for path in wanted}
    found: set[str] = set()
    # Markdown writes a literal _ as \_, Windows a directory as \: both readings are tried.
    for reading in {text.replace("\\", "/"), text.replace("\\_", "_").replace("\\", "/")}:
        for key, path in joined.items():
            if key != path:
                reading = reading.replace(path, key)
        for token in _TOKEN.finditer(reading):
            found.update(joined[path] for path in _readings(token.group()) if path in joined)
    return found


def _joined(path: str) -> str:
    return _END.sub(_JOINT, path)


def _readings(token: str) -> Iterator[str]:
    """The paths that *token* may stand for."""
    pieces = _SEPARATOR.split(token)
    for piece in (token, *pieces) if len(pieces) > 1 else (token,):
        if len(piece) > _MAX_PATH:
            continue
        emphasised = _EMPHASIS.match(piece)
        for bare in (*_bare(piece), *(_bare(emphasised[2]) if emphasised else ())):
            path = plain_path(bare)
            if path is not None:
                yield path


def _bare(piece: str) -> Iterator[str]:
    """*piece* as it is, and with less and less of what may be punctuation around it."""
    for _ in range(_MAX_OPENING):
        rest = piece
        for _ in range(_MAX_CLOSING):
            yield rest
            yield _LINE.sub("", rest)
            yield _POSSESSIVE.sub("", rest)
            closing = _CLOSING.search(rest)
            if not closing:
                break
            rest = rest[: closing.start()]
        opening = _OPENING.match(piece)
        if not opening:
            break
        piece = piece[opening.end() :]
