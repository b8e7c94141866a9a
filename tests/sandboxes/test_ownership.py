"""Whose the files of a workspace are: a sandbox's own user's while it runs, and nobody else's file is ever given away."""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from pytest_battery.edges.sandboxes import Confinement, Finished, Mount, open_bubblewrap
from pytest_battery.errors import SandboxError

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root's sandboxes run under another user")


async def ran(confinement: Confinement, script: str) -> Finished:
    async with open_bubblewrap(confinement) as sandbox:
        return await sandbox.run(["/bin/bash", "-c", script], seconds=30)


@as_root
def test_a_file_that_is_also_elsewhere_is_refused_and_stays_ours(confinement: Confinement, workspace: Path) -> None:
    origin = workspace.parent / "origin"
    origin.write_text("an object of the repository that was cloned")
    os.link(origin, workspace / "object")
    with pytest.raises(SandboxError, match=r"workspace/object is one file with another .*git clone --no-hardlinks"):
        anyio.run(ran, confinement, "echo spoiled > object")
    assert origin.stat().st_uid == 0
    assert "spoiled" not in origin.read_text()


def test_names_of_one_file_within_the_workspace_are_fine(confinement: Confinement, workspace: Path) -> None:
    (workspace / "a").write_text("x")
    os.link(workspace / "a", workspace / "b")
    assert anyio.run(ran, confinement, "echo y > a; cat b").stdout == b"y\n"


@as_root
def test_while_it_runs_they_are_its_own_and_then_ours_again(confinement: Confinement, workspace: Path) -> None:
    (workspace / "given").write_text("x")

    async def work() -> tuple[int, int]:
        async with open_bubblewrap(confinement) as sandbox:
            await sandbox.run(["/bin/bash", "-c", "echo y > given; touch made"])
            return (workspace / "given").stat().st_uid, (workspace / "made").stat().st_uid

    given, made = anyio.run(work)
    assert given == made != 0
    assert (workspace / "given").stat().st_uid == (workspace / "made").stat().st_uid == 0


@as_root
def test_what_would_run_as_its_owner_does_not_once_that_is_root(confinement: Confinement, workspace: Path) -> None:
    done = anyio.run(ran, confinement, "cp /usr/bin/id mine; chmod 6755 mine; stat -c %a mine")
    assert done.stdout == b"6755\n"
    assert not (workspace / "mine").stat().st_mode & (stat.S_ISUID | stat.S_ISGID)


@as_root
def test_two_sandboxes_do_not_own_each_others_files(confinement: Confinement, workspace: Path) -> None:
    other = workspace.parent / "other"
    other.mkdir(0o700)
    (other / "secret").write_text("sk-planted")
    (other / "secret").chmod(0o600)

    async def work() -> bytes:
        async with (
            open_bubblewrap(Confinement([Mount(other, "/work", writable=True)])),
            open_bubblewrap(replace(confinement, mounts=[*confinement.mounts, Mount(other, "/other")])) as sandbox,
        ):
            return (await sandbox.run(["/bin/cat", "/other/secret"])).stderr

    assert b"Permission denied" in anyio.run(work)


def test_a_workspace_behind_a_link_is_given_and_taken_back(confinement: Confinement, workspace: Path) -> None:
    link = workspace.parent / "link"
    link.symlink_to(workspace)
    through = replace(confinement, mounts=[Mount(link, "/work", writable=True)])
    assert anyio.run(ran, through, "touch made; echo fine").stdout == b"fine\n"
    assert (workspace / "made").stat().st_uid == os.geteuid()


@pytest.mark.parametrize("place", ["/tmp", "~"])
def test_kept_folders_are_gone_in_the_end_whatever_was_locked_in_them(
    confinement: Confinement, monkeypatch: pytest.MonkeyPatch, workspace: Path, place: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(workspace.parent))
    victim = workspace.parent / "victim"
    victim.write_text("x")
    victim.chmod(0o640)
    script = f"cd {place}; mkdir -p a/b; echo x > a/b/c; ln -s {victim} a/link; chmod 000 a/b/c a/b a; echo fine"
    assert anyio.run(ran, replace(confinement, keeps=True), script).stdout == b"fine\n"
    assert sorted(path.name for path in workspace.parent.iterdir()) == ["victim", "workspace"]
    assert stat.S_IMODE(victim.stat().st_mode) == 0o640


@as_root
def test_what_cannot_be_given_is_taken_back_all_the_same(confinement: Confinement, workspace: Path) -> None:
    second = workspace.parent / "second"
    second.mkdir()
    origin = workspace.parent / "origin"
    origin.write_text("x")
    os.link(origin, second / "alias")
    (workspace / "file").write_text("x")
    both = replace(confinement, mounts=[*confinement.mounts, Mount(second, "/second", writable=True)])
    with pytest.raises(SandboxError, match="second/alias"):
        anyio.run(ran, both, "true")
    assert {path.lstat().st_uid for path in (workspace, workspace / "file", second, origin)} == {0}
