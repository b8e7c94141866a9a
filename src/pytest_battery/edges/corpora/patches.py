"""What an agent changed, as a patch.  Git never sees the workspace, whose repository is the agent's to write."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_battery.edges.corpora.hermetic import as_alternate, own_git
from pytest_battery.edges.corpora.trees import (
    Found,
    content_of,
    git_name,
    ignored,
    index_lines,
    shown,
    walk,
    write_blob,
)
from pytest_battery.edges.corpora.workspaces import Workspace

__all__ = ["Limits", "Patch", "diff"]

_SLASH = re.compile(b"/")
_SUBMODULE = "160000"


@dataclass(frozen=True, slots=True)
class Limits:
    """``files``: how many files and directories are looked at.  ``file`` and ``all``: bytes of one file that was changed, and
    of all of them together, that a patch takes in."""

    files: int = 200_000
    file: int = 20_000_000
    all: int = 200_000_000


@dataclass(frozen=True, slots=True)
class Patch:
    """``content`` is what ``git apply --binary`` takes, and empty where nothing was changed.  ``notes`` say what it lacks."""

    content: bytes
    notes: tuple[str, ...] = ()


def diff(workspace: Workspace, limits: Limits = Limits()) -> Patch:
    """The workspace against its one commit: changed, deleted and new files, links and modes, binary files whole.

    A file that was renamed is deleted and added.  What a ``.gitignore`` of the workspace leaves out is not in it unless the
    commit has it, and neither is what the workspace excludes.  Repositories within count as the directories they are; FIFOs,
    sockets and files over the limits are left out, as if they had been deleted, and said.

    To be called when nothing in the workspace runs any more.  Raises `CorpusError` where the workspace is gone, or holds too
    many files.
    """
    snapshot = workspace.snapshot
    before = snapshot.entries()
    walked = walk(workspace.path, limits.files)
    excluded = tuple(os.fsencode(path) for path in workspace.excluded)
    looked_at = [one for one in walked.found if not _below(one.path, excluded)]
    new = [one for one in looked_at if one.path not in before]
    left_out = ignored(snapshot.git_dir, workspace.path, _with_rules(new, looked_at))
    kept = [one for one in looked_at if one.path in before or one.path not in left_out]
    with tempfile.TemporaryDirectory(prefix="battery-diff-") as scratch:
        objects = Path(scratch, "objects")
        objects.mkdir()
        after, notes = _taken_in(workspace, kept, before, objects, limits)
        after |= {path: entry for path, entry in before.items() if _below(path, excluded)}
        after |= _submodules(before, after)
        content = b"" if after == before else _compared(workspace, after, objects, scratch)
    return Patch(content, (*walked.notes, *notes))


def _below(path: bytes, tops: tuple[bytes, ...]) -> bool:
    return any(path == top or path.startswith(top + b"/") for top in tops)


def _with_rules(new: list[Found], found: list[Found]) -> list[Found]:
    """What is asked about, and the ``.gitignore`` files that the commit has too."""
    asked = {one.path for one in new}
    rules = [one for one in found if os.path.basename(one.path) == b".gitignore" and one.path not in asked]
    return [*new, *rules]


def _taken_in(
    workspace: Workspace,
    kept: list[Found],
    before: Mapping[bytes, tuple[str, str]],
    objects: Path,
    limits: Limits,
) -> tuple[dict[bytes, tuple[str, str]], list[str]]:
    """The entries of what is kept; contents that the commit doesn't have are written below *objects*."""
    snapshot = workspace.snapshot
    after: dict[bytes, tuple[str, str]] = {}
    notes: list[str] = []
    left = limits.all
    for one in kept:
        try:
            known = before.get(one.path)
            if known is not None and known[0] == _SUBMODULE:
                known = None
            if known is not None and one.size > limits.file and one.size != snapshot.size_of(known[1]):
                known = None  # not read to find out that it is another
            if known is not None and known[1] == git_name(workspace.path, one, snapshot.algorithm):
                after[one.path] = (one.mode, known[1])
            elif one.size > limits.file:
                notes.append(f"{shown(one.path)} has {one.size} bytes, more than a patch takes in, and is left out")
            elif one.size > left:
                notes.append(
                    f"{shown(one.path)} is left out: what was changed has more than {limits.all} bytes together"
                )
            else:
                after[one.path] = (one.mode, write_blob(objects, content_of(workspace.path, one), snapshot.algorithm))
                left -= one.size
        except OSError as error:
            notes.append(f"{shown(one.path)} cannot be read: {error.strerror or error}")
    return after, notes


def _submodules(
    before: Mapping[bytes, tuple[str, str]], after: Mapping[bytes, tuple[str, str]]
) -> dict[bytes, tuple[str, str]]:
    """Those of the commit, unless something was put into their place; their directories are empty, which no tree shows."""
    taken = {path[: at.start()] for path in after for at in _SLASH.finditer(path)} | set(after)
    return {path: entry for path, entry in before.items() if entry[0] == _SUBMODULE and path not in taken}


def _compared(workspace: Workspace, after: Mapping[bytes, tuple[str, str]], objects: Path, scratch: str) -> bytes:
    git_dir = workspace.snapshot.git_dir
    variables = {
        "GIT_INDEX_FILE": os.path.join(scratch, "index"),
        "GIT_OBJECT_DIRECTORY": str(objects),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": as_alternate(git_dir / "objects"),
    }
    lines = index_lines((mode, name, path) for path, (mode, name) in after.items())
    own_git(git_dir, "update-index", "-z", "--index-info", cwd=Path(scratch), stdin=lines, variables=variables)
    return own_git(
        git_dir,
        "diff-index",
        "--cached",
        "--patch",
        "--binary",
        "--full-index",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--ignore-submodules=none",
        "--submodule=short",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        workspace.snapshot.commit,
        "--",
        cwd=Path(scratch),
        variables=variables,
    )
