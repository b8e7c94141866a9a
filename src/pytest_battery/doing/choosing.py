"""Which cells a task is measured in: its own subjects, or those the command line names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_battery.errors import OptionError
from pytest_battery.values.canonical import digest
from pytest_battery.values.permutations import Cell, Permutation
from pytest_battery.values.stacks import NONE, Stack
from pytest_battery.values.subjects import Subject, Sweep, cross, parse_subject, parse_sweep
from pytest_battery.values.tasks import Control, Task

__all__ = [
    "Choice",
    "Shard",
    "cells_of",
    "controls_of",
    "permutations_of",
    "read_choice",
    "read_shard",
    "reference_of",
]


@dataclass(frozen=True, slots=True)
class Choice:
    """What the command line decides; what it leaves open the task says.

    ``subjects`` empty: the task's own, crossed with ``sweeps``.  ``stacks`` empty: the task's own.  ``runs`` None: the task's.
    """

    subjects: tuple[Subject, ...] = ()
    sweeps: tuple[Sweep, ...] = ()
    stacks: tuple[str, ...] = ()
    runs: int | None = None


def read_choice(axes: Sequence[tuple[str, str]], stacks: Sequence[str] = (), runs: int | None = None) -> Choice:
    """``--model`` and ``--sweep`` in the order they were given, as ``("model", text)`` and ``("sweep", text)``.

    A sweep binds to the model before it; with no model at all, to every task's subjects.  Raises `SubjectError`
    for text that cannot be read, `OptionError` for what cannot be combined.
    """
    models: list[tuple[Subject, list[Sweep]]] = []
    loose: list[Sweep] = []
    for kind, text in axes:
        if kind == "model":
            models.append((parse_subject(text), []))
            continue
        sweep = parse_sweep(text)
        bound = models[-1][1] if models else loose
        if any(other.knob == sweep.knob for other in bound):
            raise OptionError(f"--sweep {text}: {sweep.knob} is swept twice; put all its values into one --sweep")
        bound.append(sweep)
    if models and loose:
        raise OptionError(
            f"--sweep {loose[0].knob}=...: stands before the first --model; put it after the model it sweeps"
        )
    if runs is not None and runs < 1:
        raise OptionError(f"--runs {runs}: at least one run is needed")
    subjects = dict.fromkeys(subject for model, sweeps in models for subject in cross([model], sweeps))
    return Choice(tuple(subjects), tuple(loose), tuple(dict.fromkeys(stacks)), runs)


@dataclass(frozen=True, slots=True)
class Shard:
    """Part *index* (from 1) of *count*.  A case of a task is in one part, with all its arms: they stay comparable."""

    index: int
    count: int

    def has(self, task: str, case: str) -> bool:
        return int(digest([task, case])[:12], 16) % self.count == self.index - 1


def read_shard(text: str) -> Shard:
    """``2/5``.  Raises `OptionError`."""
    match = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise OptionError(f"--shard {text}: write I/N, with I from 1 to N")
    return Shard(int(match[1]), int(match[2]))


def cells_of(task: Task, choice: Choice) -> tuple[Cell, ...]:
    """The task's cells, in the order declared, its controls last; with ``--model``, those it names and no more.

    Raises `OptionError` where nobody names a subject.
    """
    subjects = choice.subjects or cross(task.subjects, choice.sweeps)
    if subjects and not choice.subjects:
        subjects = tuple(dict.fromkeys([*subjects, *(subject for subject, _ in task.controls)]))
    if not subjects:
        raise OptionError(
            f"{task.path.name}: no subject: name some with --model, or in the task as subjects = "
            '["local/smollm2-135m@max_tokens=16"]'
        )
    stacks: tuple[Stack, ...] = (NONE,)
    if task.agent is not None:
        stacks = task.agent.built
    elif choice.stacks and NONE.key not in choice.stacks:
        raise OptionError(
            f"--stack {choice.stacks[0]}: {task.name} is asked without an agent, and its only stack is {NONE.key}"
        )
    return tuple(Cell(task.name, subject, stack) for stack in stacks for subject in subjects)


def permutations_of(task: Task, choice: Choice) -> tuple[Permutation, ...]:
    """Case by case, and inside a case arm by arm: whatever drifts while they run, drifts for all arms alike."""
    cells = cells_of(task, choice)
    runs = choice.runs or task.runs
    return tuple(Permutation(cell, case, runs) for case in task.cases for cell in cells)


def reference_of(task: Task, cells: Sequence[Cell]) -> Cell:
    """The cell the others are compared with.

    The one the task names, axis by axis; a subject named without the knob that is swept means its first value;
    what the task leaves open is the first cell.  A named subject that is not among *cells* is still the
    reference: its records may be in the store.
    """
    stack = next((cell.stack for cell in cells if cell.stack.key == task.reference.stack), cells[0].stack)
    wanted = task.reference.subject
    if wanted is None:
        return Cell(task.name, cells[0].subject, stack)
    candidates = [cell.subject for cell in cells]
    if wanted in candidates:
        return Cell(task.name, wanted, stack)
    for subject in candidates:
        if subject.ref == wanted.ref and _agrees(subject, wanted):
            return Cell(task.name, subject, stack)
    return Cell(task.name, wanted, stack)


def controls_of(task: Task, cells: Sequence[Cell]) -> dict[Cell, Control]:
    """Those of *cells* whose outcome is known beforehand."""
    known = dict(task.controls)
    return {cell: known[cell.subject] for cell in cells if cell.subject in known}


def _agrees(subject: Subject, wanted: Subject) -> bool:
    """Whether *subject* is *wanted* but for knobs that *wanted* leaves open."""
    return wanted.level in (None, subject.level) and set(wanted.knobs) <= set(subject.knobs)
