"""Cases from a .jsonl, .csv or .toml file, a directory of case directories, or ``[[case]]`` tables."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from pytest_battery.edges.taskfiles.text import KeyLines, parse_toml, read_text
from pytest_battery.values.cases import Case
from pytest_battery.values.names import id_fault

__all__ = ["RawCase", "checked_cases", "read_cases"]

CASE_FILE = "case.toml"


@dataclass(frozen=True, slots=True)
class RawCase:
    """A case as written: its fields (``id`` among them), and where."""

    fields: Mapping[str, Any]
    source: str
    line: int


class _FaultError(Exception):
    """One fault, with its place: ``file:line: what``."""


def read_cases(path: Path, name: str, faults: list[str]) -> list[RawCase]:
    """The cases in *path*, called *name* in messages.  What is wrong is appended to *faults*."""
    found: list[RawCase] = []
    try:
        if path.is_dir():
            reader = _from_directory(path, name)
        elif path.suffix == ".jsonl":
            reader = _from_jsonl(path, name, faults)
        elif path.suffix == ".csv":
            reader = _from_csv(path, name)
        elif path.suffix == ".toml":
            reader = _from_toml(path, name)
        else:
            raise _FaultError(
                f"{name}: cases come from a .jsonl, .csv or .toml file, or a directory of case directories"
            )
        found.extend(reader)
    except _FaultError as error:
        faults.append(str(error))
    except FileNotFoundError:
        faults.append(f"{name}: there is no such file")
    except (OSError, csv.Error) as error:
        faults.append(f"{name}: cannot be read: {error}")
    except ValueError as error:  # from reading text: begins with the line
        faults.append(f"{name}:{error}")
    return found


def checked_cases(raw: Iterable[RawCase], faults: list[str]) -> tuple[Case, ...]:
    """Cases with sound and distinct ids; every other is a fault that names both places."""
    cases: list[Case] = []
    seen: dict[str, RawCase] = {}
    for one in raw:
        place = f"{one.source}:{one.line}" if one.line else one.source
        name = one.fields.get("id")
        if name is None:
            hint = " (keys of the task itself stand above the first [[case]])" if "[[case]]" in one.source else ""
            faults.append(f"{place}: the case has no id{hint}")
            continue
        if not isinstance(name, str):
            faults.append(f"{place}: the id {name!r} should be a string: write it in quotes")
            continue
        if fault := id_fault(name):
            faults.append(f"{place}: case {fault}")
            continue
        if dates := [key for key, value in one.fields.items() if isinstance(value, date | datetime | time)]:
            faults.append(f"{place}: case {name}: {dates[0]} is a date; write it in quotes, as text")
            continue
        twin = seen.get(name.casefold())
        if twin is not None:
            same = (
                "is given twice"
                if twin.fields["id"] == name
                else f"differs from {twin.fields['id']!r} only in letter case"
            )
            faults.append(f"{place}: case id {name!r} {same}; the other is at {twin.source}:{twin.line}")
            continue
        seen[name.casefold()] = one
        fields = {key: value for key, value in one.fields.items() if key != "id"}
        cases.append(Case(name, fields, one.source, one.line))
    return tuple(cases)


def _from_jsonl(path: Path, name: str, faults: list[str]) -> Iterator[RawCase]:
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line, parse_constant=_no_constant)
        except ValueError as error:
            faults.append(f"{name}:{number}: not JSON: {error}")
            continue
        if not isinstance(fields, dict):
            faults.append(f'{name}:{number}: each line should be an object with an id, as in {{"id": "t01"}}')
            continue
        yield RawCase(fields, name, number)


def _no_constant(token: str) -> None:
    raise ValueError(f"{token} is not JSON")


def _from_csv(path: Path, name: str) -> Iterator[RawCase]:
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True)
    columns = reader.fieldnames or []
    if "id" not in columns:
        raise _FaultError(
            f"{name}:1: the first row should name the columns, and one of them should be id; found {', '.join(columns) or 'nothing'}"
        )
    if len(set(columns)) != len(columns):
        raise _FaultError(f"{name}:1: a column is named twice")
    for row in reader:
        if None in row or None in row.values():
            raise _FaultError(f"{name}:{reader.line_num}: {len(columns)} values expected, as in the first row")
        yield RawCase(row, name, reader.line_num)


def _from_toml(path: Path, name: str) -> Iterator[RawCase]:
    content = path.read_bytes()
    document = parse_toml(content)
    lines = KeyLines(content.decode("utf-8"))
    extra = [key for key in document if key != "case"]
    tables = document.get("case", [])
    if extra or not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise _FaultError(
            f"{name}:{lines.of(*extra[:1])}: a file of cases holds [[case]] tables only{f'; found {extra[0]}' if extra else ''}"
        )
    for index, table in enumerate(tables):
        yield RawCase(table, name, lines.of("case", index))


def _from_directory(path: Path, name: str) -> Iterator[RawCase]:
    for directory in sorted(child for child in path.iterdir() if child.is_dir() and not child.name.startswith(".")):
        fields: dict[str, Any] = {}
        for file in sorted(child for child in directory.iterdir() if not child.name.startswith(".")):
            where = f"{name}/{directory.name}/{file.name}"
            if file.is_dir():
                raise _FaultError(f"{where}: a case directory holds files only")
            try:
                found = parse_toml(file.read_bytes()) if file.name == CASE_FILE else {_field(file): read_text(file)}
            except ValueError as error:
                raise _FaultError(f"{where}:{error}") from None
            if twice := fields.keys() & found.keys():
                raise _FaultError(f"{where}: the field {sorted(twice)[0]!r} is given twice in this case")
            fields |= found
        if fields.setdefault("id", directory.name) != directory.name:
            raise _FaultError(
                f"{name}/{directory.name}/{CASE_FILE}: the id is the directory's name; found {fields['id']!r}"
            )
        yield RawCase(fields, f"{name}/{directory.name}", 0)


def _field(file: Path) -> str:
    return file.name.split(".")[0].replace("-", "_")
