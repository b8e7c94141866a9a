"""What a name stands for, and what is said where git cannot tell."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pytest_battery.edges.git import Objects, Revision, git, resolve
from pytest_battery.errors import GitError

from ..git_repository import Repository
from .looking import CELL

# -- what a name stands for ------------------------------------------------------------------------


def test_a_revision_is_a_commit_with_its_date(measured: Repository) -> None:
    revision = resolve(measured.path, "main")
    commit = measured("rev-parse", "HEAD")
    seconds = int(measured("show", "--no-patch", "--format=%ct", "HEAD"))
    assert revision == Revision("main", commit, datetime.fromtimestamp(seconds, UTC), measured.path.resolve())
    assert commit.startswith(revision.short)


def test_a_tag_stands_for_its_commit(measured: Repository) -> None:
    measured("tag", "light")
    measured("tag", "--annotate", "heavy", "-m", "v1")
    measured("tag", "--annotate", "heavier", "heavy", "-m", "a tag of a tag")
    assert measured("rev-parse", "heavy") != measured("rev-parse", "HEAD")
    commits = {resolve(measured.path, name).commit for name in ("light", "heavy", "heavier", "HEAD", "main~0")}
    assert commits == {measured("rev-parse", "HEAD")}


def test_a_detached_head_is_a_revision_like_any(measured: Repository) -> None:
    first = measured("rev-parse", "HEAD")
    measured.commit("second")
    measured("checkout", "--quiet", "--detach", first)
    assert resolve(measured.path, "HEAD").commit == first


def test_a_short_name_prefers_the_commit(measured: Repository) -> None:
    commit = measured("rev-parse", "HEAD")
    blob = next(
        sha
        for number in range(200_000)
        if (sha := _blob_name(str(number).encode())).startswith(commit[:4]) and sha != commit
    )
    number = next(n for n in range(200_000) if _blob_name(str(n).encode()) == blob)
    (measured.path / "same").write_text(str(number))
    assert measured("hash-object", "-w", "same") == blob
    assert resolve(measured.path, commit[:4]).commit == commit


def _blob_name(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@pytest.mark.parametrize("name", ["", "-x", "--help", "^HEAD", "a\nb", "a\0b"])
def test_what_is_no_name_of_a_revision_never_reaches_git(tmp_path: Path, name: str) -> None:
    with pytest.raises(GitError, match="cannot be a git revision"):
        resolve(tmp_path / "nowhere", name)


@pytest.mark.parametrize("name", ["nowhere", "main..HEAD", "origin/main", "main~5", "0" * 40])
def test_an_unknown_revision_is_named(measured: Repository, name: str) -> None:
    with pytest.raises(GitError) as caught:
        resolve(measured.path, name)
    assert str(caught.value) == f"there is no revision {name} in the repository at {measured.path}"


def test_git_says_what_it_lacks_where_it_knows_better(measured: Repository) -> None:
    with pytest.raises(GitError, match=r"@\{upstream\}: no upstream configured for branch 'main'"):
        resolve(measured.path, "@{upstream}")


@pytest.mark.parametrize("name", ["HEAD:store", f"HEAD:store/{CELL}/a-1.json"])
def test_a_tree_or_a_file_is_no_revision(measured: Repository, name: str) -> None:
    with pytest.raises(GitError, match="is no commit in the repository at"):
        resolve(measured.path, name)


def test_a_branch_without_a_commit_has_nothing_yet(repository: Repository) -> None:
    with pytest.raises(GitError, match=r"no revision HEAD: the repository at .* has no commit yet"):
        resolve(repository.path, "HEAD")


@pytest.mark.parametrize(
    "text",
    ["committer a <a> 100000000000000000 +0000\n\nx", "\ncommitter a <a> 1700000000 +0000"],
    ids=["past every calendar", "in the message alone"],
)
def test_a_commit_without_a_date_is_refused(measured: Repository, text: str) -> None:
    tree = measured("rev-parse", "HEAD^{tree}")
    (measured.path / "c").write_text(f"tree {tree}\nauthor a <a> 0 +0000\n{text}\n")
    commit = measured("hash-object", "-t", "commit", "-w", "--literally", "c")
    with pytest.raises(GitError, match="that commit does not say when it was made"):
        resolve(measured.path, commit)


# -- where git cannot be asked ---------------------------------------------------------------------


def test_a_directory_in_no_repository_is_told(tmp_path: Path) -> None:
    with pytest.raises(GitError) as caught:
        resolve(tmp_path, "HEAD")
    assert str(caught.value) == f"git: {tmp_path} is in no git repository"


def test_a_bare_repository_is_told(tmp_path: Path) -> None:
    Repository(tmp_path, init=False)("init", "--quiet", "--bare", "bare")
    with pytest.raises(GitError, match="is in a bare git repository, and has no working tree"):
        resolve(tmp_path / "bare", "HEAD")


def test_a_directory_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(GitError, match=r"git cannot run in .*gone: there is no such directory"):
        resolve(tmp_path / "gone", "HEAD")


def test_git_that_is_not_installed_is_told(measured: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    revision = resolve(measured.path, "HEAD")
    monkeypatch.setenv("PATH", str(measured.path))
    with pytest.raises(GitError, match=r"^git is not installed$"):
        resolve(measured.path, "HEAD")
    with pytest.raises(GitError, match=r"^git is not installed$"):
        list(Objects(revision.top).read([revision.commit]))


def test_somebody_elses_repository_names_the_way_out(
    measured: Repository, before_git: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The switch of git's own tests; it is set here because such a variable of the environment would be taken away.
    before_git('GIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec {git} "$@"')
    monkeypatch.setenv("HOME", str(tmp_path))
    inner = measured.path / "inner"
    inner.mkdir()
    with pytest.raises(GitError) as caught:
        resolve(inner, "HEAD")
    assert str(caught.value) == (
        "git: the repository belongs to another user, and git does not read it; if you trust it: "
        f"git config --global --add safe.directory {measured.path}"
    )


def test_a_corrupt_commit_is_named(measured: Repository) -> None:
    commit = measured("rev-parse", "HEAD")
    measured.damage("HEAD", b"not zlib")
    with pytest.raises(GitError, match=f"^HEAD is {commit} in .*, and that object is corrupt: .*{commit}"):
        resolve(measured.path, "HEAD")


def test_a_missing_commit_is_named(measured: Repository) -> None:
    commit = measured("rev-parse", "HEAD")
    measured.damage("HEAD", None)
    with pytest.raises(GitError, match=f"^HEAD is {commit} in .*, and that object is missing$"):
        resolve(measured.path, "HEAD")


def test_git_is_told_on_its_input_and_answers_in_bytes(measured: Repository) -> None:
    assert git(measured.path, "hash-object", "--stdin", stdin=b"x").strip().decode() == _blob_name(b"x")
