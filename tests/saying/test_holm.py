from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_battery.saying.comparing import Comparison, compare
from pytest_battery.saying.holm import cases_needed, holm, relabellings, runs_needed

ps = st.lists(st.floats(0, 1), max_size=30)


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        ([0.01, 0.011], [0.02, 0.02]),
        ([0.2, 0.9], [0.4, 0.9]),
        ([0.04, 0.04, 0.04], [0.12, 0.12, 0.12]),
        ([0.03, 0.01, 0.02], [0.04, 0.03, 0.04]),
        ([0.049], [0.049]),
        ([0.9, 0.95, 1.0], [1.0, 1.0, 1.0]),
        ([], []),
    ],
)
def test_tables_checked_by_hand(p: list[float], expected: list[float]) -> None:
    assert holm(p) == pytest.approx(expected)


@given(ps)
def test_adjusted_is_never_below_p_and_never_above_one(p: list[float]) -> None:
    assert all(raw <= adjusted <= 1 for raw, adjusted in zip(p, holm(p), strict=True))


@given(ps)
def test_adjusted_is_monotone_in_p(p: list[float]) -> None:
    in_order = [adjusted for _, adjusted in sorted(zip(p, holm(p), strict=True))]
    assert in_order == sorted(in_order)


@given(ps, st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(p: list[float], order: random.Random) -> None:
    places = list(range(len(p)))
    order.shuffle(places)
    adjusted, shuffled = holm(p), holm([p[place] for place in places])
    assert shuffled == [adjusted[place] for place in places]


@pytest.mark.parametrize(
    ("gaps", "cases"),
    [(1, 6), (2, 7), (3, 7), (5, 8), (10, 9), (15, 10), (20, 10), (30, 11), (50, 11), (100, 12), (250, 14)],
)
def test_cases_needed_for_one_of_many_gaps_to_hold(gaps: int, cases: int) -> None:
    assert cases_needed(gaps) == cases


@pytest.mark.parametrize(("gaps", "runs"), [(1, 4), (5, 5), (15, 6), (50, 7), (250, 8)])
def test_runs_needed_with_a_single_case(gaps: int, runs: int) -> None:
    assert runs_needed(1, gaps) == runs


def test_relabellings_multiply_over_cases() -> None:
    assert relabellings([3], [3]) == 20
    assert relabellings([1] * 5, [1] * 5) == 32


def test_eight_cases_all_better_among_twenty_gaps_have_a_p_that_is_not_zero() -> None:
    better = Comparison("rate", {f"c{i}": [True] for i in range(8)}, {f"c{i}": [False] for i in range(8)})
    gap = compare([better], draws=1000)[0]
    assert 1 / 1001 <= gap.p <= 0.03  # exact: 2/256
    assert holm([gap.p] * 20)[0] >= 20 / 1001


@pytest.mark.parametrize("draws", [0, 1])
def test_without_draws_there_is_no_finding(draws: int) -> None:
    better = Comparison("rate", {f"c{i}": [True] for i in range(8)}, {f"c{i}": [False] for i in range(8)})
    gap = compare([better], draws=draws)[0]
    assert (gap.p, gap.state) == (1.0, "inconclusive")
    assert (gap.lo, gap.hi) == (-1, 1)


def test_ties_everywhere_give_p_one() -> None:
    same = {f"c{i}": [True, False] for i in range(8)}
    assert compare([Comparison("rate", same, same)])[0].p == 1.0


def test_the_same_records_give_the_same_verdict_again() -> None:
    mine = {f"c{i}": [i % 3 > 0, i % 2 > 0] for i in range(12)}
    other = {f"c{i}": [i % 4 > 1, False] for i in range(12)}
    assert compare([Comparison("rate", mine, other)]) == compare([Comparison("rate", mine, other)])
