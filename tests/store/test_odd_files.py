"""Files that are no records of ours are named, never counted, never fatal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_battery.edges.store import Problem, Store, Stored
from pytest_battery.edges.store.reading import parse_record
from pytest_battery.errors import StoreError
from pytest_battery.values.records import Record

Make = Callable[..., Any]
FOREIGN = ("logs.json", "index.json", ".DS_Store", "result (1).json", "a-1.json~", "a-0.json", "a-01.json", "a-1.JSON", "-1.json")  # fmt: skip


def problems(store: Store) -> list[tuple[str, str, str]]:
    return [
        (one.path.relative_to(store.root).as_posix(), one.kind, one.what)
        for one in store.walk()
        if isinstance(one, Problem)
    ]


def test_foreign_files_are_named_wherever_they_lie(store: Store, lane: Make, record: Make) -> None:
    path = store.put(lane(), record(lane()))
    for name in FOREIGN:
        path.with_name(name).write_text("{}")
    for place in ("logs.json", "t/notes.txt", "t/none/summary.json"):
        (store.root / place).write_text("{}")
    (path.parent / "more").mkdir()
    (store.root / "elsewhere").symlink_to(path.parent)
    named = [(place, kind) for place, kind, what in problems(store)]
    assert set(named) == {
        *((f"t/none/fake--m/{name}", "foreign") for name in (*FOREIGN, "more")),
        *((place, "foreign") for place in ("logs.json", "t/notes.txt", "t/none/summary.json", "elsewhere")),
    }
    assert [one.path for one in store.walk() if isinstance(one, Stored)] == [path]
    strays = list(store.strays(lane().permutation.cell))
    assert {stray.path.name for stray in strays} == {*FOREIGN, "more"}
    assert {stray.what for stray in strays} == {"is not ours"}


@pytest.mark.parametrize("place", ["a-1.json", "t/a-1.json", "t/none/a-1.json"])
def test_a_record_above_the_directories_of_subjects_is_not_ours(
    store: Store, lane: Make, record: Make, place: str
) -> None:
    store.put(lane(), record(lane())).rename(store.root / place)
    assert problems(store) == [(place, "foreign", "is not ours")]


def test_our_own_files_beside_the_records_are_no_problem(store: Store, lane: Make, record: Make) -> None:
    store.prepare()
    store.put(lane(), record(lane()))
    store.put_summary({"n": 1})
    (store.root / ".lock").touch()
    assert problems(store) == []


def test_a_record_that_is_a_directory_is_no_record(store: Store, lane: Make) -> None:
    store.path(lane()).mkdir(parents=True)
    found = store.read_lane(lane())
    assert isinstance(found, Problem)
    assert (found.kind, found.what) == ("not-a-record", "cannot be read: Is a directory")


def test_no_part_of_a_record_is_taken_for_one(lane: Make, record: Make, store: Store) -> None:
    whole = store.put(lane(), record(lane(), reply="\u2705")).read_bytes()
    assert isinstance(parse_record(Path("a-1.json"), whole), Record)
    for length in range(len(whole) - 2):  # without the last newline it is whole
        part = parse_record(Path("a-1.json"), whole[:length])
        assert isinstance(part, Problem), length
        assert (part.kind, part.what) == ("half-written", "is not whole JSON; it is measured again")


@pytest.mark.parametrize("content", [b"[]", b"null", b"7", b'"x"', b"{}", b'{"schema": true}', b"[" * 100_000])
def test_json_that_is_no_record_is_no_record(content: bytes) -> None:
    assert isinstance(parse_record(Path("a-1.json"), content), Problem)


def test_a_leftover_of_a_killed_session_is_named(store: Store, lane: Make, record: Make) -> None:
    path = store.put(lane(), record(lane()))
    path.with_name(".tmp-1-abc").write_bytes(b'{"half')
    path.with_name(".tmp-2-abc").mkdir()
    leftovers = [(place.rpartition("/")[2], kind) for place, kind, what in problems(store)]
    assert leftovers == [(".tmp-1-abc", "leftover"), (".tmp-2-abc", "leftover")]
    assert {stray.kind for stray in store.strays(lane().permutation.cell)} == {"leftover"}


@pytest.mark.parametrize(
    "move", [{"case": "b"}, {"run": 2}, {"task": "u"}], ids=["another case", "another run", "another task"]
)
def test_a_record_in_another_place_is_not_counted(store: Store, lane: Make, record: Make, move: dict[str, Any]) -> None:
    source, target = store.put(lane(), record(lane())), store.path(lane(**move))
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)
    with pytest.raises(StoreError, match=r"says it is of t none a 1, and stands where .* belongs"):
        store.read_lane(lane(**move))
    assert problems(store) == [
        (target.relative_to(store.root).as_posix(), "misplaced", "says it is a run 1 of t; not counted")
    ]


def test_two_subjects_that_share_a_directory_are_never_merged(store: Store, lane: Make, record: Make) -> None:
    # In a file system that folds letter case; or, as here, where two keys are spelt alike.
    one, two = lane(subject="fake/a:b"), lane(subject="fake/a~b")
    assert store.path(one) == store.path(two)
    store.put(one, record(one))
    for reading in (lambda: store.read_lane(two), lambda: store.read(two.permutation)):
        with pytest.raises(StoreError) as caught:
            reading()
        assert "holds a record of fake/a:b, where fake/a~b belongs" in str(caught.value)
        assert "Two subjects share this directory name" in str(caught.value)
