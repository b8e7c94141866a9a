"""Whether a repository is as it was before a run: what an agent must never reach, proved afterwards."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_battery.edges.corpora.trees import shown
from pytest_battery.edges.corpora.workspaces import is_repository
from pytest_battery.edges.git import git

__all__ = ["Likeness", "likeness", "touched"]

_CHUNK = 1 << 20
_NAMED = 5
_PARTS = (
    b"HEAD",
    b"config",
    b"config.worktree",
    b"hooks",
    b"info",
    b"objects/info/alternates",
    b"packed-refs",
    b"refs",
    b"shallow",
)

Stat = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Likeness:
    """What identifies a repository's state, by part: ``.git/HEAD``, ``.git/refs/heads/main``, ``the index``, ``src/a.py``.

    ``contents`` are digests; ``stats`` are what let a file go unread the second time.
    """

    top: Path
    contents: Mapping[bytes, str]
    stats: Mapping[bytes, Stat]


def likeness(top: Path, *, but: Iterable[Path] = (), earlier: Likeness | None = None) -> Likeness:
    """Take the likeness of the repository or plain directory at *top*.

    It is of HEAD, the refs, the index, the configuration, the hooks, and of every file that is tracked, or neither tracked nor
    ignored, with its mode; *but* are places that the session itself writes to.  A file whose size, times and inode are those
    of *earlier* is not read again.  Raises `GitError` where git refuses the repository.
    """
    contents: dict[bytes, str] = {}
    stats: dict[bytes, Stat] = {}
    places = [os.fsencode(os.path.abspath(place)) for place in but]
    root = os.fsencode(os.path.abspath(top))
    repository = is_repository(top)
    for name, path in _files(top, root) if repository else _plain(root):
        if not any(path == place or path.startswith(place + b"/") for place in places):
            _look(name, path, contents, stats, earlier)
    if repository:
        contents[b"the index"] = hashlib.sha256(git(top, "ls-files", "--stage", "-z")).hexdigest()
    return Likeness(top, contents, stats)


def touched(before: Likeness, after: Likeness) -> tuple[str, ...]:
    """What differs between two likenesses of one place, in words; empty where it is untouched."""
    told = []
    sides: tuple[tuple[str, Callable[[bytes], bool]], ...] = (
        ("changed", lambda name: name in before.contents and name in after.contents),
        ("deleted", lambda name: name not in after.contents),
        ("new", lambda name: name not in before.contents),
    )
    differing = sorted(
        name for name in {*before.contents, *after.contents} if before.contents.get(name) != after.contents.get(name)
    )
    for what, belongs in sides:
        names = [name for name in differing if belongs(name)]
        told += [f"{shown(name)} is {what}" for name in names[:_NAMED]]
        if len(names) > _NAMED:
            told.append(f"{len(names) - _NAMED} more are {what}")
    return tuple(told)


def _plain(root: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(name for people, path) of every file of a directory, or of the one file that it is."""
    for path in _below(root):
        yield os.path.relpath(path, os.path.dirname(root) if path == root else root), path


def _files(top: Path, root: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The same of everything that is looked at in a repository."""
    for name, place in _own_places(top, root):
        for path in _below(place):
            yield name + path[len(place) :], path
    if git(top, "rev-parse", "--is-inside-work-tree").strip() == b"true":
        listed = git(top, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        for name in sorted(set(listed.split(b"\0")[:-1])):
            yield name, os.path.join(root, name)


def _own_places(top: Path, root: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Where the parts of the repository itself are; a worktree has some of its own, and shares the others."""
    own, shared = (
        os.path.normpath(os.path.join(root, git(top, "rev-parse", which).removesuffix(b"\n")))
        for which in ("--git-dir", "--git-common-dir")
    )
    for part in _PARTS:
        yield b".git/" + part, os.path.join(own, part)
        if shared != own:
            yield b"the shared .git/" + part, os.path.join(shared, part)


def _below(path: bytes) -> Iterator[bytes]:
    """*path*, if it is no directory, else what is in it; links are not followed."""
    try:
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
    except NotADirectoryError:
        yield path
        return
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _below(entry.path)
        else:
            yield entry.path


def _look(
    name: bytes, path: bytes, contents: dict[bytes, str], stats: dict[bytes, Stat], earlier: Likeness | None
) -> None:
    try:
        status = os.lstat(path)
    except OSError:
        return  # a tracked file that is not there
    now = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode)
    stats[name] = now
    if earlier is not None and earlier.stats.get(name) == now:
        contents[name] = earlier.contents[name]
    else:
        contents[name] = f"{status.st_mode:o} {_content(path, status.st_mode)}"


def _content(path: bytes, mode: int) -> str:
    """A digest of what a file holds, or of where a link points to.  Of others, and of what can't be read, there is none."""
    try:
        if stat.S_ISLNK(mode):
            return hashlib.sha256(os.readlink(path)).hexdigest()
        if not stat.S_ISREG(mode):
            return ""
        read = hashlib.sha256()
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            while chunk := file.read(_CHUNK):
                read.update(chunk)
        return read.hexdigest()
    except OSError as error:
        return f"unread: {error.errno}"
