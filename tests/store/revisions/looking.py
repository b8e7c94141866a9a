"""Reading a store of a revision, in a line."""

from __future__ import annotations

from collections.abc import Callable

from pytest_battery.edges.git import resolve
from pytest_battery.edges.store.revisions import RevisionStore
from pytest_battery.values.permutations import Lane
from pytest_battery.values.records import Record

from ..git_repository import Repository

__all__ = ["CELL", "LaneMaker", "RecordMaker", "reading", "replies"]

CELL = "t/none/fake--m"
"""Where the records of the cell lie that the fixtures ``lane`` and ``record`` make."""

LaneMaker = Callable[..., Lane]
RecordMaker = Callable[..., Record]


def reading(repository: Repository, revision: str = "HEAD", store: str = "store") -> RevisionStore:
    return RevisionStore(resolve(repository.path, revision), repository.path / store)


def replies(store: RevisionStore, lane: Lane) -> dict[int, str | None]:
    found = store.every_run(lane.permutation)
    return {run: record.reply if isinstance(record, Record) else record.kind for run, record in found.items()}
