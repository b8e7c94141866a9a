from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import pytest

from pytest_battery.saying.comparing import Comparison, compare
from pytest_battery.saying.verdicts import Gap, among


def rate(*pairs: tuple[list[bool], list[bool]], better: str = "higher") -> Gap:
    candidate = {f"c{i}": mine for i, (mine, _) in enumerate(pairs)}
    reference = {f"c{i}": other for i, (_, other) in enumerate(pairs)}
    return compare([Comparison("rate", candidate, reference, better=better)])[0]  # type: ignore[arg-type]


def number(
    candidate: Mapping[str, Sequence[float]], reference: Mapping[str, Sequence[float]], aggregate: str = "median"
) -> Gap:
    return compare([Comparison("number", candidate, reference, aggregate=aggregate)])[0]  # type: ignore[arg-type]


UP, DOWN, SAME = ([True], [False]), ([False], [True]), ([True], [True])


def test_six_cases_all_better_are_the_smallest_established_gap() -> None:
    assert rate(*[UP] * 6).established
    assert not rate(*[UP] * 5).established


def test_too_few_differing_cases_are_inconclusive_and_say_what_would_do() -> None:
    gap = rate(*[UP] * 4, *[SAME] * 8)
    assert (gap.state, gap.reason) == ("inconclusive", "4 of 12 shared cases differ; at least 6 must")


def test_too_few_runs_of_a_single_case_say_how_many_would_do() -> None:
    gap = rate(([True] * 3, [False] * 3))
    assert gap.reason == "20 relabellings of these runs exist; at least 40 are needed (4 runs per cell)"
    assert (gap.lo, gap.hi) == (-1, 1)
    assert gap.scope == "on this case"


def test_a_number_without_enough_runs_has_no_interval() -> None:
    gap = number({"a": [5, 5, 5]}, {"a": [6, 6, 6]})
    assert (gap.lo, gap.hi) == (-math.inf, math.inf)
    assert gap.state == "inconclusive"
    assert gap.as_json()["lo"] is None


def test_many_differing_cases_that_cancel_say_so() -> None:
    gap = among(rate(*[UP] * 14, *[DOWN] * 14), 1.0, 1)
    assert gap.estimate == 0
    assert gap.reason == "28 of 28 cases differ, 14 each way"


def test_the_direction_follows_the_metric() -> None:
    assert rate(*[UP] * 6).direction == "better"
    assert rate(*[UP] * 6, better="lower").direction == "worse"
    assert rate(*[DOWN] * 6, better="lower").direction == "better"
    assert rate(*[UP] * 4).direction is None


def test_cases_are_counted_each_way_by_what_is_better() -> None:
    gap = rate(*[UP] * 5, *[DOWN] * 2, SAME, better="lower")
    assert (gap.n_cases, gap.n_cases_differ, gap.n_cases_better, gap.n_cases_worse) == (8, 7, 2, 5)


def test_sums_of_thirds_and_fifths_that_cancel_are_ties() -> None:
    # In floats 1/5 + 2/5 - 3/5 is not zero: every one of these draws would fall on one side of it.
    fifths = {f"c{i}": [True] * ups + [False] * (5 - ups) for i, ups in enumerate([1, 2, 0] * 3)}
    other = {f"c{i}": [True] * ups + [False] * (5 - ups) for i, ups in enumerate([0, 0, 3] * 3)}
    gap = compare([Comparison("rate", fifths, other)])[0]
    mirrored = compare([Comparison("rate", other, fifths)])[0]
    assert gap.estimate == 0
    assert gap.p == mirrored.p == 1


@pytest.mark.parametrize("aggregate", ["median", "mean"])
def test_decimals_that_cancel_are_ties_too(aggregate: str) -> None:
    mine = {f"c{i}": [value] for i, value in enumerate([0.3, 0.1, 0.7, 0.2, 0.4, 0.5])}
    other = {f"c{i}": [value] for i, value in enumerate([0.2, 0.2, 0.6, 0.3, 0.3, 0.6])}
    gap = number(mine, other, aggregate)  # gaps of a tenth each, three each way
    assert (gap.estimate, gap.lo, gap.hi) == (0, -0.1, 0.1)


def test_numbers_too_long_for_exact_sums_still_tie_with_themselves() -> None:
    mine = {f"c{i}": [math.sqrt(i + 2), math.pi * 1e9] for i in range(8)}
    gap = number(mine, mine, "mean")
    assert (gap.estimate, gap.p) == (0, 1)
    rounding = {case: [runs[1], runs[0]] for case, runs in mine.items()}
    assert number(mine, rounding, "mean").p == 1


def test_the_mean_of_numbers_is_the_mean_of_the_gaps_of_cases() -> None:
    mine = {f"c{i}": [i, i + 1] for i in range(8)}
    other = {f"c{i}": [i] for i in range(7)} | {"c7": [47.5]}
    gap = number(mine, other, "mean")
    assert gap.estimate == (7 * 0.5 - 40) / 8
    assert number(mine, other).estimate == 0.5


def test_the_mean_of_few_cases_relabels_runs() -> None:
    gap = number({"a": [1, 2, 3, 4, 5]}, {"a": [11, 12, 13, 14, 15]}, "mean")
    assert (gap.unit, gap.estimate, gap.state) == ("run", -10, "established")
    assert gap.hi < 0


def test_cells_without_a_shared_case_are_compared_by_whole_cases() -> None:
    gap = compare([Comparison("rate", {f"x{i}": [True] for i in range(6)}, {f"y{i}": [False] for i in range(6)})])[0]
    assert (gap.unit, gap.established, gap.scope) == ("case2", True, "on cases like these")
    short = compare([Comparison("rate", {"x": [True] * 50}, {"y": [False] * 50})])[0]
    assert short.reason == "2 relabellings of these cases exist; at least 40 are needed (4 cases per cell)"


def test_cases_that_all_agree_have_a_bound_instead_of_a_point() -> None:
    same, up = rate(*[SAME] * 8), rate(*[UP] * 8)
    assert (same.lo, same.hi) == pytest.approx((-0.369, 0.369), abs=1e-3)
    assert (up.lo, up.hi) == pytest.approx((0.261, 1), abs=1e-3)
    assert up.draw_interval == (1, 1)
    fifth = rate(*[([True, False, False, False, False], [False] * 5)] * 8)
    assert fifth.established
    assert fifth.lo == 0.2  # not across zero: a bound never changes the verdict
    assert fifth.hi == pytest.approx(0.2 * 0.6306 + 0.3694, abs=1e-3)


def test_the_detectable_gap_of_a_rate_is_millers() -> None:
    gap = rate(*[UP] * 5, *[DOWN] * 3)
    spread = math.sqrt((5 * (1 - 0.25) ** 2 + 3 * (-1 - 0.25) ** 2) / 7)
    assert gap.mde80 == pytest.approx((2.364624251592784 + 0.8960296443137653) * spread / math.sqrt(8))


def test_data_without_spread_have_no_detectable_gap() -> None:
    assert rate(*[SAME] * 8).mde80 is None
    assert rate(([True] * 3, [False] * 3)).mde80 is None


def test_among_many_gaps_a_reason_says_what_could_hold() -> None:
    eight = rate(*[UP] * 8)
    assert eight.holds
    lost = among(eight, 0.12, 15)
    assert (lost.state, lost.holds) == ("established", False)
    assert lost.reason == "cannot hold among 15 gaps: needs 10 shared cases (8 now)"
    assert among(rate(*[UP] * 7, *[SAME] * 5), 0.24, 15).reason == (
        "cannot hold among 15 gaps: 7 of 12 shared cases differ; at least 10 must"
    )
    one_case = rate(([True] * 5, [False] * 5))
    assert among(one_case, 0.12, 15).reason == "cannot hold among 15 gaps: needs 6 runs per cell (5 now)"


def test_beyond_250_gaps_the_draws_are_too_few() -> None:
    gap = rate(*[UP] * 40)
    assert among(gap, 251 * gap.p, 251).reason == "cannot hold among 251 gaps: 10,000 draws allow at most 250"
    assert among(gap, 250 * gap.p, 250).holds


def test_a_side_without_runs_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one run on either side"):
        compare([Comparison("rate", {"a": []}, {"a": [True]})])


def test_a_gap_as_json_is_strict_and_complete() -> None:
    plain = json.loads(json.dumps(number({"a": [1.0]}, {"a": [2.0]}).as_json(), allow_nan=False))
    assert {
        "estimate", "lo", "hi", "p", "p_holm", "state", "holds", "gate", "unit", "scope", "n_cases",
        "n_cases_differ", "n_cases_better", "n_cases_worse", "runs", "p_floor", "reason", "mde80",
    } <= plain.keys()  # fmt: skip
    assert (plain["lo"], plain["hi"], plain["mde80"]) == (None, None, None)
    assert plain["runs"] == {"min": 1, "max": 1}
