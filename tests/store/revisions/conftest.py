"""Repositories with records in them, and programs that stand before git."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_battery.edges.store import Store

from ..git_repository import Repository
from .looking import LaneMaker, RecordMaker


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


@pytest.fixture
def kept(lane: LaneMaker, record: RecordMaker) -> Callable[..., Path]:
    """``kept(root, case, run, field=value, ...)``: a record in the store at *root*, put there as a session does."""

    def keep(root: Path, case: str = "a", run: int = 1, **more: Any) -> Path:
        one = lane(case, run)
        return Store(root).put(one, record(one, **more))

    return keep


@pytest.fixture
def measured(repository: Repository, kept: Callable[..., Path]) -> Repository:
    """Cases a (runs 1, 2 and 12) and b (run 1), committed; then taken from the working tree."""
    for case, run in (("a", 1), ("a", 2), ("a", 12), ("b", 1)):
        kept(repository.path / "store", case, run, reply=f"{case} {run}")
    repository.commit()
    shutil.rmtree(repository.path / "store")
    return repository


@pytest.fixture
def before_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """``before_git(script)``: a program named git that is found first; ``{git}`` in it is the real one."""

    def put(script: str) -> None:
        program = tmp_path / "bin" / "git"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\n" + script.format(git=shutil.which("git")))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")

    return put
