"""Whole files or none: a neighbour is written, flushed to the disk, and takes the name."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pytest_battery.errors import StoreWriteError

__all__ = [
    "TEMPORARY",
    "Pending",
    "json_bytes",
    "json_line",
    "record_bytes",
    "refusals_named",
    "temporary_name",
    "unsealed",
    "write_plain",
    "write_whole",
]

SEAL = "seal"
_SEAL_LINE = re.compile(rb'  "seal": "([0-9a-f]{16})",\r?\n')

_FIRST, _NAMED = secrets.randbits(32), itertools.count()
_json = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False).encode  # made once, not for each value
TEMPORARY = ".tmp-"
"""How names of files still being written begin: ``.tmp-PID-RANDOM``."""


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """Strict JSON, sorted keys, two spaces, LF, one final newline.  Raises ValueError for NaN and infinities."""
    text = json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return _encoded(text) + b"\n"


def json_line(document: Mapping[str, Any]) -> bytes:
    """The same on one line."""
    return _encoded(_json(document)) + b"\n"


def record_bytes(document: Mapping[str, Any]) -> bytes:
    """The same with a line for each key of the record: what differs is still seen, and it is written in a third of
    the time and half of the space.  One more line, ``seal``, is the digest of the others."""
    lines = [_key(key) + _json(document[key]) for key in sorted(document)]
    content = _encoded("{\n" + ",\n".join(lines) + "\n}\n")
    place = sum(key < SEAL for key in document)
    if place == len(lines):
        return content  # no whole record: it would end with the seal
    sealed = [*lines[:place], f'  "{SEAL}": "{_digest(content).decode()}"', *lines[place:]]
    return _encoded("{\n" + ",\n".join(sealed) + "\n}\n")


@cache
def _key(key: str) -> str:
    return f"  {_json(key)}: "


def unsealed(content: bytes) -> tuple[bytes, bool]:
    """A record's file without its seal, and whether that fits; it does where there is none.

    Line ends that git has changed are not a change.
    """
    found = _SEAL_LINE.search(content)
    if found is None:
        return content, True
    rest = content[: found.start()] + content[found.end() :]
    fits = found[1] == _digest(rest) or (b"\r\n" in rest and found[1] == _digest(rest.replace(b"\r\n", b"\n")))
    return rest, fits


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=8).hexdigest().encode()


def _encoded(text: str) -> bytes:
    # A lone surrogate has no UTF-8; backslashreplace writes it as \\udXXX, which is how JSON spells it.
    return text.encode("utf-8", "backslashreplace")


def temporary_name() -> str:
    """A new one; processes on two machines may have one number, so each begins to count somewhere else."""
    return f"{TEMPORARY}{os.getpid()}-{(_FIRST + next(_NAMED)) % 2**32:08x}"


class Pending:
    """*content* on its way to *path*, in three steps: `write` it beside, `sync` it, `name` it.

    Each raises OSError, and leaves no neighbour behind then.  Where several are on their way, it is quicker to take each
    step for all of them: the first `sync` then does most of the others' work.
    """

    def __init__(self, path: Path, content: bytes) -> None:
        self._path, self._content = path, content
        self._neighbour = ""
        self._descriptor = -1

    def write(self) -> None:
        neighbour = f"{self._path.parent}/{temporary_name()}"
        self._descriptor = _new(neighbour)
        self._neighbour = neighbour
        with self._dropped_if_refused():
            _write_all(self._descriptor, self._content)

    def sync(self) -> None:
        with self._dropped_if_refused():
            os.fsync(self._descriptor)

    def name(self) -> None:
        with self._dropped_if_refused():
            os.replace(self._neighbour, self._path)
        os.close(self._descriptor)

    @contextlib.contextmanager
    def _dropped_if_refused(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            with contextlib.suppress(OSError):
                os.unlink(self._neighbour)
            raise


def write_whole(path: Path, content: bytes) -> None:
    """Put *content* at *path*, whole or not at all.  Raises OSError; leaves no neighbour behind."""
    pending = Pending(path, content)
    pending.write()
    pending.sync()
    pending.name()


def write_plain(path: str, content: bytes) -> None:
    """Write *content* to a new file that nobody reads yet.  Raises OSError."""
    descriptor = _new(path)
    try:
        _write_all(descriptor, content)
    finally:
        os.close(descriptor)


# By system calls alone: a file object makes twice as many, and each lets go of the interpreter's lock.


def _new(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


@contextlib.contextmanager
def refusals_named(path: Path) -> Iterator[None]:
    """Turn an OSError into `StoreWriteError` naming the file and what the system said."""
    try:
        yield
    except OSError as error:
        raise StoreWriteError(
            f"{path}: could not be written: {error.strerror or error}. Earlier records are intact"
        ) from error
