"""What an agent did to a workspace, as a patch: all of it, and whatever it left there for us to trip over."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_battery.edges.corpora import Corpora, Corpus, Limits, Workspace, diff
from pytest_battery.edges.corpora.trees import shown
from pytest_battery.errors import CorpusError

from ..store.git_repository import Repository

Clone = Callable[..., Workspace]
Tree = dict[bytes, object]


@pytest.fixture
def work(shop: Repository, clone: Clone) -> Workspace:
    return clone(shop.path, "v1")


def patch_of(workspace: Workspace) -> str:
    patch = diff(workspace)
    assert patch.notes == ()
    return patch.content.decode()


def names_in(content: bytes) -> list[str]:
    return [line.split(" b/")[-1] for line in content.decode().splitlines() if line.startswith("diff --git ")]


def test_nothing_changed_is_an_empty_patch(work: Workspace) -> None:
    for path in work.path.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
    assert diff(work).content == b""


def test_a_patch_has_changes_deletions_new_files_links_and_modes(work: Workspace) -> None:
    (work.path / "a.py").write_text("now = 2\n")
    (work.path / "src" / "b.txt").unlink()
    (work.path / "new").mkdir()
    (work.path / "new" / "empty").write_text("")
    (work.path / "run.sh").chmod(0o644)
    (work.path / "link").unlink()
    (work.path / "link").symlink_to("/etc/passwd")
    patch = patch_of(work)
    assert "-now = 1\n+now = 2\n" in patch
    assert "deleted file mode 100644\n" in patch
    assert "-one\r\n-two\n" in patch
    assert "diff --git a/new/empty b/new/empty\nnew file mode 100644\n" in patch
    assert "diff --git a/run.sh b/run.sh\nold mode 100755\nnew mode 100644\n" in patch
    assert "-src/b.txt\n\\ No newline at end of file\n+/etc/passwd\n" in patch
    assert "root:" not in patch


def test_a_file_that_was_renamed_is_deleted_and_added(work: Workspace) -> None:
    (work.path / "a.py").rename(work.path / "b.py")
    patch = patch_of(work)
    assert "deleted file mode" in patch
    assert "new file mode" in patch
    assert "rename" not in patch


def test_binary_files_are_in_a_patch_whole(work: Workspace) -> None:
    (work.path / "bytes.bin").write_bytes(bytes(range(255, -1, -1)))
    (work.path / "new.bin").write_bytes(b"\0" * 1000)
    patch = patch_of(work)
    assert patch.count("GIT binary patch\n") == 2
    assert "Binary files" not in patch


def test_it_makes_no_difference_what_the_agent_committed_or_staged(work: Workspace) -> None:
    (work.path / "a.py").write_text("now = 2\n")
    (work.path / "new").write_text("x\n")
    before = diff(work)
    git = Repository(work.path, init=False)
    git.commit("the agent's")
    (work.path / "staged").write_text("x\n")
    git("add", "staged")
    (work.path / "staged").unlink()
    assert diff(work) == before


def test_ignored_files_are_not_in_a_patch_unless_the_commit_has_them(tmp_path: Path, clone: Clone) -> None:
    shop = Repository(tmp_path / "shop")
    (shop.path / ".gitignore").write_text("*.log\n/build/\n!keep.log\n")
    (shop.path / "tracked.log").write_text("x\n")
    (shop.path / "sub").mkdir()
    (shop.path / "sub" / ".gitignore").write_text("here\n")
    shop("add", "-f", "--all")
    work = clone(shop.path, shop.commit())
    for name in ("a.log", "build/x", "sub/here", "sub/x.log", "keep.log", "here", "deep/build/x"):
        (work.path / name).parent.mkdir(parents=True, exist_ok=True)
        (work.path / name).write_text("new\n")
    (work.path / "tracked.log").write_text("changed\n")
    assert names_in(diff(work).content) == ["deep/build/x", "here", "keep.log", "tracked.log"]


def test_ignoring_is_what_git_itself_would_ignore(work: Workspace) -> None:
    (work.path / ".gitignore").write_text("x/\n*.o\n!a.o\n:(top)y\n\\!z\ndoc/**/t\n")
    for name in (
        "x/1",
        "sub/x/1",
        "y.o",
        "a.o",
        ":(top)y",
        ":(exclude)q",
        "!z",
        "doc/a/b/t",
        "t",
        "sub/x.o",
        "[a]",
        "-n",
    ):
        (work.path / name).parent.mkdir(parents=True, exist_ok=True)
        (work.path / name).write_text("1\n")
    git = Repository(work.path, init=False)
    untracked = git("ls-files", "-z", "--others", "--exclude-standard").split("\0")[:-1]
    assert sorted(names_in(diff(work).content)) == sorted(untracked)


def test_what_is_excluded_is_not_in_a_patch_nor_is_its_absence(shop: Repository, clone: Clone) -> None:
    work = clone(shop.path, "v1", ("src", "AGENTS.md"))
    (work.path / "AGENTS.md").write_text("the brick's")
    (work.path / "src" / "b.txt").unlink()
    (work.path / "src" / "skill").write_text("x")
    assert diff(work).content == b""
    (work.path / "AGENTS.md.bak").write_text("the agent's\n")
    assert names_in(diff(work).content) == ["AGENTS.md.bak"]


# -- a workspace that means harm -------------------------------------------------------------------


def test_the_configuration_hooks_and_attributes_of_the_agent_are_never_used(work: Workspace, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (work.path / "evil.sh").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (work.path / "evil.sh").chmod(0o755)
    evil = work.path / "evil.sh"
    with (work.path / ".git" / "config").open("a") as config:
        config.write(f"""
[core]\nfsmonitor = {evil}\nhooksPath = {work.path}\nsshCommand = {evil}\npager = {evil}\nworktree = /etc
[diff]\nexternal = {evil}\n[diff "evil"]\ncommand = {evil}\ntextconv = {evil}\n[filter "evil"]\nclean = {evil}\nprocess = {evil}
[include]\npath = /dev/zero\n""")
    (work.path / ".gitattributes").write_text("* diff=evil filter=evil text eol=crlf\n*.bin -diff\n")
    (work.path / ".git" / "info" / "attributes").write_text("* diff=evil filter=evil\n")
    (work.path / ".git" / "info" / "exclude").write_text("*\n")
    (work.path / "a.py").write_text("now = 2\n")
    (work.path / "bytes.bin").write_bytes(b"\0\1")
    patch = patch_of(work)
    assert "-now = 1\n+now = 2\n" in patch
    assert "GIT binary patch" in patch
    assert not ran.exists()


@pytest.mark.parametrize("how", ["deleted", "a file", "a link", "spoiled"])
def test_the_agents_repository_need_not_be_there(work: Workspace, how: str) -> None:
    (work.path / "a.py").write_text("now = 2\n")
    own = work.path / ".git"
    if how == "spoiled":
        (own / "index").write_bytes(b"x")
        (own / "HEAD").write_bytes(b"\xff")
        shutil.rmtree(own / "objects")
    else:
        shutil.rmtree(own)
    if how == "a file":
        own.write_text("gitdir: /etc\n")
    elif how == "a link":
        own.symlink_to("/etc")
    assert "+now = 2" in patch_of(work)


def test_links_are_never_followed(work: Workspace, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "b.txt").write_text("a secret\n")
    (tmp_path / "secret" / ".gitignore").write_text("*\n")
    shutil.rmtree(work.path / "src")
    (work.path / "src").symlink_to(tmp_path / "secret")
    (work.path / "a.py").unlink()
    (work.path / "a.py").symlink_to(tmp_path / "secret" / "b.txt")
    (work.path / ".gitignore").symlink_to(tmp_path / "secret" / ".gitignore")
    content = diff(work).content
    assert names_in(content) == [".gitignore", "a.py", "a.py", "src", "src/b.txt"]
    assert b"a secret" not in content


def test_a_workspace_that_became_a_link_is_refused(work: Workspace, tmp_path: Path) -> None:
    shutil.rmtree(work.path)
    work.path.symlink_to("/etc")
    with pytest.raises(CorpusError, match=r"work-1 is no directory"):
        diff(work)
    work.path.unlink()
    with pytest.raises(CorpusError, match=r"work-1 is no directory"):
        diff(work)


def test_fifos_and_sockets_are_told_and_nothing_waits_for_them(
    work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work.path / "a.py").unlink()
    for name in ("a.py", "new", ".gitignore", ".gitattributes", "src/.gitignore"):
        os.mkfifo(work.path / name)
    monkeypatch.chdir(work.path)  # a socket's path has to be short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("sock")
    patch = diff(work)
    assert names_in(patch.content) == ["a.py"]
    assert patch.notes == (
        ".gitattributes is a FIFO, and is left out",
        ".gitignore is a FIFO, and is left out",
        "a.py is a FIFO, and is left out",
        "new is a FIFO, and is left out",
        "sock is a socket, and is left out",
        "src/.gitignore is a FIFO, and is left out",
    )


def test_a_repository_within_counts_as_the_files_it_holds(work: Workspace) -> None:
    inner = Repository(work.path / "src")
    inner.commit("hide it")
    (work.path / "src" / "b.txt").write_text("hidden\n")
    (work.path / "src" / "more").write_text("x\n")
    (work.path / ".GIT").mkdir()
    (work.path / ".gitmodules").symlink_to("a.py")
    patch = diff(work)
    assert names_in(patch.content) == ["src/b.txt", "src/more"]
    assert patch.notes == (
        ".GIT is a repository's own, and is left out",
        ".gitmodules is a link, which git does not keep under that name; it is left out",
        "src/.git is a repository's own, and is left out",
    )


def test_huge_files_are_bounded(work: Workspace) -> None:
    with (work.path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    (work.path / "a.py").write_bytes(b"x" * 1001)
    for name in ("b1", "b2", "b3"):
        (work.path / name).write_bytes(b"y" * 900)
    patch = diff(work, Limits(file=1000, all=2000))
    assert names_in(patch.content) == ["a.py", "b1", "b2"]
    assert patch.notes == (
        "a.py has 1001 bytes, more than a patch takes in, and is left out",
        "b3 is left out: what was changed has more than 2000 bytes together",
        f"huge has {1 << 40} bytes, more than a patch takes in, and is left out",
    )


def test_a_file_of_the_commit_over_the_limit_is_no_change_while_it_is_the_same(work: Workspace) -> None:
    assert diff(work, Limits(file=10)).content == b""
    assert diff(work, Limits(file=10)).notes == ()


def test_a_tracked_file_that_grew_to_a_terabyte_is_not_read(work: Workspace) -> None:
    os.truncate(work.path / "a.py", 1 << 40)
    assert diff(work).notes == (f"a.py has {1 << 40} bytes, more than a patch takes in, and is left out",)


def test_too_many_files_are_refused(work: Workspace) -> None:
    for number in range(20):
        (work.path / f"f{number}").touch()
    with pytest.raises(CorpusError, match=r"work-1 holds more than 10 files and directories"):
        diff(work, Limits(files=10))


def test_a_path_that_is_too_long_is_left_out(work: Workspace) -> None:
    here = os.getcwd()
    os.chdir(work.path)
    try:
        for _ in range(30):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
        Path("deep").touch()
    finally:
        os.chdir(here)
    patch = diff(work)
    assert patch.content == b""
    assert [note[:10] + note[60:] for note in patch.notes] == [
        "dddddddddd... is deeper down than a path can say, and is left out"
    ]
    subprocess.run(["rm", "-rf", work.path], check=True)  # Python's own removal would give up


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_told(work: Workspace) -> None:
    (work.path / "a.py").chmod(0)
    (work.path / "src").chmod(0)
    patch = diff(work)
    (work.path / "src").chmod(0o755)
    assert patch.notes == ("src cannot be looked into: Permission denied", "a.py cannot be read: Permission denied")


def test_submodules_are_no_change_until_something_is_put_there(tmp_path: Path, clone: Clone) -> None:
    shop = Repository(tmp_path / "shop")
    shop("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},vendor/lib")
    shop("commit", "--quiet", "-m", "x")
    work = clone(shop.path, shop("rev-parse", "HEAD"))
    assert diff(work).content == b""
    (work.path / "vendor" / "lib" / "x").write_text("x\n")
    assert names_in(diff(work).content) == ["vendor/lib", "vendor/lib/x"]
    shutil.rmtree(work.path / "vendor")
    assert diff(work).content == b""


# -- whatever it did, the patch has it -------------------------------------------------------------

name = st.one_of(
    st.sampled_from([b"a", b"b", b"c", b"a b", b'"q"', b"\xff\xfe", b"n\nl", b":(x)", b"-f", b"*", b"\t", b"a/b"[:1], "\u00e9".encode()]),
    st.binary(min_size=1, max_size=4).filter(lambda b: not set(b) & {0, 47} and b.lower() not in (b".", b"..", b".git")),
)  # fmt: skip
content = st.one_of(
    st.binary(max_size=40),
    st.lists(st.sampled_from([b"one\n", b"two\r\n", b"three", b"", b"\r", b"x" * 100 + b"\n"]), max_size=12).map(
        b"".join
    ),
)
target = st.binary(min_size=1, max_size=8).filter(lambda b: 0 not in b)
leaf = st.one_of(
    st.tuples(st.just("100644"), content), st.tuples(st.just("100755"), content), st.tuples(st.just("120000"), target)
)
tree = st.recursive(
    st.dictionaries(name, leaf, max_size=4),
    lambda inner: st.dictionaries(name, st.one_of(leaf, inner), max_size=4),
    max_leaves=12,
)


def write(top: bytes, tree: Tree) -> None:
    for name, what in tree.items():
        path = os.path.join(top, name)
        if isinstance(what, dict):
            os.makedirs(path, exist_ok=True)
            write(path, what)
        elif what[0] == "120000":  # type: ignore[index]
            os.symlink(what[1], path)  # type: ignore[index]
        else:
            with open(path, "wb") as file:
                file.write(what[1])  # type: ignore[index]
            os.chmod(path, int(what[0][3:], 8))  # type: ignore[index]


def read(top: bytes) -> Tree:
    """What is below *top*; directories that hold nothing are as if they were not there."""
    found: Tree = {}
    for entry in os.scandir(top):
        if entry.is_symlink():
            found[entry.name] = ("120000", os.readlink(entry.path))
        elif entry.is_dir():
            if entry.name != b".git" and (inner := read(entry.path)):
                found[entry.name] = inner
        else:
            with open(entry.path, "rb") as file:
                found[entry.name] = ("100755" if entry.stat().st_mode & 0o100 else "100644", file.read())
    return found


numbers = count()


@given(before=tree.filter(lambda t: bool(t)), after=tree, kept=st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_patch_applied_to_a_fresh_clone_gives_the_same_files(
    tmp_path: Path, before: Tree, after: Tree, kept: bool
) -> None:
    top = tmp_path / str(next(numbers))
    (top / "corpus").mkdir(parents=True)
    write(os.fsencode(top / "corpus"), before)
    if not read(os.fsencode(top / "corpus")):
        return
    corpora = Corpora(top / "cache")
    resolved = corpora.resolve(Corpus(top / "corpus"))
    work, fresh = corpora.clone(resolved, top / "work"), corpora.clone(resolved, top / "fresh")
    assert read(os.fsencode(work.path)) == read(os.fsencode(top / "corpus"))
    wanted = {**before, **after} if kept else after
    for entry in os.scandir(work.path):
        if entry.name != ".git":
            shutil.rmtree(entry.path) if entry.is_dir() and not entry.is_symlink() else os.unlink(entry.path)
    write(os.fsencode(work.path), wanted)
    patch = diff(work)
    assert patch.notes == ()
    if patch.content:
        subprocess.run(
            ["git", "apply", "--binary", "--whitespace=nowarn", "-"],
            cwd=fresh.path,
            input=patch.content,
            check=True,
            env={"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
        )
    assert read(os.fsencode(fresh.path)) == read(os.fsencode(work.path))
    assert bool(patch.content) == (read(os.fsencode(work.path)) != read(os.fsencode(top / "corpus")))
    shutil.rmtree(top)


@given(st.binary(min_size=1, max_size=30))
def test_a_path_in_a_note_is_printable(path: bytes) -> None:
    assert shown(path).isprintable()
