from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pytest_battery.saying.cells import CellRecords, TaskRecords
from pytest_battery.saying.gaps import gap_table
from pytest_battery.values.permutations import Cell
from pytest_battery.values.subjects import parse_subject
from pytest_battery.values.tasks import Metric

CASES = [f"c{i:02}" for i in range(12)]
MakeCell = Callable[..., CellRecords]
MakeTask = Callable[..., TaskRecords]


def passing(number: int, runs: int = 3, cases: list[str] = CASES) -> dict[str, list[bool]]:
    return {case: [place < number] * runs for place, case in enumerate(cases)}


def test_rows_are_the_primary_metric_of_every_cell_then_the_others(cell: MakeCell, task: MakeTask) -> None:
    both = {case: [{"latency": 1.5, "correct": True}] for case in CASES}
    metrics = (Metric("latency", "lower"), Metric("correct", "higher", primary=True))
    table = gap_table([task(cell("local/a", both), cell("local/b", both), metrics=metrics)])
    assert [(row.metric, row.cell.subject.ref, row.is_reference, row.primary, row.kind) for row in table.rows] == [
        ("correct", "local/a", True, True, "rate"),
        ("correct", "local/b", False, True, "rate"),
        ("latency", "local/a", True, False, "number"),
        ("latency", "local/b", False, False, "number"),
    ]
    assert table.m == 2


def test_a_row_holds_the_value_the_gap_and_the_adjusted_p(cell: MakeCell, task: MakeTask) -> None:
    table = gap_table([task(cell("local/a", passing(2)), cell("local/b", passing(12)), cell("local/c", passing(3)))])
    _, better, alike = table.rows
    assert better.value == 1
    assert better.gap is not None
    assert better.gap.estimate == pytest.approx(10 / 12)
    assert (better.gap.direction, better.gap.holds) == ("better", True)
    assert better.gap.p_holm == pytest.approx(2 * better.gap.p)
    assert (better.n_cases, better.planned) == (12, 12)
    assert alike.gap is not None
    assert alike.gap.reason == "1 of 12 shared cases differ; at least 6 must"


def test_an_established_gap_may_fall_to_the_adjustment(cell: MakeCell, task: MakeTask) -> None:
    cells = [cell(f"local/m{i}", passing(6)) for i in range(4)]
    table = gap_table([task(cell("local/reference", passing(0)), *cells)])
    for row in table.rows[1:]:
        assert row.gap is not None
        assert (row.gap.state, row.gap.holds, row.gap.m) == ("established", False, 4)


def test_a_cell_without_any_record_is_missing_not_zero(cell: MakeCell, task: MakeTask) -> None:
    table = gap_table([task(cell("local/a", passing(2)), cell("local/b", {}, planned=CASES))])
    row = table.rows[1]
    assert (row.value, row.gap, row.reason, row.n_cases, row.planned) == (None, None, "no data", 0, 12)
    assert (table.m, table.left_out) == (0, 1)


def test_a_cell_of_invalid_runs_says_what_they_died_of(cell: MakeCell, task: MakeTask) -> None:
    dead = cell("local/b", {}, planned=CASES, invalid={"http-500": 3, "timeout": 24, "connection": 0}, stale=2)
    row = gap_table([task(cell("local/a", passing(2)), dead)]).rows[1]
    assert row.reason == "no data: 24 timeout, 3 http-500, 2 stale"


def test_a_reference_without_records_leaves_no_gap(cell: MakeCell, task: MakeTask) -> None:
    empty = cell("local/a", {}, planned=CASES, invalid={"timeout": 36})
    table = gap_table([task(empty, cell("local/b", passing(5)))])
    assert table.rows[0].reason == "no data: 36 timeout"
    assert table.rows[1].reason == "the reference has no data: 36 timeout"
    assert table.rows[1].value == pytest.approx(5 / 12)
    assert (table.m, table.left_out) == (0, 1)


def test_a_reference_that_is_not_in_the_table_leaves_no_gap(cell: MakeCell, task: MakeTask) -> None:
    elsewhere = Cell("triage", parse_subject("local/elsewhere"))
    table = gap_table([task(cell("local/b", passing(5)), reference=elsewhere)])
    assert table.rows[0].reason == "the reference has no data"
    assert table.left_out == 1


def test_without_a_reference_every_cell_stands_alone(cell: MakeCell, task: MakeTask) -> None:
    table = gap_table([task(cell("local/a", passing(5)), cell("local/b", passing(9)), reference=None)])
    for row in table.rows:
        assert (row.gap, row.reason) == (None, "")
        assert row.estimate is not None
        assert row.estimate.lo is not None
    assert (table.m, table.left_out) == (0, 0)


def test_one_row_without_a_gap_does_not_spoil_the_others(cell: MakeCell, task: MakeTask) -> None:
    ghost = cell("local/ghost", {}, planned=CASES)
    few = cell("local/few", {"c00": [True]}, planned=CASES)
    table = gap_table([task(cell("local/a", passing(0)), ghost, few, cell("local/b", passing(12)))])
    assert (table.m, table.left_out) == (2, 1)
    _, _, single, better = (row.gap for row in table.rows)
    assert single is not None
    assert better is not None
    assert single.p_holm == pytest.approx(0.5, abs=0.03)  # 4 relabellings
    assert better.p_holm == pytest.approx(2 * better.p)


def test_one_case_alone_is_never_certain(cell: MakeCell, task: MakeTask) -> None:
    table = gap_table([task(cell("local/a", {"c": [False]}), cell("local/b", {"c": [True]}))])
    gap = table.rows[1].gap
    assert gap is not None
    assert (gap.state, gap.lo, gap.hi, gap.p_floor) == ("inconclusive", -1, 1, 1)
    assert gap.reason.startswith("2 relabellings of these runs exist")


def test_no_row_that_lies_between_zero_and_one_is_without_an_interval(cell: MakeCell, task: MakeTask) -> None:
    constant = cell("local/a", {case: [True, False] for case in CASES})
    single = cell("local/b", {"c00": [True, False]}, planned=CASES)
    apart = cell("local/c", {"other": [True, False]})
    for row in gap_table([task(constant, single, apart)]).rows:
        assert row.estimate is not None
        assert row.estimate.lo is not None
        assert row.estimate.hi is not None
        assert row.estimate.lo < 0.5 < row.estimate.hi
        if row.gap is not None:
            assert row.gap.lo < row.gap.hi


def test_cases_that_only_one_side_has_are_counted(cell: MakeCell, task: MakeTask) -> None:
    mine, other = passing(5, cases=CASES[2:]), passing(5, cases=CASES[:-1])
    row = gap_table([task(cell("local/a", other, planned=CASES), cell("local/b", mine, planned=CASES))]).rows[1]
    assert "1 case only here: c11; 2 cases only in the reference: c00, c01" in row.notes
    assert (row.n_cases, row.planned) == (9, 12)


def test_cells_that_share_no_case_say_so(cell: MakeCell, task: MakeTask) -> None:
    mine = {f"x{i}": [True] for i in range(7)}
    other = {f"y{i}": [False] for i in range(6)}
    row = gap_table([task(cell("local/a", other), cell("local/b", mine))]).rows[1]
    assert row.gap is not None
    assert row.gap.unit == "case2"
    assert "no case is shared: 7 here, 6 in the reference" in row.notes


def test_stale_invalid_unjudged_and_unplanned_runs_are_counted(cell: MakeCell, task: MakeTask) -> None:
    runs: dict[str, list[Any]] = {**passing(5), "gone": [True]}
    runs["c00"] = [True, "unjudged", True]
    mine = cell("local/b", runs, planned=CASES, planned_runs=3, stale=2, invalid={"timeout": 1})
    row = gap_table([task(cell("local/a", passing(5)), mine)]).rows[1]
    assert row.notes[:4] == (
        "1 invalid run left out: 1 timeout",
        "2 stale runs left out",
        "1 of 36 runs unjudged",
        "1 case no longer in the task left out",
    )
    assert row.n_cases == 12


def test_an_unjudged_metric_shrinks_only_itself(cell: MakeCell, task: MakeTask) -> None:
    def judged(abstained: int) -> dict[str, list[dict[str, Any]]]:
        return {
            case: [{"correct": True, "grade": "unjudged" if place < abstained else True}]
            for place, case in enumerate(CASES)
        }

    metrics = (Metric("correct", "higher", primary=True), Metric("grade", "higher"))
    table = gap_table([task(cell("local/a", judged(0)), cell("local/b", judged(4)), metrics=metrics)])
    assert [row.n_cases for row in table.rows] == [12, 12, 12, 8]
    assert table.rows[3].notes[:2] == ("4 of 12 runs unjudged", "4 cases only in the reference: c00, c01, c02, c03")
    assert not any("unjudged" in note for note in table.rows[1].notes)


def test_a_metric_that_nobody_judged_has_no_data(cell: MakeCell, task: MakeTask) -> None:
    table = gap_table([task(cell("local/a", passing(2)), cell("local/b", {"c00": ["unjudged", "unjudged"]}))])
    assert table.rows[1].reason == "no data: 2 unjudged"


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        ([True, 3], "no gap: correct is a boolean in 1 run and a number in 1 run"),
        (["yes", "no"], "no gap: correct is text in 2 runs"),
        ([1e200], "no gap: correct is a number beyond 1e150 in 1 run"),
    ],
)
def test_a_metric_that_is_not_one_measure_has_no_gap(
    odd: list[Any], reason: str, cell: MakeCell, task: MakeTask
) -> None:
    table = gap_table([task(cell("local/a", passing(2)), cell("local/b", {"c00": odd}))])
    row = table.rows[1]
    assert (row.value, row.gap, row.reason) == (None, None, reason)
    assert table.left_out == 1


def test_a_rate_against_a_number_has_no_gap(cell: MakeCell, task: MakeTask) -> None:
    table = gap_table([task(cell("local/a", passing(2)), cell("local/b", {"c00": [0.5, 1]}))])
    row = table.rows[1]
    assert (row.value, row.gap) == (0.75, None)
    assert row.reason == "no gap: correct is a number in 2 runs and a boolean in 36 runs"


def test_hidden_cells_still_count_for_the_adjustment(cell: MakeCell, task: MakeTask) -> None:
    hidden = cell("local/hidden", passing(3), shown=False)
    table = gap_table([task(cell("local/a", passing(0)), cell("local/b", passing(12)), hidden)])
    assert table.m == 2
    assert [row.cell.subject.ref for row in table.shown] == ["local/a", "local/b"]
    gap = table.shown[1].gap
    assert gap is not None
    assert gap.p_holm == pytest.approx(2 * gap.p)


def test_the_adjustment_is_over_all_tasks(cell: MakeCell, task: MakeTask) -> None:
    tasks = [
        task(cell("local/a", passing(0), task=name), cell("local/b", passing(12), task=name), name=name)
        for name in ("one", "two", "three")
    ]
    assert gap_table(tasks).m == 3


def test_missing_runs_as_the_worst_are_named_where_they_change_the_verdict(cell: MakeCell, task: MakeTask) -> None:
    best = passing(8, cases=CASES[:8])  # of the 12 planned cases, the 4 hard ones are missing
    row = gap_table([task(cell("local/a", passing(0)), cell("local/b", best, planned=CASES))]).rows[1]
    assert row.gap is not None
    assert row.gap.direction == "better"
    assert not any("worst" in note for note in row.notes)  # still established: 8 better, none worse
    row = gap_table([task(cell("local/a", passing(12)), cell("local/b", best, planned=CASES))]).rows[1]
    assert not any("worst" in note for note in row.notes)
    six = passing(12, cases=CASES[:6])
    row = gap_table([task(cell("local/a", passing(12)), cell("local/b", six, planned=CASES))]).rows[1]
    assert row.gap is not None
    assert row.gap.state == "inconclusive"
    assert "if missing = worst: established worse" in row.notes


def test_the_worst_of_a_number_is_the_worst_value_seen(cell: MakeCell, task: MakeTask) -> None:
    metrics = (Metric("correct", "lower", primary=True),)
    slow = {case: [10.0 + place, 11.0 + place] for place, case in enumerate(CASES)}
    fast = {case: [1.0 + place, 2.0 + place] for place, case in enumerate(CASES[:6])}
    row = gap_table([task(cell("local/a", slow), cell("local/b", fast, planned=CASES), metrics=metrics)]).rows[1]
    assert row.gap is not None
    assert row.gap.direction == "better"
    assert "if missing = worst: inconclusive" in row.notes


def test_values_that_differ_the_other_way_than_the_gap_are_pointed_out(cell: MakeCell, task: MakeTask) -> None:
    easy = {f"easy{i}": [True] for i in range(20)}
    hard = {f"hard{i}": [False] for i in range(8)}
    shared_up, shared_down = ({f"s{i}": [up] for i in range(8)} for up in (True, False))
    row = gap_table([task(cell("local/a", {**easy, **shared_down}), cell("local/b", {**hard, **shared_up}))]).rows[1]
    assert row.gap is not None
    assert row.gap.estimate == 1
    assert any(note.startswith("the cells' own values differ the other way") for note in row.notes)


def test_a_p_near_the_line_is_pointed_out(cell: MakeCell, task: MakeTask) -> None:
    # 17 differing cases, 13 one way: the exact p of McNemar's test is .049.
    mine = {f"c{i}": [i < 13] for i in range(17)}
    other = {case: [not up] for case, (up,) in mine.items()}
    row = gap_table([task(cell("local/a", other), cell("local/b", mine))]).rows[1]
    assert any(note.startswith("near the line") for note in row.notes)


def test_numbers_may_be_averaged(cell: MakeCell, task: MakeTask) -> None:
    metrics = (Metric("correct", "higher", primary=True, aggregate="mean"),)
    mine = {case: [place, place] for place, case in enumerate(CASES)}
    other = {case: [0, 1] for case in CASES}
    row = gap_table([task(cell("local/a", other), cell("local/b", mine), metrics=metrics)]).rows[1]
    assert row.value == 5.5
    assert row.gap is not None
    assert row.gap.estimate == 5


def test_the_table_is_the_same_whatever_the_order_of_cases(cell: MakeCell, task: MakeTask) -> None:
    turned = dict(reversed(list(passing(9).items())))
    table, other = (
        gap_table([task(cell("local/a", passing(2)), cell("local/b", runs))]) for runs in (passing(9), turned)
    )
    assert table == other


def test_the_table_as_json_is_strict(cell: MakeCell, task: MakeTask) -> None:
    table = gap_table([task(cell("local/a", {"c": [1.5]}), cell("local/b", {"c": [2.5]}), cell("local/c", {}))])
    plain = json.loads(json.dumps(table.as_json(), allow_nan=False))
    assert (plain["m"], plain["left_out"], len(plain["rows"])) == (1, 1, 3)
    assert plain["rows"][1]["gap"]["lo"] is None
    assert plain["rows"][2]["estimate"] is None


def test_a_table_of_nothing_is_empty() -> None:
    table = gap_table([])
    assert (table.rows, table.m, table.left_out) == ((), 0, 0)
