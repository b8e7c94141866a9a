"""Whose files they are: a sandbox's own user while it runs, ours before and after.  No link is ever followed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["given_to", "taken_back"]


def given_to(uid: int, places: Iterable[Path]) -> None:
    """Everything at and below *places* belongs to *uid*.  Raises OSError."""
    for place in places:
        _owned(place, uid)


def taken_back(places: Iterable[Path]) -> None:
    """Everything is ours again, and ours to read and to delete; what vanishes meanwhile is no matter."""
    for place in places:
        with contextlib.suppress(OSError):
            _owned(place, os.geteuid())


def _owned(place: Path, uid: int) -> None:
    root = os.geteuid() == 0
    if root:
        os.lchown(place, uid, uid)
    if place.is_dir() and not place.is_symlink():
        for directory, names, files in os.walk(place, followlinks=False):
            for name in (*names, *files):
                path = os.path.join(directory, name)
                if root:
                    os.lchown(path, uid, uid)
            for name in names:
                path = os.path.join(directory, name)
                if not os.path.islink(path) and not os.access(path, os.R_OK | os.X_OK):
                    os.chmod(path, 0o700)  # an agent may have locked a directory: it would be walked by nobody
