"""Git, asked about objects only: nothing is checked out, no hook runs, no variable of the caller's environment counts."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import subprocess
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import IO

from pytest_battery.errors import GitError

__all__ = ["Entry", "Objects", "Revision", "git", "resolve", "sizes", "tree"]

_COMMAND = ("git", "--no-pager", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
_AT_ONCE = 64  # names of objects in one question: they fit the smallest pipe, so that writing them never waits
_UNREADABLE = 100  # objects over which git may give up before the repository is given up
_NO_OBJECT = "Needed a single revision"  # git's words for a name that stands for nothing
_BRANCH = re.compile(r"[\w./-]+\Z")  # no ~, ^, @{: what can be fetched by its name
_SHA = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\Z")


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


# -- running ---------------------------------------------------------------------------------------


def git(directory: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """What git prints, run in *directory*.  Raises `GitError` with what it complains of."""
    done = _done(directory, *arguments, stdin=stdin)
    if done.returncode:
        raise GitError(f"git: {_complaint(done, directory)}")
    return done.stdout


def _done(directory: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    with _starting(directory):
        return subprocess.run(
            [*_COMMAND, *arguments],
            cwd=directory,
            input=stdin,
            env=_environment(),
            capture_output=True,
            check=False,
        )


@contextlib.contextmanager
def _starting(directory: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        where = "is not installed" if directory.is_dir() else f"cannot run in {directory}: there is no such directory"
        raise GitError(f"git {where}") from None
    except OSError as error:
        raise GitError(f"git cannot be run in {directory}: {error.strerror}") from None


def _environment() -> dict[str, str]:
    """The caller's, without what would make git look elsewhere, ask a person, fetch, or take a lock."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {
        "LC_ALL": "C",
        "GIT_ALLOW_PROTOCOL": "none",  # older versions fetch what a partial clone lacks, whatever the next line says
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }


def _complaint(done: subprocess.CompletedProcess[bytes], directory: Path) -> str:
    """What git said on its error stream, in one line."""
    said = done.stderr.decode("utf-8", "replace")
    if foreign := re.search(r"--add safe\.directory (.+)", said):
        return (
            "the repository belongs to another user, and git does not read it; if you trust it: "
            f"git config --global --add safe.directory {foreign[1]}"
        )
    if "not a git repository (or any" in said:
        return f"{directory} is in no git repository"
    if "must be run in a work tree" in said:
        return f"{directory} is in a bare git repository, and has no working tree to find a store in"
    lines = [line.split(": ", 1)[1] for line in said.splitlines() if line.startswith(("error: ", "fatal: "))]
    return "; ".join(dict.fromkeys(lines)) or said.strip() or f"ended with {done.returncode} and not a word"


# -- revisions -------------------------------------------------------------------------------------


def resolve(directory: Path, name: str) -> Revision:
    """The commit that *name* stands for in the repository around *directory*; a tag stands for its commit.

    Raises `GitError`; for what a clone left behind it says what to fetch.
    """
    if not name or name.startswith(("-", "^")) or any(ord(letter) < 32 for letter in name):
        raise GitError(f"{name!r} cannot be a git revision")
    shown = git(directory, "rev-parse", "--show-toplevel").decode("utf-8", "surrogateescape")
    top = Path(shown.removesuffix("\n")).resolve()
    commit = _commit(top, name)
    header = git(top, "cat-file", "commit", commit).decode("utf-8", "replace").partition("\n\n")[0]
    committer = re.search(r"^committer .* (\d+) [+-]\d{4}$", header, re.MULTILINE)
    try:
        committed_at = datetime.fromtimestamp(int(committer[1]) if committer else -1, UTC)
    except (OverflowError, ValueError, OSError):
        committed_at = None
    if committer is None or committed_at is None:
        raise GitError(f"{name} is {commit}, and that commit does not say when it was made")
    return Revision(name, commit, committed_at, top)


def _commit(top: Path, name: str) -> str:
    verify = ("-c", "core.disambiguate=committish", "rev-parse", "--verify", "--end-of-options")
    done = _done(top, *verify, name)
    if done.returncode:
        complaint = _complaint(done, top)
        raise GitError(_unknown(top, name) if complaint == _NO_OBJECT else f"{name}: {complaint}")
    sha = done.stdout.decode().strip()
    done = _done(top, *verify, f"{sha}^{{commit}}")
    if not done.returncode:
        return done.stdout.decode().strip()
    complaint = _complaint(done, top)
    if "expected commit type" in complaint:
        raise GitError(f"{name} is no commit in the repository at {top}")
    if complaint == _NO_OBJECT and _SHA.match(name):  # whole names are believed before the object is looked for
        raise GitError(_unknown(top, name))
    what = "missing" if complaint == _NO_OBJECT else f"corrupt: {complaint}"
    raise GitError(f"{name} is {sha} in the repository at {top}, and that object is {what}")


def _unknown(top: Path, name: str) -> str:
    shallow = git(top, "rev-parse", "--is-shallow-repository").strip() == b"true"
    tracked = name.removeprefix("refs/").removeprefix("remotes/")
    for remote in git(top, "remote").decode("utf-8", "replace").split():
        branch = tracked.removeprefix(f"{remote}/")
        if branch not in ("", tracked) and _BRANCH.match(branch):
            fetch = f"git fetch {'--depth=1 ' if shallow else ''}{remote} {branch}:refs/remotes/{tracked}"
            return f"there is no revision {name} here; fetch it: {fetch}"
    if shallow:
        return f"there is no revision {name} in this shallow clone; fetch the history: git fetch --unshallow"
    if not _done(top, "rev-list", "--max-count=1", "--all").stdout:
        return f"there is no revision {name}: the repository at {top} has no commit yet"
    return f"there is no revision {name} in the repository at {top}"


# -- objects ---------------------------------------------------------------------------------------


def tree(revision: Revision, prefix: str) -> list[Entry]:
    """All files below the directory *prefix* of the revision, ``.`` for all.  Raises `GitError`."""
    below = [] if prefix == "." else [prefix]
    try:
        listed = git(revision.top, "ls-tree", "-r", "-z", "--full-tree", revision.commit, "--", *below)
    except GitError as error:
        raise GitError(f"the files of {revision.name} ({revision.short}) cannot be listed: {error}") from None
    entries = []
    for line in listed.split(b"\0")[:-1]:
        head, _, path = line.partition(b"\t")
        mode, kind, sha = head.decode().split()
        what = "submodule" if kind == "commit" else "link" if mode == "120000" else "file"
        entries.append(Entry(path.decode("utf-8", "surrogateescape"), sha, what))
    return entries


def sizes(revision: Revision, shas: Sequence[str]) -> list[int | None]:
    """Bytes of each object, in order; None for one that is missing or cannot be read.  Raises `GitError`."""
    if not shas:
        return []
    asked = "".join(f"{sha}\n" for sha in shas).encode()
    lines = git(revision.top, "cat-file", "--batch-check=%(objectsize)", stdin=asked).decode().splitlines()
    return [int(line) if line.isdigit() else None for line in lines]


class Objects:
    """The contents of a repository's files, read through one git process that lasts as long as this does.

    For one thread at a time.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[[subprocess.Popen[bytes]], Objects] | None = None
        self._unreadable = 0

    def read(self, shas: Sequence[str]) -> Iterator[bytes | None]:
        """The content of each object, in order; None for one that is missing, corrupt, or no file.

        Raises `GitError` where git cannot be asked, or where a partial clone lacks the object.
        """
        for start in range(0, len(shas), _AT_ONCE):
            wanted = shas[start : start + _AT_ONCE]
            while wanted:
                try:
                    found = self._exchange(wanted)
                except BaseException:
                    self.close()  # an answer may be half read: the next question needs another process
                    raise
                if len(found) < len(wanted):
                    self._gave_up(wanted[len(found)])
                    found.append(None)
                if None in found:
                    self._refuse_partial(wanted[found.index(None)])
                yield from found
                wanted = wanted[len(found) :]

    def close(self) -> None:
        """End the process; a later `read` starts another."""
        if self._end is not None:
            self._end()
        self._process = self._end = None

    def _exchange(self, shas: Sequence[str]) -> list[bytes | None]:
        """The contents of *shas*, up to the one over which git gave up."""
        questions, answers = self._pipes()
        found: list[bytes | None] = []
        with contextlib.suppress(BrokenPipeError):
            questions.write("".join(f"{sha}\n" for sha in shas).encode())
            questions.flush()
        for sha in shas:
            head = answers.readline().split()
            if head[1:] == [b"missing"]:
                found.append(None)
                continue
            size = int(head[2]) if len(head) == 3 and head[2].isdigit() else None
            content = b"" if size is None else answers.read(size + 1)
            if size is None or len(content) != size + 1:
                break
            whole = head[1] == b"blob" and _name_of(content[:-1], len(sha)) == sha
            found.append(content[:-1] if whole else None)
        return found

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        if self._process is None:
            with _starting(self._directory):
                # A session of its own: an interrupt that is meant for the tests does not reach it.
                self._process = subprocess.Popen(
                    [*_COMMAND, "cat-file", "--batch"],
                    cwd=self._directory,
                    env=_environment(),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            self._end = weakref.finalize(self, _ended, self._process)
        questions, answers = self._process.stdin, self._process.stdout
        assert questions is not None
        assert answers is not None
        return questions, answers

    def _gave_up(self, sha: str) -> None:
        """Git ends at some corrupt objects; raises `GitError` where it ended for another reason, or too often."""
        assert self._process is not None
        code = self._process.wait()
        self.close()
        self._unreadable += 1
        if code != 128:
            raise GitError(f"git ended with {code} while object {sha} was read in {self._directory}")
        if self._unreadable > _UNREADABLE:
            raise GitError(
                f"more than {_UNREADABLE} objects of the repository at {self._directory} are corrupt: git fsck"
            )

    def _refuse_partial(self, sha: str) -> None:
        """In a partial clone an object that is not there is no fault of the store's."""
        if self._promisor:
            raise GitError(
                f"the repository at {self._directory} is a partial clone that lacks object {sha}; "
                f"fetch what it lacks: git fetch --refetch --no-filter {self._promisor}"
            )

    @cached_property
    def _promisor(self) -> str:
        """The remote that a partial clone left objects at; empty for a whole clone."""
        listed = _done(self._directory, "config", "--type=bool", "--get-regexp", r"^remote\..*\.promisor$")
        for line in listed.stdout.decode("utf-8", "replace").splitlines():
            if line.endswith(".promisor true"):
                return line.removeprefix("remote.").removesuffix(".promisor true")
        return ""


def _name_of(content: bytes, length: int) -> str:
    """The name git gives a file of *content*: the digest of ``blob``, a space, the size, a NUL and the content.

    SHA-1 in a repository whose names have 40 digits, else SHA-256 (git's hash-function-transition document).
    """
    algorithm = "sha1" if length == 40 else "sha256"
    return hashlib.new(algorithm, b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _ended(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            if pipe is not None:
                pipe.close()
    try:
        process.wait(timeout=1)
    except subprocess.TimeoutExpired:  # a forked process holds the pipe open
        process.kill()
        process.wait()
