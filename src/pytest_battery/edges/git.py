"""Git, asked about objects only: nothing is checked out, no hook runs, no variable of the caller's environment counts."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pytest_battery.errors import GitError

__all__ = ["Entry", "Revision", "blobs", "git", "resolve", "tree"]

_SAFE = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.quotePath=false",
    "protocol.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
)


@dataclass(frozen=True, slots=True)
class Revision:
    """A commit, as it was asked for.  ``top`` is the root of the working tree it is seen from."""

    name: str
    commit: str
    committed_at: datetime
    top: Path

    @property
    def short(self) -> str:
        return self.commit[:7]

    def inside(self, path: Path) -> str:
        """*path* as the tree of the revision names it.  Raises `GitError` where it is outside the repository."""
        real = path.resolve()
        if not real.is_relative_to(self.top):
            raise GitError(f"{path} is outside the git repository at {self.top}, so {self.name} cannot hold it")
        return real.relative_to(self.top).as_posix()


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a tree; ``kind`` is ``file``, ``link`` or ``submodule``."""

    path: str
    sha: str
    kind: str


def git(directory: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """What git prints, run in *directory*.  Raises `GitError` with what it complains of."""
    settings = [part for setting in _SAFE for part in ("-c", setting)]
    try:
        done = subprocess.run(
            ["git", "--no-pager", *settings, *arguments],
            cwd=directory,
            input=stdin,
            env=_environment(),
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        where = "is not installed" if directory.is_dir() else f"cannot run in {directory}: there is no such directory"
        raise GitError(f"git {where}") from None
    except OSError as error:
        raise GitError(f"git cannot be run: {error.strerror}") from None
    if done.returncode:
        raise GitError(_complaint(done.stderr.decode("utf-8", "replace"), directory))
    return done.stdout


def _environment() -> dict[str, str]:
    """The caller's, without what would make git look elsewhere, ask a person, fetch, or take a lock."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def _complaint(stderr: str, directory: Path) -> str:
    if "dubious ownership" in stderr:
        return (
            f"the git repository at {directory} belongs to another user, and git does not read it: "
            f"git config --global --add safe.directory {directory}"
        )
    if "not a git repository" in stderr:
        return f"{directory} is in no git repository"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return "git: " + (lines[0].removeprefix("fatal: ").removeprefix("error: ") if lines else "failed without a word")


def resolve(directory: Path, name: str) -> Revision:
    """The commit that *name* stands for in the repository around *directory*; a tag stands for its commit.

    Raises `GitError`; in a shallow clone it says what to fetch.
    """
    if not name or name.startswith("-") or any(ord(letter) < 32 for letter in name):
        raise GitError(f"{name!r} cannot be a git revision")
    top = Path(git(directory, "rev-parse", "--show-toplevel").decode("utf-8", "surrogateescape").rstrip("\n"))
    try:
        found = git(directory, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except GitError:
        raise GitError(_unknown(directory, name)) from None
    commit = found.decode().strip()
    try:
        content = git(directory, "cat-file", "commit", commit).decode("utf-8", "replace")
    except GitError as error:
        raise GitError(f"{name} is {commit}, and that commit cannot be read: {error}") from None
    committer = re.search(r"^committer .* (\d+) [+-]\d{4}$", content, re.MULTILINE)
    if committer is None:
        raise GitError(f"{name} is {commit}, and that is no commit git can read")
    return Revision(name, commit, datetime.fromtimestamp(int(committer.group(1)), UTC), top.resolve())


def _unknown(directory: Path, name: str) -> str:
    shallow = git(directory, "rev-parse", "--is-shallow-repository").strip() == b"true"
    remote, _, branch = name.partition("/")
    remotes = git(directory, "remote").decode().split()
    if branch and remote in remotes:
        return f"there is no revision {name} here; fetch it: git fetch --depth=1 {remote} {branch}:refs/remotes/{name}"
    if shallow:
        return f"there is no revision {name} in this shallow clone; fetch the history: git fetch --unshallow"
    return f"there is no revision {name} in the repository at {directory}"


def tree(revision: Revision, prefix: str) -> list[Entry]:
    """All files below the directory *prefix* of the revision, ``.`` for all.  Raises `GitError`."""
    below = [] if prefix == "." else [prefix]
    listed = git(revision.top, "ls-tree", "-r", "-z", "--full-tree", "--", revision.commit, *below)
    entries = []
    for line in listed.split(b"\0"):
        if not line:
            continue
        head, _, path = line.partition(b"\t")
        mode, kind, sha = head.decode().split()
        what = "submodule" if kind == "commit" else "link" if mode == "120000" else "file"
        entries.append(Entry(path.decode("utf-8", "surrogateescape"), sha, what))
    return entries


def blobs(revision: Revision, shas: Sequence[str]) -> Iterator[bytes | None]:
    """The content of each object, in order; None for one that is missing or cannot be read.  Raises `GitError`."""
    if not shas:
        return
    command = ["cat-file", "--batch"]
    try:
        found = git(revision.top, *command, stdin="".join(f"{sha}\n" for sha in shas).encode())
    except GitError:
        if len(shas) == 1:
            yield None
            return
        half = len(shas) // 2  # git gives up at the first object that is corrupt: look for it
        yield from blobs(revision, shas[:half])
        yield from blobs(revision, shas[half:])
        return
    position = 0
    for _ in shas:
        end = found.index(b"\n", position)
        head = found[position:end].split(b" ")
        position = end + 1
        if len(head) < 3 or not head[2].isdigit():
            yield None
            continue
        size = int(head[2])
        yield found[position : position + size]
        position += size + 1
