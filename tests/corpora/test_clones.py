"""A clone holds the files of the pin, byte for byte, one commit, and nothing else."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_battery.edges.corpora import Corpora, Corpus, Workspace
from pytest_battery.errors import CorpusError

from ..store.git_repository import Repository

Clone = Callable[..., Workspace]


def files_of(top: Path) -> dict[str, tuple[str, bytes]]:
    """What lies below *top*, but for its repository."""
    found = {}
    for directory, names, files in os.walk(top):
        if ".git" in names:
            names.remove(".git")
        for name in [*files, *(name for name in names if Path(directory, name).is_symlink())]:
            path = Path(directory, name)
            link = path.is_symlink()
            mode = "link" if link else "x" if path.stat().st_mode & 0o100 else "-"
            found[path.relative_to(top).as_posix()] = (
                mode,
                os.fsencode(os.readlink(path)) if link else path.read_bytes(),
            )
    return found


def inside(workspace: Workspace) -> Repository:
    return Repository(workspace.path, init=False)


def test_a_clone_holds_the_files_of_the_pin(shop: Repository, clone: Clone) -> None:
    assert files_of(clone(shop.path, "v1").path) == {
        "a.py": ("-", b"now = 1\n"),
        "src/b.txt": ("-", b"one\r\ntwo\n"),
        "run.sh": ("x", b"#!/bin/sh\n"),
        "link": ("link", b"src/b.txt"),
        "bytes.bin": ("-", bytes(range(256))),
    }


def test_a_clone_has_one_commit_and_nothing_is_to_be_committed(shop: Repository, clone: Clone) -> None:
    git = inside(clone(shop.path, "v1"))
    assert git("log", "--all", "--format=%an %ae %aI %s %D") == (
        "battery battery@localhost 2000-01-01T00:00:00+00:00 The corpus as it is pinned HEAD -> main"
    )
    assert git("status", "--porcelain", "--ignored") == ""
    assert git("fsck", "--full", "--strict", "--unreachable") == ""
    assert git("rev-parse", "HEAD^{tree}") == shop("rev-parse", "v1^{tree}")


@pytest.mark.parametrize(
    "asked",
    [("tag",), ("remote",), ("stash", "list"), ("reflog", "--all"), ("for-each-ref", "refs/tags", "refs/remotes")],
)
def test_a_clone_knows_nothing_else(shop: Repository, clone: Clone, asked: tuple[str, ...]) -> None:
    assert shop(*asked) or asked[0] == "reflog"
    assert inside(clone(shop.path, "v1"))(*asked) == ""


def test_no_object_of_another_commit_is_in_a_clone(shop: Repository, clone: Clone) -> None:
    git = inside(clone(shop.path, "v1"))
    held = set(git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split())
    for name in ("v1", "v1^{commit}", "v1~1", "v2", "v2:future.py", "v1~1:a.py", "stash@{0}:a.py"):
        assert shop("rev-parse", name) not in held
    assert shop("rev-parse", "v1:a.py") in held


def test_no_path_of_this_machine_is_in_a_clone(shop: Repository, clone: Clone, tmp_path: Path) -> None:
    made = clone(shop.path, "v1", ("harness/AGENTS.md",)).path / ".git"
    for path in made.rglob("*"):
        assert not path.is_symlink()
        if path.is_file():
            content = path.read_bytes()
            assert os.fsencode(tmp_path) not in content, path
            assert b"shop" not in content or path.name == "index", path
    assert sorted(path.name for path in made.iterdir()) == ["HEAD", "config", "index", "info", "objects", "refs"]


def test_the_commit_has_the_same_name_wherever_the_files_come_from(
    shop: Repository, clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = clone(shop.path, "v1")
    shop("bundle", "create", "--quiet", str(tmp_path / "shop.bundle"), "--all")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "somebody")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2020-01-01T00:00:00")
    second = Corpora(tmp_path / "cache-2")
    bundled = second.clone(second.resolve(Corpus(tmp_path / "shop.bundle", "v1")), tmp_path / "work-b")
    plain = clone(first.path.rename(tmp_path / "moved"), first.snapshot.commit)
    assert first.snapshot.commit == bundled.snapshot.commit == plain.snapshot.commit
    assert len(first.snapshot.commit) == 40


def test_what_an_agent_does_to_a_clone_reaches_no_other(shop: Repository, clone: Clone) -> None:
    first = clone(shop.path, "v1")
    for path in first.path.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(0o644)
            path.write_bytes(b"spoiled")
    second = clone(shop.path, "v1")
    assert inside(second)("fsck", "--full") == ""
    assert (second.path / "a.py").read_text() == "now = 1\n"


def test_hooks_filters_and_conversions_never_run(tmp_path: Path, clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those that the person's configuration defines, nor those that the files ask for."""
    home = tmp_path / "home"
    hooks = home / "hooks"
    hooks.mkdir(parents=True)
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        (hooks / hook).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (hooks / hook).chmod(0o755)
    shop = Repository(tmp_path / "shop")
    (shop.path / ".gitattributes").write_text("*.txt filter=evil text eol=crlf ident working-tree-encoding=UTF-16\n")
    (shop.path / "raw").write_bytes(b"$Id$ one\nzwei\n")
    blob = shop("hash-object", "-w", "raw")
    shop("update-index", "--add", "--cacheinfo", f"100644,{blob},x.txt")
    shop("add", ".gitattributes")
    shop("commit", "--quiet", "-m", "x")
    config = f"""[core]\nhooksPath = {hooks}\nautocrlf = true\n[init]\ntemplateDir = {home}\n
[filter "evil"]\nsmudge = touch {tmp_path}/ran; cat\nclean = touch {tmp_path}/ran; cat\nrequired = true\n"""
    (home / ".gitconfig").write_text(config)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.hooksPath")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(hooks))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(home))
    made = clone(shop.path, shop("rev-parse", "HEAD"))
    assert (made.path / "x.txt").read_bytes() == b"$Id$ one\nzwei\n"
    assert not (tmp_path / "ran").exists()
    assert not (made.path / ".git" / "hooks").exists()


def test_submodules_and_pointers_are_left_as_they_are_and_said(tmp_path: Path, clone: Clone) -> None:
    shop = Repository(tmp_path / "shop")
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
    for name in ("big.bin", "big2.bin"):
        (shop.path / name).write_text(pointer)
    (shop.path / "no-pointer").write_text("x" + pointer)
    shop("add", "--all")
    shop("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},vendor/lib")
    shop("commit", "--quiet", "-m", "x")
    made = clone(shop.path, shop("rev-parse", "HEAD"))
    assert made.notes == (
        "1 submodule is left empty: vendor/lib",
        "2 files are the pointer that Git LFS leaves in their place, and not fetched: big.bin, big2.bin",
    )
    assert list((made.path / "vendor" / "lib").iterdir()) == []
    assert (made.path / "big.bin").read_text() == pointer


def test_what_is_excluded_is_nothing_to_the_clones_git(shop: Repository, clone: Clone) -> None:
    made = clone(shop.path, "v1", ("AGENTS.md", "a [b]*/!#x ", ".pi/skills"))
    for name in ("AGENTS.md", "a [b]*/!#x ", ".pi/skills/s/SKILL.md", "src/AGENTS.md", "a b/x"):
        (made.path / name).parent.mkdir(parents=True, exist_ok=True)
        (made.path / name).write_text("x")
    assert inside(made)("status", "--porcelain", "-uall").splitlines() == ['?? "a b/x"', "?? src/AGENTS.md"]


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "", ".", "a\nb"])
def test_what_is_excluded_lies_below_the_top(shop: Repository, clone: Clone, path: str) -> None:
    with pytest.raises(CorpusError, match="cannot be excluded from a workspace: write a path from its top"):
        clone(shop.path, "v1", (path,))


def test_the_objects_of_a_shallow_clone_are_enough(shop: Repository, clone: Clone, tmp_path: Path) -> None:
    Repository(tmp_path)("clone", "--quiet", "--depth=1", "--branch=v1", shop.path.as_uri(), "shallow")
    assert (clone(tmp_path / "shallow", "v1").path / "a.py").read_text() == "now = 1\n"


def test_objects_are_found_through_a_worktree_and_through_alternates(
    shop: Repository, clone: Clone, tmp_path: Path
) -> None:
    shop("worktree", "add", "--quiet", str(tmp_path / "tree : x"), "v2")
    Repository(tmp_path)("clone", "--quiet", "--shared", str(tmp_path / "tree : x"), "shared")
    for source in ("tree : x", "shared"):
        assert (clone(tmp_path / source, shop("rev-parse", "v1^{commit}")).path / "a.py").read_text() == "now = 1\n"


def test_a_partial_clone_says_that_it_lacks_files(shop: Repository, clone: Clone, tmp_path: Path) -> None:
    shop("config", "uploadpack.allowFilter", "true")
    Repository(tmp_path)("clone", "--quiet", "--no-checkout", "--filter=blob:none", shop.path.as_uri(), "partial")
    with pytest.raises(CorpusError, match=r"partial at v1 .* cannot be had whole: .*; a partial clone lacks files"):
        clone(tmp_path / "partial", "v1")


def test_a_repository_of_sha256_is_cloned(tmp_path: Path, clone: Clone) -> None:
    shop = Repository(tmp_path / "shop", init=False)
    Repository(tmp_path)("init", "--quiet", "--object-format=sha256", "shop")
    (shop.path / "a").write_text("x\n")
    made = clone(shop.path, shop.commit())
    assert len(made.snapshot.commit) == 64
    assert inside(made)("status", "--porcelain") == ""


def test_a_clone_is_made_in_an_empty_directory(shop: Repository, corpora: Corpora, tmp_path: Path) -> None:
    resolved = corpora.resolve(Corpus(shop.path, "v1"))
    (tmp_path / "there").mkdir()
    corpora.clone(resolved, tmp_path / "there")
    with pytest.raises(CorpusError, match=r"a workspace is made in an empty directory, and .*there is not one"):
        corpora.clone(resolved, tmp_path / "there")
    assert (tmp_path / "there" / "a.py").exists()
    (tmp_path / "file").write_text("x")
    with pytest.raises(CorpusError, match=r"no workspace can be made at .*file"):
        corpora.clone(resolved, tmp_path / "file")


def test_many_threads_get_clones_of_one_snapshot(shop: Repository, corpora: Corpora, tmp_path: Path) -> None:
    resolved = corpora.resolve(Corpus(shop.path, "v1"))
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda n: corpora.clone(resolved, tmp_path / f"w{n}"), range(16)))
    assert {workspace.snapshot.git_dir for workspace in made} == {made[0].snapshot.git_dir}
    assert all(files_of(workspace.path) == files_of(made[0].path) for workspace in made)


def test_git_that_is_not_installed_is_told(
    shop: Repository, corpora: Corpora, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved = corpora.resolve(Corpus(shop.path, "v1"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CorpusError, match="git is not installed"):
        corpora.clone(resolved, tmp_path / "w")


def test_a_clone_that_fails_leaves_nothing(shop: Repository, corpora: Corpora, tmp_path: Path) -> None:
    resolved = corpora.resolve(Corpus(shop.path, "v1"))
    snapshot = corpora.clone(resolved, tmp_path / "w1").snapshot
    (snapshot.git_dir / "index").unlink()
    with pytest.raises(CorpusError, match=r"no workspace can be made at .*w2: No such file"):
        corpora.clone(resolved, tmp_path / "w2")
    assert not (tmp_path / "w2").exists()


def test_a_tree_that_git_would_not_make_is_refused(tmp_path: Path, clone: Clone) -> None:
    shop = Repository(tmp_path / "shop")
    (shop.path / "a").write_text("evil")
    blob = shop("hash-object", "-w", "a")
    inner = shop.commit_made_up(("100644", "config", blob))
    commit = shop.commit_made_up(("40000", ".git", shop("rev-parse", f"{inner}^{{tree}}")))
    with pytest.raises(CorpusError, match=r"cannot be had whole: .*git/config"):
        clone(shop.path, commit)


def test_a_clone_is_fast_to_make_because_one_git_is_run(
    shop: Repository, corpora: Corpora, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved = corpora.resolve(Corpus(shop.path, "v1"))
    corpora.clone(resolved, tmp_path / "w1")
    run, ran = subprocess.run, []
    monkeypatch.setattr(subprocess, "run", lambda *args, **named: ran.append(args) or run(*args, **named))
    corpora.clone(resolved, tmp_path / "w2")
    assert len(ran) == 1
