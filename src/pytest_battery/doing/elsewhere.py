"""Another store's records of the same cells, as something to compare with: an older revision's, or another machine's.

They are graded by the scorer as it is now; what cannot be is refused, never compared in silence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import combinations, islice
from typing import Protocol

from pytest_battery.doing.grading import graded
from pytest_battery.doing.planning import Models
from pytest_battery.doing.preparing import Prepared
from pytest_battery.edges.store import Problem
from pytest_battery.saying.cells import CellRecords
from pytest_battery.saying.notes import listed
from pytest_battery.values.canonical import digest
from pytest_battery.values.cases import Case
from pytest_battery.values.permutations import Cell, Lane, Permutation
from pytest_battery.values.records import Record

__all__ = ["AskedThere", "Other", "OtherStore", "Seen"]

_SUBSETS = 4096


class OtherStore(Protocol):
    """What is read of a store, wherever it lies."""

    def cases(self, cell: Cell) -> tuple[str, ...]:
        """Ids of the cases that have records of *cell*."""
        ...

    def every_run(self, permutation: Permutation) -> dict[int, Record | Problem]:
        """All runs of one case, however many the task asks for now."""
        ...

    def whole_reply(self, lane: Lane, record: Record) -> str | None:
        """The reply of *record*, None where it was cut and its evidence is not there."""
        ...


@dataclass(frozen=True, slots=True)
class AskedThere:
    """What the task asked one case in the other place: the digest of its prompt, and the fields that prompt read."""

    prompt: str
    read: frozenset[str]


@dataclass(slots=True)
class Seen:
    """What was found there, over all cells read so far."""

    records: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None
    models: set[str] = field(default_factory=set)

    def saw(self, record: Record) -> None:
        self.records += 1
        at = record.measured_at
        self.oldest = at if self.oldest is None else min(self.oldest, at)
        self.newest = at if self.newest is None else max(self.newest, at)
        if record.response_model:
            self.models.add(record.response_model)


@dataclass
class Other:
    """``name`` is what was typed, ``label`` stands in rows; ``commit`` and ``committed_at`` are None for a directory.

    ``asked`` says what a task asked there, by case id; None where its file cannot be read there.
    """

    name: str
    label: str
    store: OtherStore
    commit: str | None = None
    committed_at: datetime | None = None
    asked: Callable[[Prepared], Mapping[str, AskedThere] | None] = lambda prepared: None
    seen: Seen = field(default_factory=Seen)

    def records(self, prepared: Prepared, models: Models, cell: Cell, runs: int, shown: bool) -> CellRecords:
        """The cell's records there, those of cases that are the same here.

        Left out and counted: cases that the task has no more or that read otherwise now, and runs that were stale
        there already.  Raises `NewerSchemaError`.
        """
        reading = _Reading(self, prepared, models)
        for case in prepared.task.cases:
            reading.take(Permutation(cell, case, runs))
        gone = set(self.store.cases(cell)) - {case.id for case in prepared.task.cases}
        return CellRecords(
            cell=cell,
            runs=reading.runs,
            planned=tuple(reading.planned),
            planned_runs=reading.most_runs,
            stale=reading.stale,
            invalid=dict(reading.invalid),
            shown=shown,
            refused=reading.refusal(),
            remarks=tuple(reading.remarks(gone)),
        )


class _Reading:
    """One cell, case by case."""

    def __init__(self, other: Other, prepared: Prepared, models: Models) -> None:
        self.other, self.prepared, self.models = other, prepared, models
        self.asked = other.asked(prepared)
        self.runs: dict[str, tuple[Record, ...]] = {}
        self.planned: list[str] = []  # what that place has of the cases here: it owes no more
        self.most_runs = 0
        self.invalid: Counter[str] = Counter()
        self.stale = 0
        self.regraded = 0
        self.other_weights = False
        self._changed: list[str] = []
        self._ungradable: list[str] = []
        self._fields: frozenset[str] = frozenset()

    def take(self, permutation: Permutation) -> None:
        found = self.other.store.every_run(permutation)
        kept = [record for run, one in sorted(found.items()) for record in self._usable(Lane(permutation, run), one)]
        if kept:
            self.runs[permutation.case.id] = tuple(kept)
        if found and permutation.case.id not in self._changed:
            self.planned.append(permutation.case.id)
            self.most_runs = max(self.most_runs, len(found))

    def _usable(self, lane: Lane, found: Record | Problem) -> Iterator[Record]:
        """The record as it can be compared; nothing where it can't."""
        case = lane.permutation.case
        if isinstance(found, Problem):
            self.invalid["unreadable"] += 1
        elif not found.gradable:
            self.invalid[found.error.kind if found.error else "invalid"] += 1
        elif (
            self.asked is not None and case.id in self.asked and self.asked[case.id].prompt != found.fingerprint.prompt
        ):
            self.stale += 1
        elif not self._same_case(case, found.fingerprint.case):
            if case.id not in self._changed:
                self._changed.append(case.id)
        else:
            now = self.models.fingerprint(self.prepared, lane.permutation)
            self.other_weights |= now.model != found.fingerprint.model
            yield from self._graded_now(lane, found)

    def _graded_now(self, lane: Lane, record: Record) -> Iterator[Record]:
        case = lane.permutation.case
        if record.scorer.sha != self.prepared.asked[case.id].scorer or record.state == "invalid":
            reply = self.other.store.whole_reply(lane, record)
            if reply is None or (self.prepared.task.steps and record.steps is None):
                self._ungradable.append(f"{case.id}-{lane.run}")
                return
            score, error = graded(self.prepared, case, record.stop_reason or "stop", reply, record.steps or {})
            if error is not None:
                self.invalid[error.kind] += 1
                return
            self.regraded += 1
            record = record.model_copy(
                update={
                    "metrics": dict(score.metrics),
                    "unjudged": dict(score.unjudged),
                    "state": "valid",
                    "error": None,
                }
            )
        self.other.seen.saw(record)
        yield record

    def _same_case(self, case: Case, wanted: str) -> bool:
        """Whether the fields of the case that were read there have the values they have here.

        Only their digest is known.  Where the task file of that time is not at hand, subsets of the fields are tried,
        the one that fitted the case before first; a digest that none has is another case's.
        """
        if self.asked is not None and case.id in self.asked:
            read = self.asked[case.id].read
            return read <= set(case) and digest({name: case[name] for name in read}) == wanted
        for read in self._subsets(case):
            if read <= set(case) and digest({name: case[name] for name in read}) == wanted:
                self._fields = read
                return True
        return False

    def _subsets(self, case: Case) -> Iterator[frozenset[str]]:
        yield self._fields
        names = sorted(case)
        yield frozenset(names)
        sizes = (combinations(names, size) for size in range(len(names)))
        yield from map(frozenset, islice((subset for subsets in sizes for subset in subsets), _SUBSETS))

    def refusal(self) -> str:
        if not self._ungradable:
            return ""
        return (
            f"the scorer has changed since {self.other.name}, and the whole reply of {listed(self._ungradable)} is not "
            "there to be graded again; measure it there anew, or commit its evidence"
        )

    def remarks(self, gone: set[str]) -> Iterator[str]:
        for cases, what in ((self._changed, "changed since"), (gone, "no longer in the task")):
            if cases:
                number = f"{len(cases)} case{'' if len(cases) == 1 else 's'}"
                yield f"{number} {what}, left out: {listed(cases)}"
        if self.regraded:
            yield f"{self.regraded} run{'' if self.regraded == 1 else 's'} graded again by the scorer as it is now"
        if self.other_weights:
            yield "the model's files or settings on this machine are not those it had there"
