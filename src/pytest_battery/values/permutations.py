"""A permutation: one case of a task, put to one subject under one stack.  What gets a pytest item."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_battery.values.cases import Case
from pytest_battery.values.stacks import NONE, Stack
from pytest_battery.values.subjects import Subject

__all__ = ["Cell", "Lane", "Permutation"]


@dataclass(frozen=True, slots=True)
class Cell:
    """Task x subject x stack: what gets a row in a table."""

    task: str
    subject: Subject
    stack: Stack = NONE

    @property
    def arm(self) -> str:
        """The part of a node id between the brackets."""
        return f"{self.subject.id}-{self.stack.key}"

    @property
    def label(self) -> str:
        """How tables name the row."""
        return f"{self.subject.key}/{self.stack.key}"


@dataclass(frozen=True, slots=True)
class Permutation:
    cell: Cell
    case: Case
    runs: int

    @property
    def task(self) -> str:
        return self.cell.task

    @property
    def subject(self) -> Subject:
        return self.cell.subject

    @property
    def stack(self) -> Stack:
        return self.cell.stack

    @property
    def id(self) -> str:
        """``CASE[SUBJECT-STACK]``: the node id below the file."""
        return f"{self.case.id}[{self.cell.arm}]"

    def lanes(self) -> tuple[Lane, ...]:
        return tuple(Lane(self, run) for run in range(1, self.runs + 1))


@dataclass(frozen=True, slots=True)
class Lane:
    """One run of a permutation, numbered from 1."""

    permutation: Permutation
    run: int
