"""Whether this machine can isolate is found out by doing it, and what would mend it is said."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from pytest_battery.edges.sandboxes import Ability, Confinement, Finished, Mount, ability, open_bubblewrap

CODE = "from pytest_battery.edges.sandboxes import ability; told = ability(); print(told.works, told.why, told.mend, sep='|')"


def test_here_it_works() -> None:
    assert ability() == Ability(True)


def test_where_no_user_namespace_can_be_made_it_says_so_and_what_to_do(
    confinement: Confinement, copied: tuple[str, Path]
) -> None:
    """A sandbox is such a machine."""
    python, place = copied

    async def work() -> Finished:
        mounts = [*confinement.mounts, Mount(place, "/packages")]
        inside = replace(confinement, mounts=mounts, environment={"PYTHONPATH": "/packages"})
        async with open_bubblewrap(inside) as sandbox:
            return await sandbox.run([python, "-B", "-c", CODE], seconds=60)

    done = anyio.run(work)
    works, why, mend = done.stdout.decode().rstrip("\n").split("|")
    assert works == "False", done
    assert "bwrap: " in why
    assert "user.max_user_namespaces" in mend


@pytest.mark.parametrize(("missing", "package"), [("bwrap", "bubblewrap"), ("prlimit", "util-linux")])
def test_what_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str, package: str
) -> None:
    for name in {"bwrap", "prlimit"} - {missing}:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ability() == Ability(
        False, f"{package if missing == 'bwrap' else missing} is not installed", f"apt-get install {package}"
    )


def test_a_bubblewrap_that_is_too_old_is_told(monkeypatch: pytest.MonkeyPatch, workspace: Path) -> None:
    """As 0.7 says it."""
    import pytest_battery.edges.sandboxes.bubblewrap as module

    old = workspace.parent / "bwrap"
    old.write_text("#!/bin/sh\necho 'bwrap: Unknown option --disable-userns' >&2\nexit 1\n")
    old.chmod(old.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    monkeypatch.setattr(module, "_PATH", f"{workspace.parent}:{module._PATH}")
    told = ability()
    assert not told.works
    assert "Unknown option --disable-userns" in told.why
    assert "0.8 or later" in told.mend
