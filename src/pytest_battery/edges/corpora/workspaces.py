"""Corpora at their pins, and a fresh workspace of one for every run."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from pytest_battery.edges.corpora.hermetic import own_git
from pytest_battery.edges.corpora.pins import Ask, Corpus, Resolved, commit_of
from pytest_battery.edges.corpora.snapshots import BRANCH, Snapshot, empty_repository, snapshot_of, stored_directory
from pytest_battery.edges.git import git
from pytest_battery.errors import CorpusError

__all__ = ["Corpora", "Workspace", "is_repository"]

_BUNDLE = re.compile(rb"# v[23] git bundle\n")
_HEAD = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64}) (refs/[^\x00-\x20\x7f~^:?*\[\\]+)\Z")
_SPECIAL, _ESCAPED = re.compile(r"([*?\[\\ !#])"), r"\\\1"
"""What means something else than itself in a pattern of git's."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """A clone for one run at ``path``.

    ``snapshot`` is what it was made of, and what it is compared with; the agent never sees it.  ``excluded`` are paths
    from the top that are no part of the agent's work.  ``notes`` say what of the corpus is not there as a person has it.
    """

    path: Path
    snapshot: Snapshot
    excluded: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        return self.snapshot.notes


class Corpora:
    """The corpora of one session, each kept once below the directory *cache*, which has to outlive their workspaces.

    For any number of threads.
    """

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._lock = threading.Lock()
        self._snapshots: dict[str, Snapshot] = {}
        self._unbundled: dict[Path, Path] = {}
        self._resolved: dict[Corpus, tuple[Resolved, Path]] = {}
        self._made = 0

    def resolve(self, corpus: Corpus) -> Resolved:
        """What the pin of *corpus* stands for now; looked up once in the life of this.

        Raises `CorpusError`, for an unknown pin with those that there are, and `GitError` where git refuses the repository.
        """
        with self._lock:
            return self._found(corpus)[0]

    def clone(self, resolved: Resolved, to: Path, exclude: Sequence[str] = ()) -> Workspace:
        """A workspace at *to*, which is not there yet or empty: the files, and one commit of history.

        Nothing of where they come from is in it: no other commit, tag, remote, reflog, stash, hook or path.  Files are written
        byte for byte.  *exclude* are paths from the top, as of bricks, that the workspace's git and `diff` leave out.

        Raises `CorpusError`; nothing is left at *to* then.
        """
        excluded = tuple(_from_the_top(path) for path in exclude)
        with self._lock:
            snapshot = self._snapshot(resolved)
        try:
            if to.is_symlink() or (to.exists() and any(to.iterdir())):
                raise CorpusError(f"a workspace is made in an empty directory, and {to} is not one")
            to.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CorpusError(f"no workspace can be made at {to}: {error.strerror}") from None
        try:
            _copied(snapshot, to / ".git", excluded)
            own_git(
                to / ".git",
                "checkout-index",
                "--all",
                "--index",
                "--quiet",
                cwd=to,
                variables={"GIT_WORK_TREE": str(to)},
            )
        except BaseException as error:
            shutil.rmtree(to, ignore_errors=True)
            if isinstance(error, OSError):
                raise CorpusError(f"no workspace can be made at {to}: {error.strerror}") from None
            raise
        return Workspace(to, snapshot, excluded)

    # -- what they are made of

    def _found(self, corpus: Corpus) -> tuple[Resolved, Path]:
        """The corpus with its pin looked up, and where the objects of its files lie."""
        if (known := self._resolved.get(corpus)) is not None:
            return known
        source = corpus.source
        if is_repository(source):
            ask = partial(git, source)
            objects = Path(ask("rev-parse", "--git-path", "objects").decode("utf-8", "surrogateescape").rstrip("\n"))
            found = _committed(ask, corpus, "repository"), (source / objects).resolve()
        elif source.is_dir():
            found = self._directory(corpus)
        elif source.is_file():
            git_dir = self._bundle(source)
            found = _committed(partial(own_git, git_dir), corpus, "bundle"), git_dir / "objects"
        else:
            raise CorpusError(f"the corpus {source} is not there")
        self._resolved[corpus] = found
        return found

    def _snapshot(self, resolved: Resolved) -> Snapshot:
        """Made once for the same files, whatever they are called."""
        if resolved.tree not in self._snapshots:
            _, objects = self._found(resolved.corpus)
            called = f"{resolved.corpus.source} at {resolved.asked}"
            self._snapshots[resolved.tree] = snapshot_of(self._place("snapshot"), resolved.tree, objects, called)
        return self._snapshots[resolved.tree]

    def _directory(self, corpus: Corpus) -> tuple[Resolved, Path]:
        git_dir = self._place("directory")
        empty_repository(git_dir)
        tree = stored_directory(corpus.source, git_dir)
        if corpus.pin is not None and (len(corpus.pin) < 7 or not tree.startswith(corpus.pin)):
            raise CorpusError(
                f"the files of {corpus.source} are {tree}, and the pin is {corpus.pin!r}: they were changed, or the pin is wrong"
            )
        return Resolved(corpus, "directory", tree), git_dir / "objects"

    def _bundle(self, source: Path) -> Path:
        """The repository that a bundle was unpacked into."""
        if source not in self._unbundled:
            try:
                with source.open("rb") as file:
                    first = file.readline(40)
            except OSError as error:
                raise CorpusError(f"the corpus {source} cannot be read: {error.strerror}") from None
            if not _BUNDLE.match(first):
                raise CorpusError(
                    f"the corpus {source} is a file, and no git bundle: name a repository, a bundle or a directory"
                )
            git_dir = self._place("bundle")
            empty_repository(git_dir)
            try:
                heads = own_git(git_dir, "bundle", "unbundle", str(source.resolve())).decode("utf-8", "surrogateescape")
            except CorpusError as error:
                raise CorpusError(f"the bundle {source} cannot be unpacked: {error}") from None
            named = [found for line in heads.splitlines() if (found := _HEAD.match(line))]
            updates = "".join(f"update {found[2]} {found[1]}\n" for found in named)
            own_git(git_dir, "update-ref", "--stdin", stdin=updates.encode("utf-8", "surrogateescape"))
            self._unbundled[source] = git_dir
        return self._unbundled[source]

    def _place(self, what: str) -> Path:
        self._made += 1
        return self._cache / f"{what}-{self._made}"


def is_repository(source: Path) -> bool:
    """Whether *source* itself is a repository, with a working tree or bare; one around it doesn't count.

    Raises `CorpusError` for a ``.git`` that is none, where git would take the one around it.
    """
    bare = (source / "HEAD").is_file() and all((source / name).is_dir() for name in ("objects", "refs"))
    if not bare and not (source / ".git").exists():
        return False
    if git(source, "rev-parse", "--show-prefix").strip():
        raise CorpusError(f"{source} has a .git that is no repository")
    return True


def _committed(ask: Ask, corpus: Corpus, kind: str) -> Resolved:
    commit, tag = commit_of(ask, corpus)
    tree = ask("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}").decode().strip()
    return Resolved(corpus, "bundle" if kind == "bundle" else "repository", tree, commit, tag)


def _from_the_top(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\n" in path or "\0" in path:
        raise CorpusError(f"{path!r} cannot be excluded from a workspace: write a path from its top, without ..")
    return "/".join(parts)


def _copied(snapshot: Snapshot, git_dir: Path, excluded: Sequence[str]) -> None:
    """A repository that an agent may have for its own: whatever it does to it, the snapshot stays as it is."""
    empty_repository(git_dir, snapshot.algorithm)
    for pack in (snapshot.git_dir / "objects" / "pack").iterdir():
        shutil.copyfile(pack, git_dir / "objects" / "pack" / pack.name)
    shutil.copyfile(snapshot.git_dir / "index", git_dir / "index")
    (git_dir / "refs" / "heads" / BRANCH).write_bytes(f"{snapshot.commit}\n".encode())
    patterns = "".join(f"/{_SPECIAL.sub(_ESCAPED, path)}\n" for path in excluded)
    (git_dir / "info" / "exclude").write_bytes(patterns.encode("utf-8", "surrogateescape"))
