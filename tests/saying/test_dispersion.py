from __future__ import annotations

import pytest

from pytest_battery.saying.dispersion import estimate_cell

MIXED = {f"c{i}": [True] * i + [False] * (5 - i) for i in range(6)}


def test_a_rate_is_the_mean_over_cases_of_the_rate_of_a_case() -> None:
    assert estimate_cell("rate", {"a": [True], "b": [False, False, False]}).value == 0.5


def test_a_perfect_rate_has_an_interval_as_wide_as_its_cases_allow() -> None:
    few, many = (estimate_cell("rate", {f"c{i}": [True] * 5 for i in range(cases)}) for cases in (8, 40))
    assert few.value == many.value == few.hi == many.hi == 1
    assert few.lo == pytest.approx(8 / (8 + 2.364624251592784**2), abs=1e-9)  # Wilson at 8 of 8 with t of 7 degrees
    assert few.lo is not None
    assert many.lo is not None
    assert few.lo < many.lo < 1


def test_repeating_runs_does_not_narrow_the_interval_of_a_rate() -> None:
    once = estimate_cell("rate", MIXED)
    assert estimate_cell("rate", {case: runs * 10 for case, runs in MIXED.items()}) == once


def test_cases_that_differ_less_than_chance_count_as_their_runs() -> None:
    alike = estimate_cell("rate", {f"c{i}": [True] * (i % 2 + 4) + [False] * (6 - i % 2) for i in range(20)})
    unlike = estimate_cell("rate", {f"c{i}": [i % 20 < 9] * 10 for i in range(20)})
    assert alike.value == unlike.value == 0.45
    assert alike.hi is not None
    assert unlike.hi is not None
    assert alike.hi < unlike.hi - 0.1


def test_a_single_case_has_wilsons_interval_over_its_runs() -> None:
    found = estimate_cell("rate", {"a": [True] * 9 + [False]})
    assert (found.lo, found.hi) == pytest.approx((0.5958499732047614, 0.982123786904927), abs=1e-9)


def test_a_number_is_the_median_over_cases_of_the_median_of_a_case() -> None:
    runs = {"a": [1, 2, 90], "b": [4, 6], "c": [7]}
    found = estimate_cell("number", runs)
    assert (found.value, found.extremes, found.quartiles) == (5, (1, 90), (2.5, 6.75))
    assert (found.lo, found.hi) == (None, None)  # three cases give no interval
    assert estimate_cell("number", runs, aggregate="mean").value == pytest.approx((31 + 5 + 7) / 3)


@pytest.mark.parametrize("aggregate", ["median", "mean"])
def test_six_cases_of_a_number_have_an_interval_around_the_value(aggregate: str) -> None:
    found = estimate_cell("number", {f"c{i}": [i, i + 2] for i in range(9)}, aggregate=aggregate)  # type: ignore[arg-type]
    assert found.value == 5
    assert found.lo is not None
    assert found.hi is not None
    assert 1 <= found.lo < 5 < found.hi <= 9


def test_a_single_case_needs_six_runs_for_an_interval_of_its_median() -> None:
    five, six = (estimate_cell("number", {"a": list(range(runs))}) for runs in (5, 6))
    assert (five.lo, five.hi) == (None, None)
    assert (six.lo, six.hi) == (0, 5)


@pytest.mark.parametrize("cases", [1, 8])
def test_numbers_that_are_all_the_same_are_not_certain(cases: int) -> None:
    found = estimate_cell("number", {f"c{i}": [0.5] * 6 for i in range(cases)})
    assert (found.value, found.lo, found.hi) == (0.5, None, None)


def test_a_single_run_has_a_value_and_no_interval() -> None:
    found = estimate_cell("number", {"a": [3]})
    assert (found.value, found.lo, found.quartiles, found.extremes) == (3, None, (3, 3), (3, 3))


def test_without_runs_there_is_no_estimate() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        estimate_cell("rate", {"a": []})
