"""A clone that left something behind says what to fetch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_battery.edges.git import resolve
from pytest_battery.edges.store.revisions import RevisionStore
from pytest_battery.errors import GitError

from ..git_repository import Repository
from .looking import CELL, LaneMaker, reading, replies


@pytest.fixture
def shallow(measured: Repository, tmp_path: Path) -> Repository:
    """A clone of one commit of a repository that has two branches and a tag."""
    measured("tag", "v1")
    measured("branch", "feature/x")
    measured.commit("second")
    return _cloned(measured, tmp_path / "clone", "--depth=1", "--no-tags")


def _cloned(origin: Repository, to: Path, *options: str) -> Repository:
    origin("clone", "--quiet", *options, origin.path.as_uri(), str(to))
    return Repository(to, init=False)


@pytest.mark.parametrize("name", ["origin/feature/x", "remotes/origin/feature/x", "refs/remotes/origin/feature/x"])
def test_a_branch_that_a_shallow_clone_lacks_can_be_fetched_as_told(
    shallow: Repository, lane: LaneMaker, name: str
) -> None:
    with pytest.raises(GitError) as caught:
        resolve(shallow.path, name)
    said, _, command = str(caught.value).partition("; fetch it: ")
    assert said == f"there is no revision {name} here"
    assert command == "git fetch --depth=1 origin feature/x:refs/remotes/origin/feature/x"
    shallow(*command.split()[1:])
    assert replies(reading(shallow, name), lane("a")) == {1: "a 1", 2: "a 2", 12: "a 12"}


@pytest.mark.parametrize("name", ["HEAD~1", "origin/main~1", "the first commit"])
def test_history_that_a_shallow_clone_lacks_can_be_fetched_as_told(
    measured: Repository, shallow: Repository, name: str
) -> None:
    first = measured("rev-parse", "v1")
    name = first if name == "the first commit" else name
    with pytest.raises(GitError) as caught:
        resolve(shallow.path, name)
    command = "git fetch --unshallow"
    assert str(caught.value) == f"there is no revision {name} in this shallow clone; fetch the history: {command}"
    shallow(*command.split()[1:])
    assert resolve(shallow.path, name).commit == first


def test_a_whole_clone_is_not_made_shallow_by_what_is_told(measured: Repository, tmp_path: Path) -> None:
    clone = _cloned(measured, tmp_path / "clone")
    measured("branch", "later")
    with pytest.raises(GitError, match=r"fetch it: git fetch origin later:refs/remotes/origin/later$"):
        resolve(clone.path, "origin/later")


@pytest.fixture
def partial(measured: Repository, tmp_path: Path) -> Repository:
    """A clone that left the files where they were."""
    measured("config", "uploadpack.allowFilter", "true")
    return _cloned(measured, tmp_path / "clone", "--no-checkout", "--filter=blob:none")


def test_what_a_partial_clone_lacks_can_be_fetched_as_told(partial: Repository, lane: LaneMaker) -> None:
    for read in (RevisionStore.prove_readable, lambda store: store.every_run(lane("a").permutation)):
        with pytest.raises(GitError, match=r"is a partial clone that lacks object [0-9a-f]{40}") as caught:
            read(reading(partial))
    command = str(caught.value).partition("; fetch what it lacks: ")[2]
    assert command == "git fetch --refetch --no-filter origin"
    partial(*command.split()[1:])
    assert replies(reading(partial), lane("b")) == {1: "b 1"}


def test_nothing_is_fetched_whatever_the_repository_says(partial: Repository, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    partial("config", "remote.origin.url", f"ext::touch {marker}")
    partial("config", "protocol.ext.allow", "always")
    missing = partial("rev-parse", f"HEAD:store/{CELL}/a-1.json")
    with pytest.raises(subprocess.CalledProcessError):
        partial("cat-file", "blob", missing)
    assert marker.exists()  # git by itself does run it
    marker.unlink()
    with pytest.raises(GitError, match="partial clone"):
        reading(partial).prove_readable()
    assert not marker.exists()
