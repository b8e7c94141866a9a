"""Cases from a .jsonl, .csv or .toml file, a directory of case directories, or ``[[case]]`` tables."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, time
from pathlib import Path
from typing import Any

from pytest_battery.edges.taskfiles.text import KeyLines, parse_toml, read_text
from pytest_battery.values.cases import Case
from pytest_battery.values.names import id_fault

__all__ = ["RawCase", "checked_cases", "is_inside", "read_cases"]

CASE_FILE = "case.toml"


@dataclass(frozen=True, slots=True)
class RawCase:
    """A case as written: its fields (``id`` among them), and where."""

    fields: Mapping[str, Any]
    source: str
    line: int

    @property
    def place(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


def is_inside(path: Path, root: Path) -> bool:
    """Whether *path*, its links followed, lies in the project."""
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):  # links in a circle
        return False


def read_cases(path: Path, name: str, root: Path, faults: list[str]) -> list[RawCase]:
    """The cases in *path*, called *name* in messages.  What is wrong is appended to *faults*."""
    try:
        if path.is_dir():
            return list(_from_directory(path, name, root, faults))
        reader = _READERS.get(path.suffix)
        if reader is not None:
            return list(reader(path, name, faults))
        faults.append(f"{name}: cases come from a .jsonl, .csv or .toml file, or a directory of case directories")
    except OSError as error:
        faults.append(f"{name}: cannot be read: {error.strerror}")
    except ValueError as error:  # from reading text: begins with the line
        faults.append(f"{name}:{error}")
    return []


def checked_cases(raw: Iterable[RawCase], faults: list[str]) -> tuple[Case, ...]:
    """Cases with sound and distinct ids; every other is a fault that names both places."""
    cases: list[Case] = []
    seen: dict[str, RawCase] = {}
    for one in raw:
        name = one.fields.get("id")
        if name is None:
            faults.append(f"{one.place}: the case has no id")
            continue
        if not isinstance(name, str):
            faults.append(f"{one.place}: the id {name!r} should be a string: write it in quotes")
            continue
        if fault := id_fault(name):
            faults.append(f"{one.place}: case {fault}")
            continue
        if fault := next(_not_plain(one.fields), None):
            faults.append(f"{one.place}: case {name}: {fault}")
            continue
        twin = seen.get(name.casefold())
        if twin is not None:
            other = twin.fields["id"]
            same = "is given twice" if other == name else f"differs from {other!r} only in letter case"
            faults.append(f"{one.place}: case id {name!r} {same}; the other is at {twin.place}")
            continue
        seen[name.casefold()] = one
        fields = {key: value for key, value in one.fields.items() if key != "id"}
        cases.append(Case(name, fields, one.source, one.line))
    return tuple(cases)


def _not_plain(value: Any, where: str = "") -> Iterator[str]:
    """What TOML can say and JSON cannot: dates, and numbers that are not finite."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _not_plain(item, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _not_plain(item, f"{where}[{index}]")
    elif isinstance(value, date | time):
        yield f"{where} is a date; write it in quotes, as text"
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{where} is {value}, which is no finite number"


def _from_jsonl(path: Path, name: str, faults: list[str]) -> Iterator[RawCase]:
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line, parse_constant=_no_constant, object_pairs_hook=_distinct)
        except (ValueError, RecursionError) as error:
            faults.append(f"{name}:{number}: not JSON: {error}")
            continue
        if not isinstance(fields, dict):
            faults.append(f'{name}:{number}: each line should be an object with an id, as in {{"id": "t01"}}')
            continue
        yield RawCase(fields, name, number)


def _no_constant(token: str) -> None:
    raise ValueError(f"{token} is not JSON")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is given twice")
    return found


def _from_csv(path: Path, name: str, faults: list[str]) -> Iterator[RawCase]:
    rows = _csv_rows(read_text(path))
    line, columns = next(rows, (1, []))
    if fault := _columns_fault(columns):
        faults.append(f"{name}:{line}: {fault}")
        return
    for line, row in rows:
        if len(row) == len(columns):
            yield RawCase(dict(zip(columns, row, strict=True)), name, line)
        else:
            faults.append(f"{name}:{line}: {len(columns)} values expected, as in the first row; found {len(row)}")


def _csv_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that hold something, each with the line it begins in."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{line}: not CSV: {error}") from None


def _columns_fault(columns: list[str]) -> str | None:
    if "id" not in columns:
        found = ", ".join(columns) or "nothing"
        return f"the first row should name the columns, and one of them should be id; found {found}"
    twice = [column for column in columns if columns.count(column) > 1]
    return f"the column {twice[0]!r} is named twice" if twice else None


def _from_toml(path: Path, name: str, faults: list[str]) -> Iterator[RawCase]:
    content = path.read_bytes()
    document = parse_toml(content)
    lines = KeyLines(content.decode("utf-8"))
    for key in document:
        if key != "case":
            faults.append(f"{name}:{lines.of(key)}: a file of cases holds [[case]] tables only; found {key}")
    tables = document.get("case", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        faults.append(f"{name}:{lines.of('case')}: cases are written as [[case]] tables")
        return
    for index, table in enumerate(tables):
        yield RawCase(table, name, lines.of("case", index))


def _from_directory(path: Path, name: str, root: Path, faults: list[str]) -> Iterator[RawCase]:
    for directory in sorted(path.iterdir()):
        if directory.is_dir() and not directory.name.startswith("."):
            fields = _fields_of(directory, f"{name}/{directory.name}", root, faults)
            if fields is not None:
                yield RawCase(fields, f"{name}/{directory.name}", 0)


def _fields_of(directory: Path, name: str, root: Path, faults: list[str]) -> dict[str, Any] | None:
    """The fields of one case directory, or None where one of its files cannot be used."""
    fields: dict[str, Any] = {}
    before = len(faults)
    for file in sorted(child for child in directory.iterdir() if not child.name.startswith(".")):
        where = f"{name}/{file.name}"
        if not is_inside(file, root):
            faults.append(f"{where}: is a link that leaves the project at {root}")
            continue
        if file.is_dir():
            faults.append(f"{where}: a case directory holds files only")
            continue
        try:
            found = parse_toml(file.read_bytes()) if file.name == CASE_FILE else {_field(file): read_text(file)}
        except OSError as error:
            faults.append(f"{where}: cannot be read: {error.strerror}")
            continue
        except ValueError as error:
            faults.append(f"{where}:{error}")
            continue
        for twice in sorted(fields.keys() & found.keys()):
            faults.append(f"{where}: the field {twice!r} is given twice in this case")
        fields |= found
    if fields.setdefault("id", directory.name) != directory.name:
        faults.append(f"{name}: the id is the directory's name; found {fields['id']!r}")
    return fields if len(faults) == before else None


def _field(file: Path) -> str:
    return file.name.split(".")[0].replace("-", "_")


_READERS = {".jsonl": _from_jsonl, ".csv": _from_csv, ".toml": _from_toml}
