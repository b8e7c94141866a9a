"""Corpora to pin, and the session's cache of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_battery.edges.corpora import Corpora, Corpus, Workspace

from ..store.git_repository import Repository


@pytest.fixture
def corpora(tmp_path: Path) -> Corpora:
    return Corpora(tmp_path / "cache")


@pytest.fixture
def shop(tmp_path: Path) -> Repository:
    """A repository with a past and a future around the tag ``v1``: of everything that a clone must not have."""
    shop = Repository(tmp_path / "shop")
    (shop.path / "a.py").write_text("old = 1\n")
    shop.commit("past")
    (shop.path / "a.py").write_text("now = 1\n")
    (shop.path / "src").mkdir()
    (shop.path / "src" / "b.txt").write_bytes(b"one\r\ntwo\n")
    (shop.path / "run.sh").write_text("#!/bin/sh\n")
    (shop.path / "run.sh").chmod(0o755)
    (shop.path / "link").symlink_to("src/b.txt")
    (shop.path / "bytes.bin").write_bytes(bytes(range(256)))
    shop.commit("present")
    shop("tag", "-a", "-m", "the first", "v1")
    (shop.path / "future.py").write_text("answer = 42\n")
    shop.commit("future")
    shop("tag", "v2")
    shop("remote", "add", "origin", str(tmp_path / "elsewhere"))
    (shop.path / "a.py").write_text("stashed = 1\n")
    shop("stash")
    return shop


@pytest.fixture
def clone(corpora: Corpora, tmp_path: Path) -> Callable[..., Workspace]:
    """``clone(source, pin)``: a workspace, each time another one."""
    made = 0

    def clone(source: Path, pin: str | None = None, exclude: tuple[str, ...] = ()) -> Workspace:
        nonlocal made
        made += 1
        return corpora.clone(corpora.resolve(Corpus(source, pin)), tmp_path / f"work-{made}", exclude)

    return clone
