"""Bytes to text, and where in a TOML text a key stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tomli

__all__ = ["KeyLines", "in_order", "looks_like_a_task_file", "parse_toml", "read_text", "toml_type"]

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_HEADER = re.compile(rb"^[ \t]*\[\[?[ \t]*(task|scorer|metrics\.[^\]\r\n]+|verdict)[ \t]*\]\]?", re.MULTILINE)
_TASK_TABLE = re.compile(rb"^[ \t]*\[[ \t]*task[ \t]*\]([^\[]*)", re.MULTILINE)
_OWN_KEYS = re.compile(rb"^[ \t]*(kind|runs|timeout|cases|prompt)[ \t]*=", re.MULTILINE)
_STRING = r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*'
_STRINGS = re.compile(_STRING, re.DOTALL)
_LINE = re.compile(r"\s*(?:\[\[?\s*(?P<table>[^\[\]]+?)\s*\]\]?|(?P<key>[A-Za-z0-9_\-.\"']+)\s*=)")
_NAME = re.compile(r"\"[^\"]*\"|'[^']*'|[^.\s]+")
_PLACE = re.compile(r"(?P<file>.*?):(?P<line>\d+):")


def looks_like_a_task_file(content: bytes) -> bool:
    """Whether a TOML file means to be a task: a ``[task]`` table and one more sign, or scorer and metrics together.

    Other tools' TOML files have tables named ``task`` too; one sign alone is not enough to speak up.
    """
    if content.startswith(_UTF_16):
        content = content.decode("utf-16", "replace").encode()
    content = content.removeprefix(b"\xef\xbb\xbf")
    found = {match.group(1).split(b".")[0].strip() for match in _HEADER.finditer(content)}
    if b"task" not in found:
        return {b"scorer", b"metrics"} <= found
    table = _TASK_TABLE.search(content)
    own = {match.group(1) for match in _OWN_KEYS.finditer(table.group(1))} if table else set()
    return bool(found - {b"task"}) or len(own) >= 2


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
        lines = text.split("\n")
        line = lines[error.lineno - 1] if 0 < error.lineno <= len(lines) else ""
        if error.msg == "Cannot overwrite a value":
            hint = " (the key is given twice)"
        elif "\\" in line:
            hint = " (a backslash in double quotes is an escape: put regexes and paths in 'single quotes')"
        raise ValueError(f"{error.lineno}: not TOML: {error.msg}, column {error.colno}{hint}") from None


def _decoded(content: bytes) -> str:
    if content.startswith(_UTF_16):
        raise ValueError("1: the file is UTF-16; save it as UTF-8")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{line}: byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8") from None


class KeyLines:
    """Line numbers (1-based) of tables and keys, found by reading the text line by line.

    TOML readers give no positions of values; this finds headers and ``key =`` at the start of a line, outside of
    strings, arrays and inline tables.  A key it can't see has the line of what holds it.
    """

    def __init__(self, text: str) -> None:
        self._lines: dict[tuple[str, ...], int] = {}
        self.cases: list[int] = []
        table: tuple[str, ...] = ()
        depth = 0
        keyed = _STRINGS.sub(_without_more_lines, text).split("\n")
        bare = _STRINGS.sub(_only_line_ends, text).split("\n")
        for number, (line, brackets) in enumerate(zip(keyed, bare, strict=True), 1):
            if depth == 0 and (match := _LINE.match(line)):
                if match["table"]:
                    table = _path(match["table"])
                    if table == ("case",) and line.lstrip().startswith("[["):
                        self.cases.append(number)
                    self._lines.setdefault(table, number)
                else:
                    self._lines.setdefault((*table, *_path(match["key"])), number)
            depth += sum(map(brackets.count, "[{")) - sum(map(brackets.count, "]}"))

    def of(self, *path: str | int) -> int:
        """The line of the key at *path*, else that of the nearest thing around it, else 1."""
        if len(path) > 1 and path[0] == "case" and isinstance(path[1], int) and path[1] < len(self.cases):
            return self.cases[path[1]]
        names = tuple(str(part) for part in path)
        while names and names not in self._lines:
            names = names[:-1]
        return self._lines.get(names, 1)


def _path(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _NAME.findall(dotted))


def _without_more_lines(match: re.Match[str]) -> str:
    """A string as it is, but for comments and strings of several lines, of which only the line ends count."""
    return _only_line_ends(match) if match[0][0] == "#" or "\n" in match[0] else match[0]


def _only_line_ends(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def in_order(faults: Iterable[str], first: str) -> list[str]:
    """Faults told once each: those of the file *first*, then other files', each file's by line."""

    def place(fault: str) -> tuple[bool, str, int]:
        match = _PLACE.match(fault)
        file, line = (match["file"], int(match["line"])) if match else (fault.partition(": ")[0], 0)
        return file != first, file, line

    return sorted(dict.fromkeys(faults), key=place)


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
