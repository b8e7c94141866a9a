"""The files of a revision, written elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_battery.edges.git import resolve
from pytest_battery.edges.store.revisions import export
from pytest_battery.errors import GitError

from ..git_repository import Repository


def exported(into: Path) -> dict[str, bytes]:
    return {str(path.relative_to(into)): path.read_bytes() for path in into.rglob("*") if not path.is_dir()}


def test_files_are_written_as_they_were(repository: Repository, tmp_path: Path) -> None:
    benchmarks = repository.path / "sub" / "benchmarks"
    (benchmarks / "pro mpts").mkdir(parents=True)
    (benchmarks / "triage.toml").write_bytes(b"old\r\n")
    (benchmarks / "pro mpts" / "grüße.md").write_bytes(b"\xff\x00")
    (benchmarks / "empty").write_bytes(b"")
    (benchmarks / "link").symlink_to("triage.toml")
    (repository.path / "sub" / "other.toml").write_bytes(b"not below")
    repository.commit()
    (benchmarks / "triage.toml").write_bytes(b"new")
    into = tmp_path / "into"
    export(resolve(repository.path, "HEAD"), benchmarks, into)
    assert exported(into) == {"triage.toml": b"old\r\n", "pro mpts/grüße.md": b"\xff\x00", "empty": b""}


def test_large_files_stay_where_they_are(repository: Repository, tmp_path: Path) -> None:
    with open(repository.path / "large", "wb") as file:
        file.truncate(20_000_001)
    with open(repository.path / "fits", "wb") as file:
        file.truncate(20_000_000)
    repository.commit()
    into = tmp_path / "into"
    export(resolve(repository.path, "HEAD"), repository.path, into)
    assert {path.name: path.stat().st_size for path in into.iterdir()} == {"fits": 20_000_000}


@pytest.mark.parametrize("content", [b"not zlib", None])
def test_a_damaged_file_is_left_out(repository: Repository, tmp_path: Path, content: bytes | None) -> None:
    (repository.path / "a").write_text("a")
    (repository.path / "b").write_text("b")
    repository.commit()
    repository.damage("HEAD:a", content)
    into = tmp_path / "into"
    export(resolve(repository.path, "HEAD"), repository.path, into)
    assert exported(into) == {"b": b"b"}


@pytest.mark.parametrize("name", ["/{tmp}/out", "../out", "a/../../out", "..", "."])
def test_a_made_up_tree_writes_nothing_elsewhere(repository: Repository, tmp_path: Path, name: str) -> None:
    (repository.path / "x").write_text("x")
    repository.commit()
    blob = repository("rev-parse", "HEAD:x")
    commit = repository.commit_made_up(("100644", name.format(tmp=tmp_path), blob), ("100644", "good", blob))
    into = tmp_path / "deep" / "into"
    export(resolve(repository.path, commit), repository.path, into)
    assert exported(into) == {"good": b"x"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "repository"]


def test_a_tree_that_no_disk_can_hold_is_told(repository: Repository, tmp_path: Path) -> None:
    (repository.path / "x").write_text("x")
    repository.commit()
    blob, tree = repository("rev-parse", "HEAD:x"), repository("rev-parse", "HEAD^{tree}")
    commit = repository.commit_made_up(("100644", "both", blob), ("40000", "both", tree))
    with pytest.raises(GitError, match=f"{commit}:both/x cannot be written to"):
        export(resolve(repository.path, commit), repository.path, tmp_path / "into")


def test_a_directory_that_is_not_in_the_revision_exports_nothing(measured: Repository, tmp_path: Path) -> None:
    export(resolve(measured.path, "HEAD"), measured.path / "nowhere", tmp_path / "into")
    assert not (tmp_path / "into").exists()
