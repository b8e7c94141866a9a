"""What lies in a directory, as git would keep it, found out without git: no link is followed, and nothing can make it wait.

Whoever left the directory may have put anything there: a FIFO for a ``.gitignore``, a repository within, a file of a terabyte.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_battery.edges.corpora.hermetic import own_git
from pytest_battery.errors import CorpusError

__all__ = ["Found", "Walk", "content_of", "git_name", "ignored", "index_lines", "shown", "walk", "write_blob"]

_CHUNK = 1 << 20
_LONGEST = 4000  # bytes of a whole path; the system's own bound is 4096
_IGNORE = b".gitignore"
_IGNORE_LARGEST = 100_000


@dataclass(frozen=True, slots=True)
class Found:
    """A file or a link: ``path`` from the top, with ``/``; ``mode`` as git has it; ``size`` in bytes."""

    path: bytes
    mode: str
    size: int


@dataclass(frozen=True, slots=True)
class Walk:
    """Everything found, by path; ``notes`` say what is there and can't be kept."""

    found: tuple[Found, ...]
    notes: tuple[str, ...]


def walk(top: Path, most: int) -> Walk:
    """All files and links below *top*, but for what is called ``.git`` in whatever spelling.

    Raises `CorpusError` where *top* is no directory, or where more than *most* are found.
    """
    root = os.fsencode(top)
    found: list[Found] = []
    notes: list[str] = []
    if top.is_symlink() or not top.is_dir():
        raise CorpusError(f"{top} is no directory")
    pending = [b""]
    seen = 0
    while pending:
        below = pending.pop()
        try:
            entries = sorted(os.scandir(os.path.join(root, below)), key=lambda entry: entry.name)
        except OSError as error:
            notes.append(f"{shown(below) or '.'} cannot be looked into: {error.strerror}")
            continue
        for entry in entries:
            seen += 1
            if seen > most:
                raise CorpusError(f"{top} holds more than {most} files and directories")
            path = os.path.join(below, entry.name)
            if entry.name.lower() == b".git":
                if below or entry.name != b".git":
                    notes.append(f"{shown(path)} is a repository's own, and is left out")
            elif len(root) + len(path) > _LONGEST:
                notes.append(f"{shown(path[:60])}... is deeper down than a path can say, and is left out")
            elif entry.is_dir(follow_symlinks=False):
                pending.append(path)
            elif isinstance(one := _one(entry, path), Found):
                found.append(one)
            else:
                notes.append(one)
    return Walk(tuple(sorted(found, key=lambda one: one.path)), tuple(sorted(notes)))


def _one(entry: os.DirEntry[bytes], path: bytes) -> Found | str:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        return f"{shown(path)} cannot be read: {error.strerror}"
    if stat.S_ISLNK(status.st_mode):
        if entry.name.lower() == b".gitmodules":
            return f"{shown(path)} is a link, which git does not keep under that name; it is left out"
        return Found(path, "120000", status.st_size)
    if stat.S_ISREG(status.st_mode):
        return Found(path, "100755" if status.st_mode & stat.S_IXUSR else "100644", status.st_size)
    return f"{shown(path)} is a {_kind(status.st_mode)}, and is left out"


def _kind(mode: int) -> str:
    return "FIFO" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"


def shown(path: bytes) -> str:
    """*path* for a message: what is no printable text is escaped."""
    text = path.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


# -- contents --------------------------------------------------------------------------------------


def git_name(top: Path, one: Found, algorithm: str) -> str:
    """The name git gives its content: the digest of ``blob``, a space, the size, a NUL and the content.  Raises OSError."""
    if one.mode == "120000":
        return _name(os.readlink(os.path.join(os.fsencode(top), one.path)), algorithm)
    name = hashlib.new(algorithm, b"blob %d\0" % one.size, usedforsecurity=False)
    left = one.size
    with _opened(top, one) as descriptor:
        while left and (chunk := os.read(descriptor.number, min(left, _CHUNK))):
            name.update(chunk)
            left -= len(chunk)
    if left:
        raise OSError(0, "it became shorter while it was read")
    return name.hexdigest()


def content_of(top: Path, one: Found) -> bytes:
    """The whole content of a file, or where a link points to.  Raises OSError."""
    if one.mode == "120000":
        return os.readlink(os.path.join(os.fsencode(top), one.path))
    chunks = []
    with _opened(top, one) as descriptor:
        while chunk := os.read(descriptor.number, _CHUNK):
            chunks.append(chunk)
    return b"".join(chunks)


class _opened:
    """A regular file, opened without following a link and without waiting for a writer."""

    def __init__(self, top: Path, one: Found) -> None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        self.number = os.open(os.path.join(os.fsencode(top), one.path), flags)
        if not stat.S_ISREG(os.fstat(self.number).st_mode):
            os.close(self.number)
            raise OSError(0, "it is no file any more")

    def __enter__(self) -> _opened:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.number)


def _name(content: bytes, algorithm: str) -> str:
    return hashlib.new(algorithm, b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def write_blob(objects: Path, content: bytes, algorithm: str) -> str:
    """Keep *content* as a loose object below *objects*, where git finds it by the name that is returned."""
    name = _name(content, algorithm)
    path = objects / name[:2] / name[2:]
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zlib.compress(b"blob %d\0" % len(content) + content, 1))
    return name


def index_lines(entries: Iterable[tuple[str, str, bytes]]) -> bytes:
    """(mode, name, path) as ``git update-index -z --index-info`` reads them."""
    return b"".join(b"%s %s\t%s\0" % (mode.encode(), name.encode(), path) for mode, name, path in entries)


# -- ignoring --------------------------------------------------------------------------------------


def ignored(git_dir: Path, top: Path, found: Sequence[Found]) -> frozenset[bytes]:
    """The paths that the ``.gitignore`` files among *found*, and git's ``info/exclude``, leave out.

    Git is shown a copy of those files and nothing else, so that nothing in *top* can lead it astray.
    """
    rules = [one for one in found if os.path.basename(one.path) == _IGNORE and one.mode != "120000"]
    asked = b"".join(b"./%s\0" % one.path for one in found)  # a colon at the beginning would be more than a name's
    with tempfile.TemporaryDirectory(prefix="battery-ignore-") as scratch:
        for one, content in _readable(top, rules):
            path = os.path.join(os.fsencode(scratch), one.path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
        told = own_git(
            git_dir,
            "check-ignore",
            "-z",
            "--stdin",
            "--no-index",
            cwd=Path(scratch),
            stdin=asked,
            variables={"GIT_WORK_TREE": scratch, "GIT_LITERAL_PATHSPECS": "0"},
            allowed=(0, 1),
        )
    return frozenset(path.removeprefix(b"./") for path in told.split(b"\0")[:-1])


def _readable(top: Path, rules: Sequence[Found]) -> Iterator[tuple[Found, bytes]]:
    for one in rules:
        if one.size <= _IGNORE_LARGEST:
            try:
                yield one, content_of(top, one)
            except OSError:
                continue
