"""Whole files or none: a neighbour is written, flushed to the disk, and takes the name."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_battery.errors import StoreWriteError

__all__ = ["TEMPORARY", "json_bytes", "json_line", "refusals_named", "temporary_name", "write_whole"]

TEMPORARY = ".tmp-"
"""How names of files still being written begin: ``.tmp-PID-RANDOM``."""


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """Strict JSON, sorted keys, two spaces, LF, one final newline.  Raises ValueError for NaN and infinities."""
    text = json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return _encoded(text) + b"\n"


def json_line(document: Mapping[str, Any]) -> bytes:
    """The same on one line."""
    return _encoded(json.dumps(document, sort_keys=True, ensure_ascii=False, allow_nan=False)) + b"\n"


def _encoded(text: str) -> bytes:
    # A lone surrogate has no UTF-8; backslashreplace writes it as \\udXXX, which is how JSON spells it.
    return text.encode("utf-8", "backslashreplace")


def temporary_name() -> str:
    return f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}"


def write_whole(path: Path, content: bytes) -> None:
    """Put *content* at *path*, whole or not at all.  Raises OSError; leaves no neighbour behind."""
    neighbour = path.parent / temporary_name()
    try:
        descriptor = os.open(neighbour, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(neighbour, path)
    except BaseException:
        with contextlib.suppress(OSError):
            neighbour.unlink()
        raise


@contextlib.contextmanager
def refusals_named(path: Path) -> Iterator[None]:
    """Turn an OSError into `StoreWriteError` naming the file and what the system said."""
    try:
        yield
    except OSError as error:
        raise StoreWriteError(
            f"{path}: could not be written: {error.strerror or error}. Earlier records are intact"
        ) from error
