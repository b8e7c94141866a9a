"""Bytes to record: what is ours, what is newer, what is neither."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from pytest_battery.edges.store.parts import Parts
from pytest_battery.edges.store.writing import unsealed
from pytest_battery.errors import NewerSchemaError
from pytest_battery.values.records import SCHEMA, Record

__all__ = ["Problem", "Stored", "parse_record", "read_record"]


_MOST = 1 << 18  # bytes; no more than a few records in a store are longer
_PARTS = Parts()
HALF = "is not whole JSON; it is measured again"


@dataclass(frozen=True, slots=True)
class Problem:
    """A file in the store that is not counted, and why."""

    path: Path
    kind: Literal["foreign", "half-written", "not-a-record", "misplaced", "leftover", "newer"]
    what: str


@dataclass(frozen=True, slots=True)
class Stored:
    """A record, and the file it stands in."""

    path: Path
    record: Record


def read_record(path: str) -> Record | Problem | None:
    """The record in the file *path*, the problem with it, or None where there is no file.

    Raises `NewerSchemaError` for a record that a newer version wrote.
    """
    try:
        content = _content(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return Problem(Path(path), "not-a-record", f"cannot be read: {error.strerror}")
    return parse_record(path, content)


def _content(path: str) -> bytes:
    """The file's bytes, by three system calls: a file object makes twice as many."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(descriptor, _MOST)
        while len(content) >= _MOST and (more := os.read(descriptor, _MOST)):
            content += more
    finally:
        os.close(descriptor)
    return content


def parse_record(path: Path | str, content: bytes) -> Record | Problem:
    """The record that *content* holds.  Raises `NewerSchemaError`."""
    content, fits = unsealed(content)
    known = _PARTS.parse(content) if fits else None
    if known is not None:
        record = known
    else:
        try:
            record = Record.model_validate_json(content)
        except ValidationError as error:
            return _problem(path, content, error)
        if fits:
            _PARTS.learn(content, record)
    if not fits:
        record = record.model_copy(update={"edited": True})
    if b"NaN" in content or b"Infinity" in content:  # in a text, or under a key of which pydantic knows nothing
        try:
            json.loads(content, parse_constant=_no_constant)
        except ValueError:
            return Problem(Path(path), "half-written", HALF)
    return record


def _problem(path: Path | str, content: bytes, error: ValidationError) -> Record | Problem:
    try:
        document = json.loads(content, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return Problem(Path(path), "half-written", HALF)
    schema = document.get("schema") if isinstance(document, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise NewerSchemaError(
            f"{path}: written by a newer version of pytest-battery (schema {schema}; this one reads up to {SCHEMA}). "
            "Update pytest-battery, or move the file away; it is neither read nor overwritten"
        )
    if error.errors(include_url=False, include_input=False)[0]["type"] == "json_invalid":
        # Whole JSON all the same: pydantic's reader refuses the lone surrogates that a model may well answer with.
        try:
            return Record.model_validate(document)
        except ValidationError as second:
            error = second
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return Problem(Path(path), "not-a-record", f"is not a record: {where}: {first['msg']}")


def _no_constant(token: str) -> None:
    raise ValueError(f"{token} is not JSON")
