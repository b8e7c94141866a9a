"""What a pin stands for: the commit or the tree whose files a case is asked about."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_battery.errors import CorpusError, GitError

__all__ = ["Corpus", "Resolved", "commit_of", "moved", "short"]

_HEX = re.compile(r"[0-9a-f]{7,64}\Z")
_WHOLE = (40, 64)
_NEAR = 5
"""Tags that are named where a pin is unknown."""

Ask = Callable[..., bytes]
"""Git in the repository at hand: arguments in, what it prints out; raises `CorpusError` or `GitError`."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Where the files are, and which state of them.

    ``source`` is a repository on this machine, a git bundle, or a plain directory.  ``pin`` is a tag or a commit; of a plain
    directory it is the digest of its files, and may be left out.
    """

    source: Path
    pin: str | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """A corpus with its pin looked up.

    ``tree`` is git's name of the files, the same wherever they come from; ``commit`` is None for a plain directory.  ``tag`` is
    the tag that was asked for, and None where a commit was.
    """

    corpus: Corpus
    kind: Literal["repository", "bundle", "directory"]
    tree: str
    commit: str | None = None
    tag: str | None = None

    @property
    def digest(self) -> str:
        """What of the corpus a measurement depends on."""
        return self.tree

    @property
    def asked(self) -> str:
        """The pin as it was asked for, and what it is, for people."""
        name = short(self.commit or self.tree)
        return f"{self.tag} ({name})" if self.tag else name


def short(name: str) -> str:
    return name[:10]


def moved(resolved: Resolved, recorded: str) -> str | None:
    """How the pin stands for something else than the commit (or the tree, of a plain directory) that was *recorded* when it
    was measured; None where it doesn't."""
    now = resolved.commit or resolved.tree
    if now == recorded:
        return None
    source = resolved.corpus.source
    if resolved.tag is not None:
        return f"the tag {resolved.tag} of {source} was moved: it stood for {short(recorded)}, and stands for {short(now)} now"
    if resolved.commit is None:
        return f"the files of {source} were changed: they were {short(recorded)}, and are {short(now)} now"
    return f"the corpus {source} was pinned at {short(recorded)}, and is pinned at {short(now)} now"


def commit_of(ask: Ask, corpus: Corpus) -> tuple[str, str | None]:
    """The commit that the pin stands for in the repository that *ask* asks, and the tag if it is one.

    A tag goes before a commit whose name begins like it.  Raises `CorpusError`, naming the pins that there are.
    """
    pin, source = corpus.pin, corpus.source
    tags = _refs(ask, "refs/tags/")
    if pin is None:
        raise CorpusError(f"the corpus {source} has no pin: name a tag or a commit{_there(ask, '', tags)}")
    name = pin.removeprefix("refs/tags/")
    if name in tags and len(pin) not in _WHOLE:
        return _peeled(ask, corpus, tags[name], f"the tag {name}"), name
    if _HEX.match(pin):
        try:
            whole = ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{pin}^{{object}}").decode().strip()
        except (CorpusError, GitError):
            raise CorpusError(_unknown(ask, corpus, pin, tags)) from None
        return _peeled(ask, corpus, whole, pin), None
    branches = _refs(ask, "refs/heads/") | _refs(ask, "refs/remotes/")
    branch = branches.get(pin) or branches.get(pin.removeprefix("refs/heads/").removeprefix("refs/remotes/"))
    if branch is not None:
        raise CorpusError(
            f"{pin} is a branch of {source}, and a branch moves: pin the commit it is at now, {branch}, or a tag"
        )
    raise CorpusError(_unknown(ask, corpus, pin, tags))


def _refs(ask: Ask, below: str) -> dict[str, str]:
    """Newest first: name, without *below*, to object."""
    listed = ask("for-each-ref", "--sort=-creatordate", "--format=%(objectname) %(refname)", below)
    rows = (line.split(" ", 1) for line in listed.decode("utf-8", "surrogateescape").splitlines())
    return {name.removeprefix(below): sha for sha, name in rows}


def _peeled(ask: Ask, corpus: Corpus, sha: str, called: str) -> str:
    try:
        return ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{sha}^{{commit}}").decode().strip()
    except (CorpusError, GitError):
        raise CorpusError(
            f"{called} of {corpus.source} stands for {short(sha)}, which is no commit, or is missing from the repository"
        ) from None


def _unknown(ask: Ask, corpus: Corpus, pin: str, tags: Mapping[str, str]) -> str:
    return f"{corpus.source} has no tag or commit {pin!r}{_there(ask, pin, tags)}"


def _there(ask: Ask, pin: str, tags: Mapping[str, str]) -> str:
    """Which pins somebody may have meant, the likeliest first."""
    near = difflib.get_close_matches(pin, tags, n=_NEAR, cutoff=0.6)
    named = list(dict.fromkeys([*near, *list(tags)[:_NEAR]]))[:_NEAR]
    guess = f"; did you mean {near[0]!r}?" if near else ""
    others = f"{guess or ';'} its tags are {', '.join(named)}" if named else "; it has no tag"
    if len(tags) > len(named):
        others += f" and {len(tags) - len(named)} more"
    try:
        head = ask("rev-parse", "--verify", "--quiet", "--end-of-options", "HEAD^{commit}").decode().strip()
    except (CorpusError, GitError):
        return others
    return f"{others}; its HEAD is {head}"
