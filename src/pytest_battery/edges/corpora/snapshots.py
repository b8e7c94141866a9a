"""The state of a corpus that is measured, as a repository of one commit, made once and out of every agent's reach."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_battery.edges.corpora.hermetic import ATTRIBUTES, as_alternate, own_git
from pytest_battery.edges.corpora.trees import Found, content_of, ignored, index_lines, shown, walk, write_blob
from pytest_battery.errors import CorpusError

__all__ = ["BRANCH", "Snapshot", "empty_repository", "snapshot_of", "stored_directory"]

BRANCH = "main"
_MOST_FILES = 500_000
_LARGEST_OF_DIRECTORY = 200_000_000
_LFS = b"version https://git-lfs.github.com/spec/"
_LFS_SIZES = range(100, 1025)  # what the format's specification allows a pointer
_NAMED = 3
_AUTHOR = "battery"
_DATE = "946684800 +0000"  # the first second of 2000: the commit's name is the same on every machine and day


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``git_dir`` holds one commit, on a branch, in one pack, and an index of it.

    ``notes`` say what of the files is not as a person would have it: submodules, and what Git LFS keeps elsewhere.
    """

    git_dir: Path
    commit: str
    tree: str
    notes: tuple[str, ...]

    @property
    def algorithm(self) -> str:
        return "sha1" if len(self.commit) == 40 else "sha256"

    def entries(self) -> dict[bytes, tuple[str, str]]:
        """Mode and object of every file, link and submodule, by path."""
        listed = own_git(self.git_dir, "ls-tree", "-r", "-z", "--full-tree", self.commit)
        rows = (line.partition(b"\t") for line in listed.split(b"\0")[:-1])
        return {path: (head[:6].decode(), head.split()[2].decode()) for head, _, path in rows}

    def size_of(self, name: str) -> int:
        """Bytes of the object of that name."""
        return int(own_git(self.git_dir, "cat-file", "-s", name))


def empty_repository(git_dir: Path, algorithm: str = "sha1") -> None:
    """A repository without commit, hook, remote or template.  Raises `CorpusError`."""
    try:
        for name in ("objects/pack", "objects/info", "refs/heads", "info"):
            (git_dir / name).mkdir(parents=True)
        version, extension = (
            ("0", "") if algorithm == "sha1" else ("1", f"[extensions]\n\tobjectFormat = {algorithm}\n")
        )
        identity = f"[user]\n\tname = {_AUTHOR}\n\temail = {_AUTHOR}@localhost\n"
        core = f"[core]\n\trepositoryFormatVersion = {version}\n\tfileMode = true\n\tbare = false\n\tautocrlf = false\n"
        _write(git_dir / "config", core + extension + identity)
        _write(git_dir / "HEAD", f"ref: refs/heads/{BRANCH}\n")
        _write(git_dir / "info" / "attributes", ATTRIBUTES)
        _write(git_dir / "info" / "exclude", "")
    except OSError as error:
        raise CorpusError(f"no repository can be made at {git_dir}: {error.strerror}") from None


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode())


def snapshot_of(git_dir: Path, tree: str, objects: Path, called: str) -> Snapshot:
    """Make a snapshot at *git_dir*, which is not there yet, of *tree*, whose objects lie in the object directory *objects*.

    Raises `CorpusError`; *called* is the corpus in its messages.
    """
    algorithm = "sha1" if len(tree) == 40 else "sha256"
    empty_repository(git_dir, algorithm)
    borrowed = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": as_alternate(objects)}
    identity = {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", _AUTHOR), ("EMAIL", f"{_AUTHOR}@localhost"), ("DATE", _DATE))
    }
    try:
        commit = own_git(
            git_dir, "commit-tree", tree, "-m", "The corpus as it is pinned", variables=borrowed | identity
        ).decode().strip()  # fmt: skip
        own_git(
            git_dir,
            "pack-objects",
            "--quiet",
            "--revs",
            str(git_dir / "objects" / "pack" / "pack"),
            stdin=f"{commit}\n".encode(),
            variables=borrowed,
        )
        own_git(git_dir, "update-ref", f"refs/heads/{BRANCH}", commit)
        own_git(git_dir, "read-tree", commit)
    except CorpusError as error:
        raise CorpusError(
            f"{called} cannot be had whole: {error}; a partial clone lacks files: git fetch --refetch --no-filter"
        ) from None
    for directory in (git_dir / "objects").glob("??"):  # the commit, which is in the pack too
        for file in directory.iterdir():
            file.unlink()
        directory.rmdir()
    return Snapshot(git_dir, commit, tree, _notes(git_dir, commit))


# -- notes -----------------------------------------------------------------------------------------


def _notes(git_dir: Path, commit: str) -> tuple[str, ...]:
    listed = own_git(git_dir, "ls-tree", "-r", "-l", "-z", "--full-tree", commit)
    submodules: list[bytes] = []
    small: list[tuple[bytes, bytes]] = []
    for line in listed.split(b"\0")[:-1]:
        head, _, path = line.partition(b"\t")
        _, kind, sha, size = head.split()
        if kind == b"commit":
            submodules.append(path)
        elif int(size) in _LFS_SIZES:
            small.append((path, sha))
    notes = []
    if submodules:
        notes.append(f"{_counted(submodules, 'submodule is', 'submodules are')} left empty: {_named(submodules)}")
    if pointers := _pointers(git_dir, small):
        files = _counted(pointers, "file is", "files are")
        notes.append(f"{files} the pointer that Git LFS leaves in their place, and not fetched: {_named(pointers)}")
    return tuple(notes)


def _pointers(git_dir: Path, small: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
    content = own_git(git_dir, "cat-file", "--batch", stdin=b"".join(sha + b"\n" for _, sha in small)) if small else b""
    found, at = [], 0
    for path, _ in small:
        end = content.index(b"\n", at)
        size = int(content[at:end].split()[2])
        if content.startswith(_LFS, end + 1):
            found.append(path)
        at = end + 1 + size + 1
    return found


def _counted(paths: Sequence[bytes], one: str, many: str) -> str:
    return f"{len(paths)} {one if len(paths) == 1 else many}"


def _named(paths: Sequence[bytes]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(shown(path) for path in paths[:_NAMED]) + more


# -- plain directories -----------------------------------------------------------------------------


def stored_directory(source: Path, git_dir: Path) -> str:
    """Keep the files of a plain directory as objects of the repository at *git_dir*; the name of their tree.

    What its own ``.gitignore`` files leave out is left out.  Raises `CorpusError`, also for what git can't keep.
    """
    walked = walk(source, _MOST_FILES)
    left_out = ignored(git_dir, source, walked.found)
    kept = [one for one in walked.found if one.path not in left_out]
    if not kept:
        raise CorpusError(f"the corpus {source} holds no file")
    if walked.notes:
        raise CorpusError(f"the corpus {source} cannot be kept whole: {'; '.join(walked.notes[:_NAMED])}")
    for one in kept:
        if one.size > _LARGEST_OF_DIRECTORY:
            raise CorpusError(f"{shown(one.path)} of the corpus {source} is larger than {_LARGEST_OF_DIRECTORY} bytes")
    return _tree(git_dir, [(one.mode, _stored(source, one, git_dir), one.path) for one in kept])


def _stored(source: Path, one: Found, git_dir: Path) -> str:
    try:
        return write_blob(git_dir / "objects", content_of(source, one), "sha1")
    except OSError as error:
        raise CorpusError(f"{shown(one.path)} of the corpus {source} cannot be read or kept: {error}") from None


def _tree(git_dir: Path, entries: Sequence[tuple[str, str, bytes]]) -> str:
    with tempfile.TemporaryDirectory(prefix="battery-index-") as scratch:
        index = {"GIT_INDEX_FILE": os.path.join(scratch, "index")}
        own_git(git_dir, "update-index", "-z", "--index-info", stdin=index_lines(entries), variables=index)
        return own_git(git_dir, "write-tree", variables=index).decode().strip()
