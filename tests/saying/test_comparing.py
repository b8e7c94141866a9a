from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_battery.saying.comparing import Comparison, compare
from pytest_battery.saying.dispersion import estimate_cell
from pytest_battery.saying.exactness import whole_runs
from pytest_battery.saying.resampling import case_bits
from pytest_battery.saying.standards import SEED
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


FEW_DRAWS = 199


def plainly(comparison: Comparison) -> tuple[Fraction, float, float, float]:
    """Estimate, ends and p of 6 or more shared cases, draw by draw, in fractions: the ends are the 5th of 199 draws."""
    centre = statistics.mean if comparison.by_mean else statistics.median
    gaps = {
        case: centre([Fraction(str(float(value))) for value in comparison.candidate[case]])
        - centre([Fraction(str(float(value))) for value in comparison.reference[case]])
        for case in comparison.candidate.keys() & comparison.reference.keys()
    }
    bits = {case: case_bits(SEED, case, FEW_DRAWS).tolist() for case in gaps}
    drawn = [[gap for case, gap in gaps.items() if bits[case][draw]] for draw in range(FEW_DRAWS)]
    centres = sorted(centre(kept) for kept in drawn if kept)
    nothing = FEW_DRAWS - len(centres)
    far = nothing + min(sum(value <= 0 for value in centres), sum(value >= 0 for value in centres))
    lo = [-math.inf] * nothing + [float(value) for value in centres]
    hi = [float(value) for value in centres] + [math.inf] * nothing
    p = min(1.0, 2 * (1 + far) / (FEW_DRAWS + 1))
    floor = 2.0 ** (1 - sum(gap != 0 for gap in gaps.values()))  # so few draws would fall below it now and then
    return centre(list(gaps.values())), lo[4], hi[-5], floor if p <= 0.05 < floor else p


def some(kind: str, cases: int, seed: int, *, uneven: bool, aggregate: str = "median") -> Comparison:
    random_number = random.Random(seed)

    def value() -> float:
        return random_number.random() < 0.6 if kind == "rate" else random_number.randrange(-300, 500) / 100

    def side() -> dict[str, list[float]]:
        return {f"c{i}": [value() for _ in range(1 + (seed + i * uneven) % 4)] for i in range(cases)}

    return Comparison(kind, side(), side(), aggregate=aggregate)  # type: ignore[arg-type]


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize(("kind", "aggregate"), [("rate", "median"), ("number", "mean"), ("number", "median")])
def test_a_table_of_gaps_has_the_numbers_of_plain_loops(kind: str, aggregate: str, uneven: bool) -> None:
    several = [some(kind, 6 + seed % 3, seed, uneven=uneven, aggregate=aggregate) for seed in range(105)]
    for comparison, gap in zip(several, compare(several, draws=FEW_DRAWS), strict=True):
        estimate, lo, hi, p = plainly(comparison)
        assert gap.p == p
        assert (gap.estimate, *gap.draw_interval) == pytest.approx((float(estimate), lo, hi), rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("cases", [126, 127, 128, 129, 257, 600])
@pytest.mark.parametrize("aggregate", ["mean", "median"])
def test_many_cases_have_the_numbers_of_plain_loops(cases: int, aggregate: str) -> None:
    comparison = some("number", cases, cases, uneven=False, aggregate=aggregate)
    gap = compare([comparison], draws=FEW_DRAWS)[0]
    estimate, lo, hi, p = plainly(comparison)
    assert gap.p == p
    assert (gap.estimate, *gap.draw_interval) == pytest.approx((float(estimate), lo, hi), rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("large", [2**23, 2**24 + 1, 2**36 + 1])
def test_numbers_of_any_size_are_added_without_error(large: int) -> None:
    # A float of 32 bits cannot hold 2**24 + 1: the large gaps would cancel to zero without the one that is left.
    mine = {f"c{i:02d}": [large if i % 2 else -large + (i == 0)] for i in range(8)}
    other = {case: [0] for case in mine}
    comparison = Comparison("number", mine, other, aggregate="mean")
    gap = compare([comparison], draws=FEW_DRAWS)[0]
    estimate, lo, hi, p = plainly(comparison)
    assert (gap.estimate, gap.p) == (float(estimate), p)
    assert gap.draw_interval == pytest.approx((lo, hi), rel=1e-15)


def test_the_mean_of_a_cell_has_all_digits_where_its_numbers_have_many() -> None:
    random_number = random.Random(7)
    runs = {f"c{i:02d}": [random_number.lognormvariate(0, 1)] for i in range(24)}
    bits = {case: case_bits(SEED, case, FEW_DRAWS).tolist() for case in runs}
    drawn = [[Fraction(runs[case][0]) for case in runs if bits[case][draw]] for draw in range(FEW_DRAWS)]
    centres = sorted(statistics.mean(kept) for kept in drawn)
    estimate = estimate_cell("number", runs, aggregate="mean", draws=FEW_DRAWS)
    assert (estimate.lo, estimate.hi) == pytest.approx((float(centres[4]), float(centres[-5])), rel=1e-13)


@pytest.mark.parametrize("number", [1, 32, 33, 65])
def test_a_gap_in_a_table_of_any_length_is_the_gap_alone(number: int) -> None:
    several = [some("rate", 12, seed, uneven=True) for seed in range(number)]
    assert compare(several, draws=FEW_DRAWS) == [compare([one], draws=FEW_DRAWS)[0] for one in several]


def test_every_gap_of_a_table_has_its_own_detectable_gap() -> None:
    several = [some("rate", 9, seed, uneven=True) for seed in range(70)]
    quantiles = 2.306004135204166 + 0.8888895177592302  # Student's t with 8 degrees of freedom, at .975 and .8
    for comparison, gap in zip(several, compare(several, draws=FEW_DRAWS), strict=True):
        mine, other = comparison.candidate, comparison.reference
        gaps = [statistics.mean(map(float, mine[case])) - statistics.mean(map(float, other[case])) for case in mine]
        assert gap.mde80 == pytest.approx(quantiles * statistics.stdev(gaps) / 3)


def test_zeros_and_ones_are_passes_and_fails() -> None:
    comparison = some("rate", 8, 1, uneven=True)
    mine, other = (
        {case: [int(run) for run in runs] for case, runs in side.items()}
        for side in (comparison.candidate, comparison.reference)
    )
    assert compare([Comparison("rate", mine, other)]) == compare([comparison])


def places(value: float) -> int:
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent)


decimals = st.builds(lambda digits, power: digits / 10**power, st.integers(-(10**7), 10**7), st.integers(0, 13))
numbers = st.one_of(decimals, st.integers(-(2**41), 2**41), st.floats(-1e6, 1e6), st.booleans())


@settings(max_examples=200, deadline=None)
@given(st.lists(numbers, min_size=1, max_size=5))
@example([3e-12, 0.5])
@example([3e-13])
def test_numbers_are_made_whole_by_the_decimals_they_are_written_with(values: list[float]) -> None:
    most = max(places(float(value)) for value in values)
    runs = whole_runs([values], [[0]])
    if most > 12 or max(1, *map(abs, values)) * 10.0**most > 2**40:
        assert (runs.scale, runs.exact) == (1, False)
        assert runs.candidate == [list(map(float, values))]
    else:
        assert (runs.scale, runs.exact) == (10**most, True)
        assert runs.candidate == [[int(Decimal(repr(float(value))) * 10**most) for value in values]]
