"""A directory of this user's own, for what processes on this host must agree on while they run."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from pytest_battery.errors import ProviderError

__all__ = ["runtime_directory"]


def runtime_directory() -> Path:
    """``$XDG_RUNTIME_DIR/pytest-battery``, or ``pytest-battery-UID`` among the temporary files; made if missing.

    Raises `ProviderError` where it is not a directory that this user alone can use.
    """
    session = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(session) and os.access(session, os.W_OK) and os.stat(session).st_uid == os.getuid():
        directory = Path(session) / "pytest-battery"
    else:
        directory = Path(tempfile.gettempdir()) / f"pytest-battery-{os.getuid()}"
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        found = directory.lstat()
    except OSError as error:
        raise ProviderError(f"cannot make {directory}, where local models meet: {error.strerror}") from error
    # Among the temporary files anybody could have made it first, to read along or to answer in our place.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ProviderError(
            f"{directory} must be a directory that only user {os.getuid()} can use; found "
            f"{stat.filemode(found.st_mode)} of user {found.st_uid}: remove it, "
            "or point XDG_RUNTIME_DIR at a directory of your own"
        )
    return directory
