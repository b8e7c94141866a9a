"""The stack that a name stands for: its bricks found, and their content taken down."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_battery.edges.manifest.loading import MANIFEST, fault_at
from pytest_battery.edges.manifest.tables import BrickTable, Manifest
from pytest_battery.errors import ManifestError
from pytest_battery.values.canonical import digest
from pytest_battery.values.stacks import AGENTS, BARE, NONE, Stack, StackBrick, stack

__all__ = ["stack_of"]

_ACCIDENTS = frozenset({".DS_Store", ".git", "__pycache__"})
"""What lies in a directory on one machine and not on another."""
_MOST_FILES = 20_000
_MOST_BYTES = 200_000_000
_CHUNK = 1 << 20


def stack_of(manifest: Manifest, key: str, agent: str, root: Path, versions: Mapping[str, str] | None = None) -> Stack:
    """The stack *key* of *agent*, in the project at *root*; ``bare`` needs no manifest.

    *versions* are what an agent is used in where the manifest doesn't say.  Raises `ManifestError` with every fault: a stack
    or an agent that is not known, one of another agent, a brick that is missing, leaves the project, or can't be read.
    """
    path = root / MANIFEST
    version = (versions or {}).get(agent)
    if agent not in AGENTS:
        raise ManifestError(path, [f"there is no agent {agent!r}{_meant(agent, AGENTS)} agents: {', '.join(AGENTS)}"])
    if key == BARE:
        return stack(BARE, agent, version)
    table = manifest.stacks.get(key)
    if table is None:
        raise ManifestError(path, [_unknown(manifest, key)])
    if table.agent != agent:
        what = f"is {table.agent!r}, and the task is for {agent!r}: a stack is measured under its own agent"
        raise ManifestError(path, [fault_at(root, ("stacks", key, "agent"), what)])
    faults = []
    bricks = []
    for index, written in enumerate(table.bricks):
        try:
            bricks.append(_found(written, root))
        except ValueError as error:
            faults.append(fault_at(root, ("stacks", key, "bricks", index), str(error)))
    if faults:
        raise ManifestError(path, faults)
    return stack(key, agent, table.version or version, bricks)


def _unknown(manifest: Manifest, key: str) -> str:
    if key == NONE.key:
        return f"{MANIFEST}: the stack {NONE.key} is for plain calls; an agent without bricks is {BARE}"
    known = [*manifest.stacks, BARE]
    return f"{MANIFEST}: there is no stack {key!r}{_meant(key, known)} known: {', '.join(known)}"


def _meant(name: str, known: list[str] | tuple[str, ...]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ";"


def _found(written: BrickTable, root: Path) -> StackBrick:
    """Raises ValueError, saying what is wrong with the brick."""
    path = root / written.path
    try:
        inside = path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        inside = False
    if not inside:
        raise ValueError(f"is {written.path!r}, which leaves the project at {root}")
    if not path.exists():
        raise ValueError(f"names {written.path}, and there is no such file or directory")
    try:
        content = _package(path) or _content(path, root)
    except OSError as error:
        raise ValueError(f"names {written.path}, which cannot be read: {error.strerror}") from None
    return StackBrick(written.kind, written.path, content, path)


def _package(path: Path) -> str | None:
    """Name and version of a package that was installed there; None for what is no package, or is the project's own."""
    if "node_modules" not in path.parts or not path.is_dir():
        return None
    try:
        told = json.loads((path / "package.json").read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(told, dict) or not all(isinstance(told.get(key), str) for key in ("name", "version")):
        return None
    return f"{told['name']}@{told['version']}"


def _content(path: Path, root: Path) -> str:
    """A digest of a file, or of every file below a directory with its path; the same in every checkout."""
    if path.is_file():
        return digest(["file", _file(path)])
    entries: list[list[str]] = []
    size = 0
    for name, entry in _below(path):
        mode = entry.lstat().st_mode
        size += entry.lstat().st_size
        if len(entries) >= _MOST_FILES or size > _MOST_BYTES:
            raise ValueError(f"holds more than {_MOST_FILES} files or {_MOST_BYTES} bytes, which is no brick")
        if stat.S_ISLNK(mode):
            if not entry.resolve().is_relative_to(root.resolve()):
                raise ValueError(f"holds the link {name}, which leaves the project at {root}")
            entries.append([name, "link", os.fsdecode(os.readlink(entry))])
        elif stat.S_ISREG(mode):
            entries.append([name, "x" if mode & stat.S_IXUSR else "-", _file(entry)])
        else:
            raise ValueError(f"holds {name}, which is neither a file nor a directory")
    if not entries:
        raise ValueError("names a directory that holds no file")
    return digest(["directory", entries])


def _below(top: Path) -> Iterator[tuple[str, Path]]:
    """Files and links below *top*, by their paths from there, sorted; links are not followed."""
    found = []
    for directory, names, files in os.walk(top, onerror=_raise):
        names[:] = [name for name in names if name not in _ACCIDENTS]
        links = [name for name in names if Path(directory, name).is_symlink()]
        for name in [*files, *links]:
            if name not in _ACCIDENTS:
                path = Path(directory, name)
                found.append((path.relative_to(top).as_posix().encode("utf-8", "backslashreplace").decode(), path))
        if len(found) > _MOST_FILES:
            break
    return iter(sorted(found))


def _raise(error: OSError) -> None:
    raise error


def _file(path: Path) -> str:
    read = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            read.update(chunk)
    return read.hexdigest()
