"""A pin is a tag or a commit, and stands for one state of the files; what moves is refused or noticed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_battery.edges.corpora import Corpora, Corpus, moved
from pytest_battery.errors import CorpusError, GitError

from ..store.git_repository import Repository


def resolved(source: Path, pin: str | None, cache: Path | None = None):  # type: ignore[no-untyped-def]
    return Corpora(cache or source.parent / "cache").resolve(Corpus(source, pin))


@pytest.mark.parametrize(("pin", "tag"), [("v1", "v1"), ("refs/tags/v1", "v1"), ("v2", "v2")])
def test_a_tag_stands_for_its_commit_annotated_or_not(shop: Repository, pin: str, tag: str) -> None:
    found = resolved(shop.path, pin)
    assert found.commit == shop("rev-parse", f"{tag}^{{commit}}")
    assert found.tree == found.digest == shop("rev-parse", f"{tag}^{{tree}}")
    assert (found.tag, found.kind) == (tag, "repository")
    assert found.asked == f"{tag} ({found.commit[:10]})"


def test_a_tag_of_a_tag_is_peeled_to_the_commit(shop: Repository) -> None:
    shop("-c", "advice.nestedTag=false", "tag", "-a", "-m", "again", "v1-again", "v1")
    assert resolved(shop.path, "v1-again").commit == shop("rev-parse", "v1^{commit}")


@pytest.mark.parametrize("digits", [7, 12, 40])
def test_a_commit_is_named_whole_or_by_its_beginning(shop: Repository, digits: int) -> None:
    commit = shop("rev-parse", "v1^{commit}")
    found = resolved(shop.path, commit[:digits])
    assert (found.commit, found.tag) == (commit, None)


def test_a_tag_goes_before_a_commit_that_begins_like_it(shop: Repository) -> None:
    name = shop("rev-parse", "v2^{commit}")[:8]
    shop("tag", name, "v1^{commit}")
    assert resolved(shop.path, name).commit == shop("rev-parse", "v1^{commit}")


def test_a_bare_repository_and_a_bundle_have_the_same_pins(shop: Repository, tmp_path: Path) -> None:
    Repository(tmp_path)("clone", "--quiet", "--bare", str(shop.path), "bare.git")
    shop("bundle", "create", "--quiet", str(tmp_path / "shop.bundle"), "--all")
    want = resolved(shop.path, "v1", tmp_path / "c0")
    for number, name in enumerate(("bare.git", "shop.bundle")):
        found = resolved(tmp_path / name, "v1", tmp_path / f"d{number}")
        assert (found.commit, found.tree, found.tag) == (want.commit, want.tree, "v1")
    assert found.kind == "bundle"


def test_a_repository_around_the_corpus_is_not_the_corpus(shop: Repository) -> None:
    found = resolved(shop.path / "src", None)
    assert (found.kind, found.commit) == ("directory", None)
    assert found.tree == shop("rev-parse", "v1:src")


@pytest.mark.parametrize(
    ("pin", "said"),
    [
        ("v1.0", r"has no tag or commit 'v1.0'; did you mean 'v1'\? its tags are v1, v2; its HEAD is [0-9a-f]{40}$"),
        ("release", r"has no tag or commit 'release'; its tags are v[12], v[12]; its HEAD is"),
        ("0123456789", r"has no tag or commit '0123456789'; its tags are"),
        ("0" * 40, r"has no tag or commit '0{40}'"),
        ("main", r"main is a branch of .*shop, and a branch moves: pin the commit it is at now, [0-9a-f]{40}, or a tag"),
        ("HEAD", r"has no tag or commit 'HEAD'"),
        ("v1~1", r"has no tag or commit 'v1~1'"),
        ("v1:src", r"has no tag or commit 'v1:src'"),
        ("--all", r"has no tag or commit '--all'"),
        ("", r"has no tag or commit ''"),
        (None, r"the corpus .*shop has no pin: name a tag or a commit; its tags are v[12], v[12]; its HEAD is"),
    ],
)  # fmt: skip
def test_an_unknown_pin_is_told_with_those_that_there_are(shop: Repository, pin: str | None, said: str) -> None:
    shop("tag", "-f", "-a", "-m", "later", "v2", "main")
    with pytest.raises(CorpusError, match=said):
        resolved(shop.path, pin)


def test_of_many_tags_the_likely_ones_are_named(shop: Repository) -> None:
    for number in range(20):
        shop("tag", f"release-{number}", "main")
    with pytest.raises(
        CorpusError, match=r"did you mean 'release-1\d?'\? its tags are (release-\d+, ){4}release-\d+ and 17 more"
    ):
        resolved(shop.path, "relaese-1")


@pytest.mark.parametrize("what", ["v1^{tree}", "v1:a.py"])
def test_a_pin_that_is_no_commit_is_refused(shop: Repository, what: str) -> None:
    shop("tag", "odd", what)
    with pytest.raises(CorpusError, match=r"the tag odd of .*shop stands for [0-9a-f]{10}, which is no commit"):
        resolved(shop.path, "odd")
    with pytest.raises(CorpusError, match="which is no commit"):
        resolved(shop.path, shop("rev-parse", what))


def test_a_repository_without_a_commit_has_no_pin(tmp_path: Path) -> None:
    Repository(tmp_path / "new")
    with pytest.raises(CorpusError, match=r"new has no tag or commit 'v1'; it has no tag$"):
        resolved(tmp_path / "new", "v1")


@pytest.mark.parametrize("annotated", [True, False])
def test_a_moved_tag_is_noticed(shop: Repository, tmp_path: Path, annotated: bool) -> None:
    before = resolved(shop.path, "v1", tmp_path / "c1")
    assert before.commit is not None
    assert moved(before, before.commit) is None
    shop("tag", "-f", *(["-a", "-m", "moved"] if annotated else []), "v1", "main")
    after = resolved(shop.path, "v1", tmp_path / "c2")
    assert moved(after, before.commit) == (
        f"the tag v1 of {shop.path} was moved: it stood for {before.commit[:10]}, and stands for {shop('rev-parse', 'main')[:10]} now"
    )


def test_a_tag_that_was_made_again_on_the_same_commit_was_not_moved(shop: Repository, tmp_path: Path) -> None:
    before = resolved(shop.path, "v1", tmp_path / "c1")
    shop("tag", "-f", "v1", "v1^{commit}")
    assert moved(resolved(shop.path, "v1", tmp_path / "c2"), str(before.commit)) is None


def test_another_pin_and_other_files_are_noticed_too(shop: Repository, tmp_path: Path) -> None:
    found = resolved(shop.path, shop("rev-parse", "v1^{commit}"))
    assert "was pinned at 1234567890, and is pinned at " in str(moved(found, "1234567890ab"))
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a").write_text("x")
    assert "were changed: they were 1234567890, and are " in str(
        moved(resolved(tmp_path / "plain", None), "1234567890ab")
    )


def test_a_session_goes_by_what_it_saw_first(shop: Repository, corpora: Corpora) -> None:
    before = corpora.resolve(Corpus(shop.path, "v1"))
    shop("tag", "-f", "v1", "main")
    assert corpora.resolve(Corpus(shop.path, "v1")) == before


# -- plain directories -----------------------------------------------------------------------------


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    (tmp_path / "plain" / "src").mkdir(parents=True)
    (tmp_path / "plain" / "src" / "a.py").write_bytes(b"a\r\n")
    (tmp_path / "plain" / "run").write_text("x")
    (tmp_path / "plain" / "run").chmod(0o755)
    (tmp_path / "plain" / "link").symlink_to("src")
    (tmp_path / "plain" / ".gitignore").write_text("*.log\n__pycache__/\n")
    return tmp_path / "plain"


def test_a_directory_is_pinned_by_the_digest_of_its_files(plain: Path, tmp_path: Path) -> None:
    digest = resolved(plain, None).tree
    assert resolved(plain, digest, tmp_path / "c1").tree == digest
    assert resolved(plain, digest[:7], tmp_path / "c2").tree == digest
    (plain / "src" / "a.py").write_bytes(b"a\n")
    with pytest.raises(
        CorpusError, match=rf"the files of .*plain are [0-9a-f]{{40}}, and the pin is '{digest}': they were changed"
    ):
        resolved(plain, digest, tmp_path / "c3")


def test_the_digest_is_what_git_calls_the_tree(plain: Path, tmp_path: Path) -> None:
    digest = resolved(plain, None).tree
    git = Repository(plain)
    git.commit()
    assert git("rev-parse", "HEAD^{tree}") == digest


@pytest.mark.parametrize("touch", ["a.log", "src/__pycache__/x.pyc"])
def test_what_a_directory_ignores_is_not_in_its_digest(plain: Path, tmp_path: Path, touch: str) -> None:
    digest = resolved(plain, None).tree
    (plain / touch).parent.mkdir(exist_ok=True)
    (plain / touch).write_text("x")
    assert resolved(plain, None, tmp_path / "c1").tree == digest


@pytest.mark.parametrize("change", ["mode", "link", "new", "gone"])
def test_every_change_of_a_directory_is_in_its_digest(plain: Path, tmp_path: Path, change: str) -> None:
    digest = resolved(plain, None).tree
    if change == "mode":
        (plain / "run").chmod(0o644)
    elif change == "link":
        (plain / "link").unlink()
        (plain / "link").symlink_to("run")
    elif change == "new":
        (plain / "new").write_text("")
    else:
        (plain / "run").unlink()
    assert resolved(plain, None, tmp_path / "c1").tree != digest


# -- what is no corpus -----------------------------------------------------------------------------


def test_a_source_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"the corpus .*gone is not there"):
        resolved(tmp_path / "gone", "v1")
    (tmp_path / "file").write_text("x")
    with pytest.raises(
        CorpusError, match="file is a file, and no git bundle: name a repository, a bundle or a directory"
    ):
        resolved(tmp_path / "file", "v1")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match=r"the corpus .*empty holds no file"):
        resolved(tmp_path / "empty", None)
    (tmp_path / ".git").mkdir()
    with pytest.raises(GitError, match="is in no git repository"):
        resolved(tmp_path, "v1", tmp_path / "cache")


def test_a_broken_repository_is_not_taken_for_the_one_around_it(shop: Repository) -> None:
    (shop.path / "src" / ".git").mkdir()
    with pytest.raises(CorpusError, match=r"src has a \.git that is no repository"):
        resolved(shop.path / "src", "v1", shop.path.parent / "cache")


@pytest.mark.parametrize("cut", [30, -30])
def test_a_bundle_that_was_cut_is_told(shop: Repository, tmp_path: Path, cut: int) -> None:
    shop("bundle", "create", "--quiet", str(tmp_path / "b"), "--all")
    (tmp_path / "b").write_bytes((tmp_path / "b").read_bytes()[:cut])
    with pytest.raises(CorpusError, match=r"the bundle .*/b cannot be unpacked: "):
        resolved(tmp_path / "b", "v1")


def test_a_bundle_that_builds_upon_another_is_told(shop: Repository, tmp_path: Path) -> None:
    shop("bundle", "create", "--quiet", str(tmp_path / "b"), "v1..v2", "v2")
    with pytest.raises(CorpusError, match=r"the bundle .*/b cannot be unpacked: .*lacks these prerequisite commits"):
        resolved(tmp_path / "b", "v2")


def test_a_directory_that_cannot_be_kept_whole_is_refused(plain: Path) -> None:
    os.mkfifo(plain / "pipe")
    with pytest.raises(CorpusError, match="cannot be kept whole: pipe is a FIFO"):
        resolved(plain, None)
