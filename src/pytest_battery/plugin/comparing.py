"""`battery compare`, `battery selfcheck` and `battery plan`: verbs over what is stored; no model is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from pytest_battery.doing.choosing import Choice, cells_of
from pytest_battery.doing.designs import design_faults
from pytest_battery.doing.elsewhere import Other
from pytest_battery.doing.preparing import Prepared
from pytest_battery.doing.tabling import Tabled, tabled
from pytest_battery.errors import GitError, OptionError, SubjectError
from pytest_battery.plugin.against import other_of
from pytest_battery.plugin.session import Battery
from pytest_battery.plugin.tables import Shown, place_line
from pytest_battery.saying.agreement import Agreement, agreements, distributions
from pytest_battery.saying.cells import CellRecords
from pytest_battery.saying.gaps import Elsewhere, GapTable, Row, TaskRecords, gap_table
from pytest_battery.saying.selfcheck import SelfCheck, selfcheck
from pytest_battery.values.permutations import Permutation
from pytest_battery.values.records import Record
from pytest_battery.values.subjects import Subject, parse_subject
from pytest_battery.values.tasks import Reference

__all__ = ["Planned", "compared", "plan_of", "sampled", "self_checked"]

Found = Sequence[tuple[str, Permutation]]


# -- compare ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Side:
    """What one argument of `battery compare` names: a subject, or a place where records lie (None: the session's)."""

    kind: Literal["subject", "place"]
    subject: Subject | None = None
    other: Other | None = None


def compared(battery: Battery, found: Found, first: str, second: str) -> tuple[Shown, list[str], list[Agreement]]:
    """The gaps of *second* against *first*, a line on each place, and how far the answers agree: two subjects, or two stores or revisions.

    Raises `OptionError` for two that are not of a kind, `GitError`, `StoreError`.
    """
    sides = [_side(battery, text) for text in (first, second)]
    if sides[0].kind != sides[1].kind:
        raise OptionError(
            f"compare {first} {second}: one names a subject and the other a place; name two subjects, or two stores or "
            "revisions"
        )
    names = dict.fromkeys(permutation.task for _, permutation in found)
    prepared = [battery.tasks[name] for name in names]
    if sides[0].kind == "subject":
        reference, candidate = sides[0].subject, sides[1].subject
        assert reference is not None
        assert candidate is not None
        result, table = _subjects(battery, prepared, reference, candidate)
        return Shown(result, table), [], agreements(result.tasks)
    result = _places(battery, prepared, sides[0].other, sides[1].other, (first, second))
    words = zip(("reference", "candidate"), sides, strict=True)
    lines = [place_line(word, side.other, datetime.now(UTC)) for word, side in words if side.other is not None]
    return Shown(result, gap_table(result.tasks)), lines, agreements(result.tasks)


def _side(battery: Battery, text: str) -> _Side:
    directory = battery.config.invocation_params.dir / text
    own = battery.store.root
    if directory.is_dir():
        if own.is_dir() and directory.samefile(own):
            return _Side("place")
        return _Side("place", other=other_of(battery, text))
    try:
        return _Side("place", other=other_of(battery, text))
    except GitError as unknown:
        try:
            return _Side("subject", subject=parse_subject(text))
        except SubjectError:
            raise OptionError(f"{text}: neither a directory nor a git revision ({unknown}), and no subject") from None


def _subjects(
    battery: Battery, prepared: Sequence[Prepared], reference: Subject, candidate: Subject
) -> tuple[Tabled, GapTable]:
    if reference == candidate:
        raise OptionError(f"compare {reference.key} {candidate.key}: a subject compared with itself has no gap")
    for subject in (reference, candidate):
        battery.models.identity(subject)
    choice = Choice((reference, candidate), stacks=battery.choice.stacks, runs=battery.choice.runs)
    named = [
        replace(one, task=replace(one.task, reference=Reference(reference, one.task.reference.stack)))
        for one in prepared
    ]
    result = tabled(battery.store, battery.models, named, choice)
    return result, gap_table(result.tasks)


def _places(
    battery: Battery, prepared: Sequence[Prepared], first: Other | None, second: Other | None, names: tuple[str, str]
) -> Tabled:
    if first is None and second is None:
        raise OptionError(f"compare {' '.join(names)}: both are this session's own store")
    here = tabled(battery.store, battery.models, prepared, battery.choice)
    tasks = []
    for one, mine in zip(prepared, here.tasks, strict=True):
        cells = cells_of(one.task, battery.choice)
        runs = battery.choice.runs or one.task.runs
        sides = []
        for other in (first, second):
            if other is None:
                sides.append({records.cell: records for records in mine.cells})
            else:
                sides.append({cell: other.records(one, battery.models, cell, runs, True) for cell in cells})
        label = names[0] if first is None else first.label
        tasks.append(
            TaskRecords(
                name=mine.name,
                metrics=mine.metrics,
                cells=tuple(sides[1][cell] for cell in cells),
                reference=None,
                elsewhere=Elsewhere(names[0], label, sides[0]),
            )
        )
    return replace(here, tasks=tasks)


# -- sample -----------------------------------------------------------------------------------------


def sampled(battery: Battery, found: Found) -> list[dict[str, Any]]:
    """What each permutation found was answered, step by step.  Raises `StoreError`."""
    told = []
    for nodeid, permutation in found:
        runs = battery.store.every_run(permutation)
        now = battery.models.fingerprint(battery.tasks[permutation.task], permutation)
        records = tuple(
            record
            for run, record in sorted(runs.items())
            if isinstance(record, Record)
            and record.reply is not None
            and run <= permutation.runs
            and not record.fingerprint.changed(now)
        )
        case = permutation.case.id
        cell = CellRecords(permutation.cell, {case: records}, (case,), permutation.runs)
        steps = [one.as_json() for one in distributions(cell)] if records else []
        told.append({"nodeid": nodeid, "runs": len(records), "of": permutation.runs, "steps": steps})
    return told


# -- selfcheck --------------------------------------------------------------------------------------


def self_checked(battery: Battery, found: Found) -> tuple[SelfCheck, ...]:
    """Every cell found, halved against itself.  Raises `StoreError`."""
    names = dict.fromkeys(permutation.task for _, permutation in found)
    result = tabled(battery.store, battery.models, [battery.tasks[name] for name in names], battery.choice)
    return selfcheck(result.tasks)


# -- plan -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Planned:
    """One gap of a primary metric: how it stands, and what it would take.  ``fault`` says why this design can't tell."""

    row: Row
    fault: str

    @property
    def price(self) -> float | None:
        return None if self.row.needs is None else self.row.needs.usd

    def as_json(self) -> dict[str, Any]:
        return {**self.row.as_json(), "fault": self.fault}


def plan_of(battery: Battery, found: Found) -> list[Planned]:
    """Every gap of a primary metric that does not hold yet, cheapest verdict first.  Raises `StoreError`, `GitError`.

    A gap without a price comes after those that have one; among equals, the one that takes fewer runs first.
    """
    names = dict.fromkeys(permutation.task for _, permutation in found)
    prepared = [battery.tasks[name] for name in names]
    result = tabled(battery.store, battery.models, prepared, battery.choice, other=battery.other())
    table = gap_table(result.tasks)
    faults = design_faults(prepared, battery.choice, against=battery.config.option.battery_against is not None)
    planned = [
        Planned(row, faults.get(row.task, ""))
        for row in table.rows
        if row.primary and row.against and not row.origin and not (row.gap is not None and row.gap.holds)
    ]
    return sorted(planned, key=_cheapest)


def _cheapest(planned: Planned) -> tuple[bool, float, float]:
    needs = planned.row.needs
    usd = planned.price
    more = float("inf") if needs is None or needs.more_runs is None else needs.more_runs
    return usd is None, usd or 0.0, more
