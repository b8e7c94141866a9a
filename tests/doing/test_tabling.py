"""What a table is made of: fresh and valid records, and what is missing, counted."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_battery import CallError, Cost, Reply
from pytest_battery.doing.choosing import Choice
from pytest_battery.doing.tabling import Tabled, tabled
from pytest_battery.values.subjects import parse_subject


def table(bench: Any, prepared: Any, *subjects: str, runs: int = 2, **more: Any) -> Tabled:
    choice = Choice(tuple(map(parse_subject, subjects)), runs=runs)
    return tabled(bench.store, bench.models(), [prepared], choice, **more)


def row(result: Tabled, subject: str) -> Any:
    (found,) = [cell for cell in result.tasks[0].cells if cell.cell.subject.key == subject]
    return found


def test_fresh_and_valid_records_count_and_others_are_counted_apart(bench: Any) -> None:
    def fails(request: Any) -> str:
        raise CallError("http-500", "infrastructure", "down")

    prepared = bench.prepared()
    bench.measure(
        prepared, lambda request: Reply("yes", "length", cost=Cost(usd=0.25), model="m1"), subject="fake/a", runs=2
    )
    bench.measure(prepared, fails, subject="fake/b", runs=2)
    bench.measure(bench.prepared({"Say {{": "Shout {{"}), subject="fake/c", runs=2)
    bench.measure(bench.prepared({'expected = "yes"': 'expected = "no"'}), subject="fake/d", runs=2)
    prepared = bench.prepared()
    result = table(bench, prepared, "fake/a", "fake/b", "fake/c", "fake/d", "fake/e")
    assert [len(row(result, f"fake/{name}").runs.get("a", ())) for name in "abcde"] == [2, 0, 0, 0, 0]
    assert [row(result, f"fake/{name}").stale for name in "abcde"] == [0, 0, 2, 2, 0]
    assert row(result, "fake/b").invalid == {"http-500": 2}
    assert {(cell.planned, cell.planned_runs) for cell in result.tasks[0].cells} == {(("a",), 2)}
    assert (result.cases, result.usd, result.unpriced) == (1, 0.5, 0)
    assert (dict(result.stops), result.models) == ({"length": 2}, {"fake/a": {"m1"}})


def test_a_run_whose_grading_failed_does_not_count_as_a_result(bench: Any) -> None:
    bench.scorers = {"mine": lambda case, view: {}}
    prepared = bench.prepared({'use = "matchers"': 'use = "mine"', 'contains = "{{ case.expected }}"': ""})
    bench.measure(prepared)
    cell = row(table(bench, prepared, "fake/m", runs=1), "fake/m")
    assert (cell.runs, cell.stale, cell.invalid) == ({}, 0, {"contract": 1})


def test_the_reference_is_in_the_table_though_nobody_measures_it_now(bench: Any) -> None:
    verdict = "[verdict]\nreference = { subject = 'fake/old' }\n"
    bench.measure(bench.prepared(more=verdict), subject="fake/old")
    result = table(bench, bench.prepared(more=verdict), "fake/new", runs=1)
    assert [cell.cell.subject.key for cell in result.tasks[0].cells] == ["fake/old", "fake/new"]
    assert result.tasks[0].reference.subject.key == "fake/old"
    assert len(row(result, "fake/old").runs["a"]) == 1


def test_what_is_not_shown_still_counts_for_the_correction(bench: Any) -> None:
    result = table(bench, bench.prepared(), "fake/a", "fake/b", shown=lambda cell: False)
    assert [(cell.cell.subject.key, cell.shown) for cell in result.tasks[0].cells] == [
        ("fake/a", True),
        ("fake/b", False),
    ]


def test_the_primary_metric_comes_first(bench: Any) -> None:
    edits = {"[metrics.correct]": '[metrics.contains]\nbetter = "higher"\n\n[metrics.correct]\nprimary = true'}
    result = table(bench, bench.prepared(edits), "fake/a")
    assert [metric.name for metric in result.tasks[0].metrics] == ["correct", "contains"]


@pytest.mark.parametrize("costs", [[0.5, None], [None, None]])
def test_runs_that_nobody_priced_are_counted_and_not_summed(bench: Any, costs: list[float | None]) -> None:
    prepared = bench.prepared()
    left = iter(costs)
    bench.measure(prepared, lambda request: Reply("yes", cost=Cost(usd=next(left))), runs=2)
    result = table(bench, prepared, "fake/m")
    assert (result.usd, result.unpriced) == (sum(cost or 0 for cost in costs), costs.count(None))
