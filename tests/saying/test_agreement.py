"""What was answered: distributions of one cell, agreement of two."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pytest_battery.saying.agreement import agreements, distributions
from pytest_battery.saying.cells import CellRecords, TaskRecords
from pytest_battery.values.fingerprints import Fingerprint
from pytest_battery.values.permutations import Cell
from pytest_battery.values.records import Environment, Record, ScorerSeen, StackSeen, SubjectSeen
from pytest_battery.values.subjects import parse_subject
from pytest_battery.values.tasks import Metric

A, B = Cell("t", parse_subject("fake/a")), Cell("t", parse_subject("fake/b"))


def record(case: str, run: int, **more: Any) -> Record:
    fields: dict[str, Any] = {
        "task": "t",
        "case": case,
        "run": run,
        "subject": SubjectSeen(key="fake/a", ref="fake/a"),
        "stack": StackSeen(key="none"),
        "fingerprint": Fingerprint(prompt="p", case="c"),
        "scorer": ScorerSeen(name="labels", sha="s"),
        "measured_at": datetime(2026, 12, 1, tzinfo=UTC),
        "wall_ms": 1,
        "state": "valid",
        "environment": Environment(plugin="0", python="3"),
    }
    return Record(**{**fields, **more})


def cell(which: Cell, answers: dict[str, list[str]]) -> CellRecords:
    """Case id -> the label of each run, "unparsed" for none."""
    runs = {
        case: tuple(record(case, run, reply="...", reasons={"parsed": label}) for run, label in enumerate(labels, 1))
        for case, labels in answers.items()
    }
    return CellRecords(which, runs, tuple(answers), 2)


def test_unparsed_runs_are_counted_and_agree_with_nothing() -> None:
    (found,) = distributions(cell(A, {"x": ["yes", "yes", "unparsed"], "y": ["unparsed", "unparsed"]}))
    assert (found.runs, found.parsed) == (5, 2)
    assert found.counts == (("unparsed", 3), ("yes", 2))
    assert found.modal == pytest.approx((2 / 3 + 0) / 2)
    assert found.pairwise == pytest.approx((1 / 3 + 0) / 2)


def test_two_cells_agree_case_by_case() -> None:
    one = cell(A, {"x": ["yes", "yes"], "y": ["yes", "no"], "z": ["no", "no"], "only": ["no"]})
    other = cell(B, {"x": ["yes", "no"], "y": ["yes", "yes"], "z": ["no", "no"]})
    (found,) = agreements([TaskRecords("t", (Metric("m", "higher"),), (one, other), A)])
    assert (found.cases, found.cell, found.against) == (3, "fake/b/none", "fake/a/none")
    assert found.modal == pytest.approx(1 / 3)  # x has two most frequent answers in b, y in a
    assert found.pairwise == pytest.approx((1 / 2 + 1 / 2 + 1) / 3)
    # yes: (1/2 + 1 + 0) / 3 against (1 + 1/2 + 0) / 3, the same for no
    assert found.delta == pytest.approx(0)
    assert found.parsed == (1, 1)


def test_a_shift_of_answers_is_the_distance() -> None:
    one = cell(A, {"x": ["yes", "yes"], "y": ["yes", "yes"]})
    other = cell(B, {"x": ["no", "no"], "y": ["yes", "unparsed"]})
    (found,) = agreements([TaskRecords("t", (Metric("m", "higher"),), (one, other), A)])
    assert found.delta == pytest.approx(0.75)
    assert found.parsed == (0.75, 1)


def test_steps_are_told_apart() -> None:
    def run(number: int, move: str) -> Record:
        reasons = {"move.parsed": move, "sure.parsed": "yes"}
        return record("x", number, reply="yes", steps={"move": move, "sure": "yes"}, reasons=reasons)

    found = distributions(CellRecords(A, {"x": (run(1, "up"), run(2, "down"))}, ("x",), 2))
    assert [(one.step, dict(one.counts)) for one in found] == [("move", {"up": 1, "down": 1}), ("sure", {"yes": 2})]


def test_without_labels_the_text_is_the_answer() -> None:
    runs = {"x": (record("x", 1, reply=" a\n b "), record("x", 2, reply="a b"), record("x", 3, reply=" "))}
    (found,) = distributions(CellRecords(A, runs, ("x",), 3))
    assert (dict(found.counts), found.parsed) == ({"a b": 2, "unparsed": 1}, 2)
