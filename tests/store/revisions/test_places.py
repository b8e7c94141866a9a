"""Where the store lies, and what surrounds git."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_battery.edges.git import resolve
from pytest_battery.edges.store.revisions import RevisionStore, export
from pytest_battery.errors import GitError

from ..git_repository import Repository
from .looking import CELL, LaneMaker, reading, replies

# -- where the store lies --------------------------------------------------------------------------


def test_a_store_below_the_repositorys_root_is_found_from_a_subdirectory(
    repository: Repository, kept: Callable[..., Path], lane: LaneMaker
) -> None:
    project = repository.path / "sub" / "project"
    kept(project / "store", reply="inner")
    kept(repository.path / "store", reply="outer")
    kept(repository.path / "sub" / "project" / "storeroom", reply="neighbour")
    repository.commit()
    store = RevisionStore(resolve(project, "HEAD"), project / "store")
    assert replies(store, lane()) == {1: "inner"}
    assert [str(one.path) for one in store.walk()] == [f"HEAD:sub/project/store/{CELL}/a-1.json"]


def test_the_repositorys_root_can_be_the_store(
    repository: Repository, kept: Callable[..., Path], lane: LaneMaker
) -> None:
    kept(repository.path, reply="here")
    repository.commit()
    assert replies(reading(repository, store="."), lane()) == {1: "here"}


@pytest.mark.parametrize("name", ["my store", "støre", "[st]ore*", ":(top)x", "a\tb\nc", '"quoted"', "a\\b", "\udcff"])
def test_any_name_of_a_directory_is_taken_as_it_is(
    repository: Repository, kept: Callable[..., Path], lane: LaneMaker, name: str
) -> None:
    kept(repository.path / name, reply="found")
    repository.commit()
    assert replies(reading(repository, store=name), lane()) == {1: "found"}


def test_cases_with_spaces_and_letters_of_any_language_are_found(
    repository: Repository, kept: Callable[..., Path], lane: LaneMaker
) -> None:
    for case in ("größe 1", "例", "a-1", "a-1-2"):
        kept(repository.path / "store", case, 3, reply=case)
    repository.commit()
    store = reading(repository)
    assert store.cases(lane().permutation.cell) == ("a-1", "a-1-2", "größe 1", "例")
    assert [replies(store, lane(case)) for case in ("größe 1", "a-1")] == [{3: "größe 1"}, {3: "a-1"}]


def test_a_linked_worktree_reads_the_same_objects(measured: Repository, lane: LaneMaker, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    measured("worktree", "add", "--quiet", str(linked), "-b", "side")
    store = RevisionStore(resolve(linked, "main"), linked / "store")
    assert store.revision.top == linked.resolve()
    assert replies(store, lane("b")) == {1: "b 1"}


def test_a_path_through_a_link_is_the_path_it_leads_to(measured: Repository, lane: LaneMaker, tmp_path: Path) -> None:
    alias = tmp_path / "alias"
    alias.symlink_to(measured.path, target_is_directory=True)
    store = RevisionStore(resolve(alias, "HEAD"), alias / "store")
    assert replies(store, lane("b")) == {1: "b 1"}


def test_a_store_outside_the_repository_is_refused(measured: Repository, tmp_path: Path) -> None:
    for root in (tmp_path / "store", measured.path / ".." / "store", tmp_path / "repository-2" / "store"):
        with pytest.raises(GitError, match=r"store is outside the git repository at .*, so HEAD cannot hold it"):
            RevisionStore(resolve(measured.path, "HEAD"), root)


@pytest.mark.parametrize("at_root", ["nothing", "a file", "a link"])
def test_a_revision_without_a_store_names_both(measured: Repository, at_root: str) -> None:
    path = measured.path / "elsewhere"
    if at_root == "a file":
        path.write_text("x")
    elif at_root == "a link":
        (measured.path / "store").mkdir()
        path.symlink_to("store")
    commit = measured.commit()
    path.unlink(missing_ok=True)
    store = reading(measured, store="elsewhere")
    assert list(store.walk()) == []
    with pytest.raises(GitError) as caught:
        store.prove_readable()
    assert str(caught.value).startswith(f"HEAD ({commit[:7]}) has no record in elsewhere: ")


def test_names_of_sha_256_are_read_too(tmp_path: Path, kept: Callable[..., Path], lane: LaneMaker) -> None:
    repository = Repository(tmp_path, init=False)
    repository("init", "--quiet", "--object-format=sha256")
    kept(tmp_path / "store", reply="x")
    assert len(repository.commit()) == 64
    assert replies(reading(repository), lane()) == {1: "x"}


# -- what surrounds git is harmless ----------------------------------------------------------------


def test_variables_of_git_are_harmless(
    measured: Repository, lane: LaneMaker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_COMMON_DIR",
        "GIT_NAMESPACE",
        "GIT_CEILING_DIRECTORIES",
        "GIT_EXEC_PATH",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_PARAMETERS",
        "GIT_TRACE",
    ):
        monkeypatch.setenv(name, str(tmp_path / "nonsense"))
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert replies(reading(measured), lane("b")) == {1: "b 1"}
    assert not (tmp_path / "nonsense").exists()


def test_the_repositorys_hooks_and_programs_are_not_run(measured: Repository, lane: LaneMaker, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {marker}\ncat\n")
    program.chmod(0o755)
    hooks = measured.path / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc"):
        (hooks / hook).symlink_to(program)
    for key in ("core.fsmonitor", "core.pager", "core.sshCommand", "gpg.program", "filter.f.smudge", "diff.f.textconv"):
        measured("config", key, str(program))
    measured("config", "log.showSignature", "true")
    (measured.path / ".git" / "info" / "attributes").write_text("* filter=f diff=f\n")
    measured("status")
    assert marker.exists()  # git by itself does run one of them
    marker.unlink()
    store = reading(measured)
    store.prove_readable()
    assert replies(store, lane("b")) == {1: "b 1"}
    export(store.revision, measured.path, tmp_path / "into")
    assert not marker.exists()


def test_nothing_in_the_repository_changes(measured: Repository, lane: LaneMaker, tmp_path: Path) -> None:
    def seen() -> dict[str, tuple[int, int]]:
        files = (path for path in measured.path.rglob("*") if path.is_file())
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in files}

    before = seen()
    store = reading(measured)
    replies(store, lane("a"))
    export(store.revision, measured.path / "store", tmp_path / "into")
    assert seen() == before


def test_a_replaced_object_is_read_as_it_was_committed(measured: Repository, lane: LaneMaker) -> None:
    measured("replace", f"HEAD:store/{CELL}/b-1.json", f"HEAD:store/{CELL}/a-1.json")
    assert replies(reading(measured), lane("b")) == {1: "b 1"}
