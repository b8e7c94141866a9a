"""Bytes to text, and where in a TOML text a key stands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli

__all__ = ["KeyLines", "looks_like_a_task_file", "parse_toml", "read_text", "toml_type"]

_HEADER = re.compile(rb"^[ \t]*\[\[?[ \t]*(task|scorer|metrics\.[^\]\r\n]+|verdict|case)[ \t]*\]\]?", re.MULTILINE)
_KEYS = re.compile(rb"^[ \t]*(kind|runs|cases|prompt)[ \t]*=", re.MULTILINE)
_QUOTES = re.compile(r'"""|\'\'\'')
_LINE = re.compile(r"\s*(?:\[\[?\s*(?P<table>[^\[\]]+?)\s*\]\]?|(?P<key>[A-Za-z0-9_\-.\"']+)\s*=)")


def looks_like_a_task_file(content: bytes) -> bool:
    """Whether a TOML file means to be a task: a ``[task]`` table and one more sign, or scorer and metrics together.

    Other tools' TOML files have tables named ``task`` too; one sign alone is not enough to speak up.
    """
    found = {match.group(1).split(b".")[0].strip() for match in _HEADER.finditer(content)}
    if b"task" in found:
        return bool(found - {b"task"}) or bool(_KEYS.search(content))
    return {b"scorer", b"metrics"} <= found


def read_text(path: Path) -> str:
    """The text of a prompt, schema or case file: UTF-8, without byte order mark, line ends as LF.

    Raises ValueError saying what is wrong with the bytes; OSError where there is no file.
    """
    return _decoded(path.read_bytes()).removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def parse_toml(content: bytes) -> dict[str, Any]:
    """The document; raises ValueError beginning with ``LINE: `` and saying what to do."""
    text = _decoded(content)
    if text.startswith("\ufeff"):
        raise ValueError("1: the file begins with a byte order mark (BOM); save it as UTF-8 without one")
    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        hint = ""
        line = text.splitlines()[error.lineno - 1] if 0 < error.lineno <= len(text.splitlines()) else ""
        if "\\" in line:
            hint = " (a backslash in double quotes is an escape: put regexes and paths in 'single quotes')"
        raise ValueError(f"{error.lineno}: not TOML: {error.msg}, column {error.colno}{hint}") from None


def _decoded(content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError("1: the file is UTF-16; save it as UTF-8")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{line}: byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8") from None


class KeyLines:
    """Line numbers (1-based) of tables and keys, found by reading the text line by line.

    TOML readers give no positions of values; this finds headers and ``key =`` at the start of a line, outside of
    multi-line strings.  A key it can't see (inside an inline table) has the line of what holds it.
    """

    def __init__(self, text: str) -> None:
        self._lines: dict[tuple[str, ...], int] = {}
        self.cases: list[int] = []
        table: tuple[str, ...] = ()
        inside: str | None = None
        for number, line in enumerate(text.splitlines(), 1):
            if inside is None and (match := _LINE.match(line)):
                if match["table"]:
                    table = _path(match["table"])
                    if table == ("case",) and line.lstrip().startswith("[["):
                        self.cases.append(number)
                    self._lines.setdefault(table, number)
                else:
                    self._lines.setdefault((*table, *_path(match["key"])), number)
            for quote in _QUOTES.findall(line):
                if inside is None:
                    inside = quote
                elif inside == quote:
                    inside = None

    def of(self, *path: str | int) -> int:
        """The line of the key at *path*, else that of the nearest thing around it, else 1."""
        if len(path) > 1 and path[0] == "case" and isinstance(path[1], int) and path[1] < len(self.cases):
            return self.cases[path[1]]
        names = tuple(str(part) for part in path)
        while names and names not in self._lines:
            names = names[:-1]
        return self._lines.get(names, 1)


def _path(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def toml_type(value: object) -> str:
    """What *value* is called in TOML."""
    names: Mapping[type, str] = {
        bool: "a boolean",
        int: "an integer",
        float: "a float",
        str: "a string",
        list: "an array",
        dict: "a table",
    }
    return names.get(type(value), f"a {type(value).__name__}")
