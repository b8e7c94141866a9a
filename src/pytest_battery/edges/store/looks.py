"""The ledger of looks: ``looks.jsonl`` in the store, one line a look, only ever appended to."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from pytest_battery.edges.store.reading import Problem
from pytest_battery.edges.store.writing import json_line, refusals_named
from pytest_battery.values.looks import Look

__all__ = ["LOOKS", "append_looks", "read_looks"]

LOOKS = "looks.jsonl"


def read_looks(root: Path) -> tuple[list[Look], list[Problem]]:
    """All looks in the store at *root*, in order, and the lines that are none."""
    path = root / LOOKS
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [Problem(path, "not-a-record", f"cannot be read: {error.strerror}")]
    looks, problems = [], []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            looks.append(Look.model_validate_json(line))
        except ValidationError:
            problems.append(Problem(path, "not-a-record", f"line {number} is no look"))
    return looks, problems


def append_looks(root: Path, looks: Iterable[Look]) -> None:
    """Add *looks* at the end, in one write, so that two sessions cannot mix their lines.  Raises `StoreWriteError`."""
    content = b"".join(json_line(look.model_dump(mode="json")) for look in looks)
    path = root / LOOKS
    with refusals_named(path):
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            size = os.fstat(file).st_size
            if size and os.pread(file, 1, size - 1) != b"\n":  # a line that was cut short stays a line of its own
                content = b"\n" + content
            os.write(file, content)
        finally:
            os.close(file)
