"""Taking a file out of a directory that an agent could write to."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path, PurePosixPath

from pytest_battery.edges.agents.streams import Odd

__all__ = ["relative_fault", "take_file"]


def relative_fault(name: str) -> str | None:
    """What is wrong with *name* as the path of a file below a directory."""
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or "\0" in name or not path.parts:
        return f"{name!r} is no path below the agent's directory"
    return None


def take_file(directory: Path, name: str, most: int, odd: Odd) -> bytes | None:
    """The content of the file *name* below *directory*; None where there is none.

    No link is followed on the way: it was made by the agent, and leads where the agent could not read.  What is no plain
    file, or has more than *most* bytes, is told to *odd*.
    """
    with contextlib.ExitStack() as stack:
        try:
            here = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, here)
            *above, last = PurePosixPath(name).parts
            for part in above:
                here = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
                stack.callback(os.close, here)
            # A pipe with nobody at its other end would hold an ordinary open for ever.
            found = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here)
            stack.callback(os.close, found)
            if not stat.S_ISREG(os.fstat(found).st_mode):
                odd.line(1, f"{name} is no plain file")
                return None
            with os.fdopen(os.dup(found), "rb") as file:
                content = file.read(most + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            odd.line(1, f"{name} can't be read: {error.strerror}")
            return None
    if len(content) > most:
        odd.note(f"{name} has more than the {most} bytes that are read of it; passed over")
        return None
    return content
