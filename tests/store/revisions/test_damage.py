"""Objects that are damaged, and files that are no records."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_battery.edges.store import Problem, Store
from pytest_battery.errors import GitError, NewerSchemaError

from ..git_repository import Repository
from .looking import CELL, LaneMaker, RecordMaker, reading, replies

# -- damage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["not zlib", "empty", "missing", "cut short", "another's", "another kind"])
def test_a_damaged_record_is_a_problem_and_the_others_are_read(
    measured: Repository, lane: LaneMaker, damage: str
) -> None:
    name = f"HEAD:store/{CELL}/a-2.json"
    sha = measured("rev-parse", name)
    whole = measured.object_file(name).read_bytes()
    content = {
        "not zlib": b"not zlib",
        "empty": b"",
        "missing": None,
        "cut short": whole[:-40],
        "another's": measured.object_file(f"HEAD:store/{CELL}/a-1.json").read_bytes(),
        "another kind": zlib.compress(zlib.decompress(whole).replace(b"blob ", b"tag ", 1)),
    }[damage]
    measured.damage(name, content)
    store = reading(measured)
    store.prove_readable()
    path = Path(f"HEAD:store/{CELL}/a-2.json")
    problem = Problem(path, "not-a-record", f"cannot be read: git object {sha} is missing or corrupt")
    found = store.every_run(lane("a").permutation)
    assert found[2] == problem
    assert replies(store, lane("a")) == {1: "a 1", 2: "not-a-record", 12: "a 12"}
    assert [one for one in store.walk() if isinstance(one, Problem)] == [problem]


def test_a_repository_full_of_damage_is_given_up(
    repository: Repository, kept: Callable[..., Path], lane: LaneMaker
) -> None:
    for run in range(1, 103):
        kept(repository.path / "store", "a", run)
    repository.commit()
    for run in range(1, 103):
        name = f"HEAD:store/{CELL}/a-{run}.json"
        repository.damage(name, repository.object_file(name).read_bytes()[:-40])
    with pytest.raises(GitError, match=r"more than 100 objects of the repository at .* are corrupt: git fsck"):
        reading(repository).prove_readable()


@pytest.mark.parametrize("content", [b"not zlib", None])
def test_a_damaged_tree_is_fatal_and_named(measured: Repository, content: bytes | None) -> None:
    sha = measured("rev-parse", "HEAD:store/t/none")
    measured.damage("HEAD:store/t/none", content)
    with pytest.raises(GitError, match=rf"the files of HEAD \([0-9a-f]{{7}}\) cannot be listed: .*{sha}"):
        reading(measured).prove_readable()


def test_git_that_was_killed_is_no_corrupt_record(
    measured: Repository, lane: LaneMaker, before_git: Callable[[str], None]
) -> None:
    store = reading(measured)
    assert store.cases(lane("a").permutation.cell)
    before_git("kill -9 $$")
    with pytest.raises(GitError, match="git ended with -9 while object"):
        store.every_run(lane("a").permutation)


# -- what is no record -----------------------------------------------------------------------------


def _committed(repository: Repository, text: str, name: str = f"store/{CELL}/a-1.json") -> None:
    path = repository.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    repository.commit()


@pytest.mark.parametrize("schema", [2, 99, 10**12])
def test_a_newer_record_is_refused_by_name(
    measured: Repository, lane: LaneMaker, record: RecordMaker, schema: int
) -> None:
    newer = record(lane()).model_dump(mode="json", by_alias=True) | {"schema": schema}
    _committed(measured, json.dumps(newer, indent=1))
    message = rf"^HEAD:store/{CELL}/a-1\.json: written by a newer version of pytest-battery \(schema {schema};"
    store = reading(measured)
    with pytest.raises(NewerSchemaError, match=message):
        store.prove_readable()
    with pytest.raises(NewerSchemaError, match=message):
        store.every_run(lane().permutation)
    (problem,) = (one for one in store.walk() if isinstance(one, Problem))
    assert (problem.kind, problem.what[:26]) == ("newer", "written by a newer version")


def test_a_schema_that_is_a_knobs_is_nobodys_version(
    repository: Repository, kept: Callable[..., Path], lane: LaneMaker
) -> None:
    kept(repository.path / "store", knobs={"requested": {"schema": 7}}, reply='"schema": 9')
    repository.commit()
    store = reading(repository)
    store.prove_readable()
    assert replies(store, lane()) == {1: '"schema": 9'}


@pytest.mark.parametrize(
    ("text", "kind"), [("{", "half-written"), ("[]", "not-a-record"), ('{"schema": 1}', "not-a-record")]
)
def test_what_is_no_record_is_a_problem_by_name(measured: Repository, lane: LaneMaker, text: str, kind: str) -> None:
    _committed(measured, text)
    found = reading(measured).every_run(lane().permutation)[1]
    assert isinstance(found, Problem)
    assert (str(found.path), found.kind) == (f"HEAD:store/{CELL}/a-1.json", kind)


@pytest.mark.parametrize("field", ["case", "run", "task", "stack", "subject"])
def test_a_record_in_anothers_place_is_not_counted(
    measured: Repository, lane: LaneMaker, record: RecordMaker, field: str
) -> None:
    document = record(lane("a")).model_dump(mode="json", by_alias=True)
    if field in ("stack", "subject"):
        document[field]["key"] = "fake/other"
    else:
        document[field] = 7 if field == "run" else "other"
    _committed(measured, json.dumps(document))
    found = reading(measured).every_run(lane("a").permutation)[1]
    assert isinstance(found, Problem)
    assert (str(found.path), found.kind) == (f"HEAD:store/{CELL}/a-1.json", "misplaced")


def test_a_link_among_the_records_is_not_followed(measured: Repository, lane: LaneMaker) -> None:
    measured("checkout", "--quiet", "--", "store")
    (measured.path / "store" / CELL / "a-3.json").symlink_to("a-1.json")
    measured.commit()
    path = Path(f"HEAD:store/{CELL}/a-3.json")
    found = reading(measured).every_run(lane("a").permutation)
    assert found[3] == Problem(path, "foreign", "is a link; not followed")
    assert list(found) == [1, 2, 3, 12]


def test_a_submodule_among_the_records_is_not_followed(measured: Repository, lane: LaneMaker) -> None:
    measured("checkout", "--quiet", "--", "store")
    commit = measured("rev-parse", "HEAD")
    measured("update-index", "--add", "--cacheinfo", f"160000,{commit},store/{CELL}/a-3.json")
    measured("update-index", "--add", "--cacheinfo", f"160000,{commit},store/t/none/module")
    measured("commit", "--quiet", "-m", "modules")
    store = reading(measured)
    problems = [(str(one.path), one.what) for one in store.walk() if isinstance(one, Problem)]
    assert problems == [
        (f"HEAD:store/{CELL}/a-3.json", "is a submodule; not followed"),
        ("HEAD:store/t/none/module", "is a submodule; not followed"),
    ]
    assert replies(store, lane("a"))[3] == "foreign"


def test_a_walk_tells_records_from_what_is_none(measured: Repository) -> None:
    measured("checkout", "--quiet", "--", "store")
    root = measured.path / "store"
    Store(root).put_summary({})
    for name in ("notes.txt", "t/notes.json", f"{CELL}/notes.txt", f"{CELL}/deeper/a-1.json", f"{CELL}/a-01.json"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("{}")
    for name in (".tmp-1", ".tmp-2-1.json"):
        (root / CELL / name).write_text("x")
    (root / CELL / "a-1.evidence").mkdir()
    (root / CELL / "a-1.evidence" / "calls.jsonl").write_text("{}\n")
    (root / ".gitignore").write_text("")
    measured.commit()
    found = [(str(one.path), one.kind if isinstance(one, Problem) else "record") for one in reading(measured).walk()]
    assert sorted(found) == sorted(
        [
            *((f"HEAD:store/{CELL}/{name}.json", "record") for name in ("a-1", "a-2", "a-12", "b-1")),
            *((f"HEAD:store/{CELL}/{name}", "foreign") for name in ("a-01.json", "deeper/a-1.json", "notes.txt")),
            (f"HEAD:store/{CELL}/.tmp-1", "leftover"),
            (f"HEAD:store/{CELL}/.tmp-2-1.json", "leftover"),
            ("HEAD:store/notes.txt", "foreign"),
            ("HEAD:store/t/notes.json", "foreign"),
        ]
    )
