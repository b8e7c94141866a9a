"""Whose files they are: a sandbox's own user while it runs, ours before and after.  No link is ever followed."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_battery.errors import SandboxError

__all__ = ["given_to", "taken_back"]


def given_to(uid: int, places: Iterable[Path]) -> None:
    """Everything at and below *places* belongs to *uid*.

    Raises OSError, and `SandboxError` for a file that has another name elsewhere: it would be given away there as well, and
    be written through.  A local clone of git is full of them.
    """
    places = list(places)
    for place in places:
        _refuse_shared(place)
    for place in places:
        for path in _all(place):
            os.lchown(path, uid, uid)


def taken_back(places: Iterable[Path]) -> None:
    """Everything is ours again, and its directories ours to list and to empty; what vanishes meanwhile is no matter."""
    for place in places:
        for path in _all(place, unlocked=True):
            if os.geteuid() == 0:
                with contextlib.suppress(FileNotFoundError):
                    os.lchown(path, 0, os.getegid())  # this also takes away what would make it run as its owner


def _refuse_shared(place: Path) -> None:
    seen: dict[tuple[int, int], tuple[int, int, str]] = {}
    for path in _all(place):
        found = os.lstat(path)
        if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
            names = seen.get((found.st_dev, found.st_ino), (0, 0, ""))[0]
            seen[found.st_dev, found.st_ino] = (names + 1, found.st_nlink, path)
    for names, links, path in seen.values():
        if names < links:
            raise SandboxError(
                f"{path} is one file with another that is not in {place}, which the sandbox could write: copy it "
                "(git clone --no-hardlinks)"
            )


def _all(place: Path, unlocked: bool = False) -> Iterator[str]:
    """*place* and what is below it.  With *unlocked*, directories that an agent closed are opened: they would be walked, and
    deleted, by nobody."""
    pending = [str(place)]
    while pending:
        path = pending.pop()
        yield path
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            mode = os.lstat(path).st_mode
            if not stat.S_ISDIR(mode):
                continue
            if unlocked and mode & stat.S_IRWXU != stat.S_IRWXU:
                os.chmod(path, stat.S_IMODE(mode) | stat.S_IRWXU)
            with os.scandir(path) as entries:
                pending += [entry.path for entry in entries]
