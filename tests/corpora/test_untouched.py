"""A repository that a run must not reach is proved to be as it was; what differs is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_battery.edges.corpora import Corpora, Corpus, diff, likeness, touched
from pytest_battery.errors import GitError

from ..store.git_repository import Repository


def change(shop: Repository, how: str) -> None:
    own = shop.path / ".git"
    match how:
        case "content":
            (shop.path / "a.py").write_text("now = 3\n")
        case "same size, old times":
            before = (shop.path / "a.py").stat()
            (shop.path / "a.py").write_text("answer = 0\n"[-before.st_size :].rjust(before.st_size))
            os.utime(shop.path / "a.py", ns=(before.st_atime_ns, before.st_mtime_ns))
        case "mode":
            (shop.path / "run.sh").chmod(0o644)
        case "deleted":
            (shop.path / "a.py").unlink()
        case "new":
            (shop.path / "new.py").write_text("x")
        case "link":
            (shop.path / "link").unlink()
            (shop.path / "link").symlink_to("/etc/passwd")
        case "a link for a file":
            (shop.path / "a.py").unlink()
            (shop.path / "a.py").symlink_to("future.py")
        case "staged":
            shop("rm", "--quiet", "--cached", "run.sh")
        case "branch":
            shop("branch", "evil")
        case "tag":
            shop("tag", "-f", "v1", "main")
        case "HEAD":
            (own / "HEAD").write_text("ref: refs/heads/evil\n")
        case "config":
            shop("config", "core.fsmonitor", "evil")
        case "hook":
            (own / "hooks").mkdir(exist_ok=True)
            (own / "hooks" / "post-commit").write_text("evil")
        case "exclude":
            (own / "info" / "exclude").write_text("evil")
        case "alternates":
            (own / "objects" / "info" / "alternates").write_text("/evil\n")


@pytest.mark.parametrize(
    ("how", "named"),
    [
        ("content", {"a.py is changed"}),
        ("same size, old times", {"a.py is changed"}),
        ("mode", {"run.sh is changed"}),
        ("deleted", {"a.py is deleted"}),
        ("new", {"new.py is new"}),
        ("link", {"link is changed"}),
        ("a link for a file", {"a.py is changed"}),
        ("staged", {"the index is changed"}),
        ("branch", {".git/refs/heads/evil is new"}),
        ("tag", {".git/refs/tags/v1 is changed"}),
        ("HEAD", {".git/HEAD is changed"}),
        ("config", {".git/config is changed"}),
        ("hook", {".git/hooks/post-commit is new"}),
        ("exclude", {".git/info/exclude is changed"}),
        ("alternates", {".git/objects/info/alternates is new"}),
    ],
)
def test_every_change_is_named(shop: Repository, how: str, named: set[str]) -> None:
    before = likeness(shop.path)
    change(shop, how)
    assert set(touched(before, likeness(shop.path, earlier=before))) == named
    assert set(touched(before, likeness(shop.path))) == named


@pytest.mark.parametrize("what", ["read", "touched", "status", "ignored", "gone and back"])
def test_what_changes_nothing_is_no_touch(shop: Repository, what: str) -> None:
    (shop.path / ".gitignore").write_text("*.log\n")
    before = likeness(shop.path)
    if what == "touched":
        os.utime(shop.path / "a.py", (1, 1))
        shop("update-index", "--refresh")
    elif what == "status":
        shop("status")
        shop("log")
    elif what == "ignored":
        (shop.path / "a.log").write_text("x")
    elif what == "gone and back":
        (shop.path / "a.py").rename(shop.path / "b.py")
        (shop.path / "b.py").rename(shop.path / "a.py")
    assert touched(before, likeness(shop.path, earlier=before)) == ()


def test_what_the_session_itself_writes_is_left_out(shop: Repository) -> None:
    before = likeness(shop.path, but=[shop.path / "store"])
    (shop.path / "store" / "t").mkdir(parents=True)
    (shop.path / "store" / "t" / "1.json").write_text("{}")
    assert touched(before, likeness(shop.path, but=[shop.path / "store"], earlier=before)) == ()
    (shop.path / "storehouse").write_text("x")
    assert touched(before, likeness(shop.path, but=[shop.path / "store"])) == ("storehouse is new",)


def test_many_changes_are_counted(shop: Repository) -> None:
    before = likeness(shop.path)
    for number in range(9):
        (shop.path / f"n{number}").write_text("x")
    assert touched(before, likeness(shop.path)) == (
        *(f"n{number} is new" for number in range(5)),
        "4 more are new",
    )


def test_a_worktree_and_what_it_shares_are_looked_at(shop: Repository, tmp_path: Path) -> None:
    shop("worktree", "add", "--quiet", str(tmp_path / "tree"), "v2")
    before = likeness(tmp_path / "tree")
    shop("branch", "evil")
    (tmp_path / "tree" / "a.py").write_text("x")
    Repository(tmp_path / "tree", init=False)("checkout", "--quiet", "--force", "-b", "mine")
    (tmp_path / "tree" / "run.sh").write_text("x")
    assert set(touched(before, likeness(tmp_path / "tree"))) == {
        ".git/HEAD is changed",
        "run.sh is changed",
        "the shared .git/refs/heads/evil is new",
        "the shared .git/refs/heads/mine is new",
    }


def test_a_bare_repository_a_directory_and_a_bundle_have_a_likeness(shop: Repository, tmp_path: Path) -> None:
    Repository(tmp_path)("clone", "--quiet", "--bare", str(shop.path), "bare.git")
    shop("bundle", "create", "--quiet", str(tmp_path / "shop.bundle"), "--all")
    (tmp_path / "plain" / "d").mkdir(parents=True)
    (tmp_path / "plain" / "d" / "x").write_text("x")
    places = [tmp_path / name for name in ("bare.git", "shop.bundle", "plain")]
    before = [likeness(place) for place in places]
    Repository(tmp_path / "bare.git", init=False)("tag", "evil", "main")
    (tmp_path / "shop.bundle").write_bytes(b"x")
    (tmp_path / "plain" / "d" / "x").write_text("y")
    assert [touched(old, likeness(place)) for old, place in zip(before, places, strict=True)] == [
        (".git/refs/tags/evil is new",),
        ("shop.bundle is changed",),
        ("d/x is changed",),
    ]


def test_a_fifo_in_the_repository_does_not_make_it_wait(shop: Repository) -> None:
    before = likeness(shop.path)
    (shop.path / "a.py").unlink()
    os.mkfifo(shop.path / "a.py")
    assert touched(before, likeness(shop.path)) == ("a.py is changed",)


def test_resolving_cloning_and_comparing_leave_the_source_untouched(shop: Repository, tmp_path: Path) -> None:
    before = likeness(shop.path)
    objects = sorted((shop.path / ".git").rglob("*"))
    corpora = Corpora(tmp_path / "cache")
    diff(corpora.clone(corpora.resolve(Corpus(shop.path, "v1")), tmp_path / "w"))
    assert touched(before, likeness(shop.path)) == ()
    assert sorted((shop.path / ".git").rglob("*")) == objects


def test_a_repository_that_git_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    with pytest.raises(GitError):
        likeness(tmp_path)
