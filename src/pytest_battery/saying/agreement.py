"""What was answered, not how it was graded: how often, how alike within a cell, and how alike between two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

from pytest_battery.saying.cells import CellRecords, TaskRecords
from pytest_battery.values.records import Record

__all__ = ["Agreement", "Distribution", "agreements", "distributions"]

UNPARSED = "unparsed"
Answers = Mapping[str, Sequence[str | None]]
"""Case id -> the answer of each run, None where it could not be parsed."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """The answers of one cell to one step (empty for a task without steps), most frequent first.

    ``parsed`` of ``runs`` were answers at all.  ``modal`` is the share of the most frequent answer of each case, averaged
    over cases; ``pairwise`` how often two runs of one case agree, None where no case has two.
    """

    step: str
    runs: int
    parsed: int
    counts: tuple[tuple[str, int], ...]
    modal: float | None
    pairwise: float | None

    def as_json(self) -> dict[str, Any]:
        return {
            "step": self.step or None,
            "runs": self.runs,
            "parsed": self.parsed,
            "counts": dict(self.counts),
            "modal": self.modal,
            "pairwise": self.pairwise,
        }


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two cells' answers to one step over the cases both have.

    ``modal`` is the share of cases whose most frequent answers are the same (a case in which either cell has none such
    does not agree); ``pairwise`` how often a run of one agrees with a run of the other on the same case.  ``delta`` is the
    total variation distance between their answers, every case weighing the same: half the sum of the absolute differences
    of the shares.  Unparsed answers count as runs that agree with nothing, and as an answer of their own in ``delta``.
    """

    task: str
    step: str
    cell: str
    against: str
    cases: int
    parsed: tuple[float, float]
    modal: float
    pairwise: float
    delta: float

    def as_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "step": self.step or None,
            "cell": self.cell,
            "against": self.against,
            "cases": self.cases,
            "parsed": {"cell": self.parsed[0], "against": self.parsed[1]},
            "modal": self.modal,
            "pairwise": self.pairwise,
            "delta": self.delta,
        }


def distributions(records: CellRecords) -> list[Distribution]:
    """One for each step of the cell's records, in order."""
    found = []
    for step in _steps([records]):
        answers = _answers(records, step)
        said = [answer for of_case in answers.values() for answer in of_case]
        modal = [_share_of_most(of_case) for of_case in answers.values() if of_case]
        pairs = [_within(of_case) for of_case in answers.values() if len(of_case) > 1]
        counts = Counter(UNPARSED if answer is None else answer for answer in said)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        found.append(
            Distribution(
                step=step,
                runs=len(said),
                parsed=sum(answer is not None for answer in said),
                counts=tuple(ordered),
                modal=fmean(modal) if modal else None,
                pairwise=fmean(pairs) if pairs else None,
            )
        )
    return found


def agreements(tasks: Sequence[TaskRecords]) -> list[Agreement]:
    """Every cell with what it is compared with, step by step."""
    return [one for task in tasks for one in _of_task(task)]


def _of_task(task: TaskRecords) -> Iterator[Agreement]:
    by_cell = {records.cell: records for records in task.cells}
    for records in task.cells:
        if task.elsewhere is not None and records.cell in task.elsewhere.cells:
            other, against = task.elsewhere.cells[records.cell], task.elsewhere.name
        elif task.reference is not None and task.reference in by_cell and records.cell != task.reference:
            other, against = by_cell[task.reference], task.reference.label
        else:
            continue
        for step in _steps([records, other]):
            mine, theirs = _answers(records, step), _answers(other, step)
            shared = [case for case in mine if mine[case] and theirs.get(case)]
            if shared:
                yield _agreement(task.name, step, records.cell.label, against, [(mine[c], theirs[c]) for c in shared])


def _agreement(
    task: str, step: str, cell: str, against: str, pairs: Sequence[tuple[Sequence[str | None], Sequence[str | None]]]
) -> Agreement:
    modal = [_most(mine) is not None and _most(mine) == _most(other) for mine, other in pairs]
    pairwise = [fmean(a is not None and a == b for a in mine for b in other) for mine, other in pairs]
    shares = [_shares([side[place] for side in pairs]) for place in (0, 1)]
    names = shares[0].keys() | shares[1].keys()
    delta = sum(abs(shares[0].get(name, 0.0) - shares[1].get(name, 0.0)) for name in names) / 2
    parsed = [fmean(fmean(answer is not None for answer in side[place]) for side in pairs) for place in (0, 1)]
    return Agreement(
        task, step, cell, against, len(pairs), (parsed[0], parsed[1]), fmean(modal), fmean(pairwise), delta
    )


def _steps(cells: Sequence[CellRecords]) -> list[str]:
    steps: dict[str, None] = {}
    for records in cells:
        for runs in records.runs.values():
            for record in runs:
                steps.update(dict.fromkeys(record.steps or ("",)))
    return list(steps)


def _answers(records: CellRecords, step: str) -> Answers:
    planned = set(records.planned)
    return {case: [_answer(record, step) for record in runs] for case, runs in records.runs.items() if case in planned}


def _answer(record: Record, step: str) -> str | None:
    """The label that was parsed, where the scorer parses labels, else the text without the white space around it."""
    label = record.reasons.get(f"{step}.parsed" if step else "parsed")
    if label is not None:
        return None if label == UNPARSED else label
    text = (record.steps or {}).get(step) if step else record.reply
    return " ".join(text.split()) if text and text.strip() else None


def _most(answers: Sequence[str | None]) -> str | None:
    """The most frequent answer; None where there is none, or several are."""
    ranked = Counter(answer for answer in answers if answer is not None).most_common(2)
    if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0]


def _share_of_most(answers: Sequence[str | None]) -> float:
    counts = Counter(answer for answer in answers if answer is not None)
    return max(counts.values(), default=0) / len(answers)


def _within(answers: Sequence[str | None]) -> float:
    return fmean(a is not None and a == b for a, b in combinations(answers, 2))


def _shares(sides: Sequence[Sequence[str | None]]) -> dict[str, float]:
    shares: Counter[str] = Counter()
    for answers in sides:
        for answer in answers:
            shares[UNPARSED if answer is None else answer] += 1 / len(answers) / len(sides)  # type: ignore[assignment]
    return dict(shares)
