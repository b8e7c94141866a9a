"""Whole files or none: a neighbour is written, flushed to the disk, and takes the name."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_battery.errors import StoreWriteError

__all__ = ["TEMPORARY", "Pending", "json_bytes", "json_line", "record_bytes", "refusals_named", "unsealed", "temporary_name", "write_plain", "write_whole"]

SEAL = "seal"
_SEAL_LINE = re.compile(rb'  "seal": "([0-9a-f]{16})",\r?\n')

TEMPORARY = ".tmp-"
"""How names of files still being written begin: ``.tmp-PID-RANDOM``."""


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """Strict JSON, sorted keys, two spaces, LF, one final newline.  Raises ValueError for NaN and infinities."""
    text = json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return _encoded(text) + b"\n"


def json_line(document: Mapping[str, Any]) -> bytes:
    """The same on one line."""
    return _encoded(json.dumps(document, sort_keys=True, ensure_ascii=False, allow_nan=False)) + b"\n"


def record_bytes(document: Mapping[str, Any]) -> bytes:
    """The same with a line for each key of the record: what differs is still seen, and it is written in a third of
    the time and half of the space.  One more line, ``seal``, is the digest of the others."""
    lines = [
        f"  {json.dumps(key)}: {json.dumps(document[key], sort_keys=True, ensure_ascii=False, allow_nan=False)}"
        for key in sorted(document)
    ]
    content = _encoded("{\n" + ",\n".join(lines) + "\n}\n")
    place = sum(key < SEAL for key in document)
    if place == len(lines):
        return content  # no whole record: it would end with the seal
    sealed = [*lines[:place], f'  "{SEAL}": "{_digest(content).decode()}"', *lines[place:]]
    return _encoded("{\n" + ",\n".join(sealed) + "\n}\n")


def unsealed(content: bytes) -> tuple[bytes, bool]:
    """A record's file without its seal, and whether that fits; it does where there is none.

    Line ends that git has changed are not a change.
    """
    found = _SEAL_LINE.search(content)
    if found is None:
        return content, True
    rest = content[: found.start()] + content[found.end() :]
    return rest, found[1] in (_digest(rest), _digest(rest.replace(b"\r\n", b"\n")))


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=8).hexdigest().encode()


def _encoded(text: str) -> bytes:
    # A lone surrogate has no UTF-8; backslashreplace writes it as \\udXXX, which is how JSON spells it.
    return text.encode("utf-8", "backslashreplace")


def temporary_name() -> str:
    return f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}"


class Pending:
    """*content* written beside *path*: whole, but not yet promised by the disk, and not yet under its name.

    `keep` waits for the disk, which may take milliseconds and nothing of the interpreter.  Raises OSError; leaves no
    neighbour behind then.
    """

    def __init__(self, path: Path, content: bytes) -> None:
        self._path = path
        self._neighbour = f"{path.parent}/{temporary_name()}"
        self._descriptor = _new(self._neighbour)
        try:
            _write_all(self._descriptor, content)
        except BaseException:
            self._drop()
            raise

    def keep(self) -> None:
        try:
            os.fsync(self._descriptor)
            os.replace(self._neighbour, self._path)
        except BaseException:
            self._drop()
            raise
        os.close(self._descriptor)

    def _drop(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
        with contextlib.suppress(OSError):
            os.unlink(self._neighbour)


def write_whole(path: Path, content: bytes) -> None:
    """Put *content* at *path*, whole or not at all.  Raises OSError; leaves no neighbour behind."""
    Pending(path, content).keep()


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
