"""What must hold for any data: nothing here knows a number."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Literal

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pytest_battery.saying.comparing import Comparison, compare
from pytest_battery.saying.exactness import Number
from pytest_battery.saying.verdicts import Gap

few = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
Runs = Mapping[str, Sequence[Number]]


def comparisons(
    kinds: tuple[Literal["rate", "number"], ...] = ("rate", "number"), least: int = 1, most: int = 14
) -> st.SearchStrategy[Comparison]:
    @st.composite
    def draw_one(draw: st.DrawFn) -> Comparison:
        kind = draw(st.sampled_from(kinds))
        cents = st.integers(-500, 500).map(lambda cents: cents / 100)
        value = st.booleans() if kind == "rate" else draw(st.sampled_from([st.integers(0, 9), cents]))
        cases = [f"c{i}" for i in range(draw(st.integers(least, most)))]
        runs = st.lists(value, min_size=1, max_size=4)
        mine, other = ({case: draw(runs) for case in cases} for _ in range(2))
        return Comparison(kind, mine, other, aggregate=draw(st.sampled_from(["median", "mean"])))

    return draw_one()


def one(comparison: Comparison) -> Gap:
    return compare([comparison], draws=2000)[0]


def changed(comparison: Comparison, candidate: Runs | None = None, reference: Runs | None = None) -> Comparison:
    return Comparison(
        comparison.kind,
        comparison.candidate if candidate is None else candidate,
        comparison.reference if reference is None else reference,
        aggregate=comparison.aggregate,
    )


@few
@given(comparisons(least=6))
def test_swapping_the_cells_negates_the_gap_and_keeps_p(comparison: Comparison) -> None:
    gap, swapped = one(comparison), one(changed(comparison, comparison.reference, comparison.candidate))
    assert (swapped.estimate, swapped.lo, swapped.hi) == (-gap.estimate, -gap.hi, -gap.lo)
    assert swapped.p == gap.p


@few
@given(comparisons(), st.randoms(use_true_random=False))
def test_order_of_cases_and_runs_changes_nothing(comparison: Comparison, order: random.Random) -> None:
    def shuffled(runs: Runs) -> Runs:
        cases = list(runs)
        order.shuffle(cases)
        return {case: order.sample(runs[case], len(runs[case])) for case in cases}

    assert one(changed(comparison, shuffled(comparison.candidate), shuffled(comparison.reference))) == one(comparison)


@few
@given(comparisons())
def test_cases_that_only_one_side_has_change_nothing(comparison: Comparison) -> None:
    mine = {**comparison.candidate, "only here": [True], "no run": []}
    other = {**comparison.reference, "only there": [False, True]}
    assert one(changed(comparison, mine, other)) == one(comparison)


@few
@given(comparisons(kinds=("number",)), st.sampled_from([1, 3, 1000]), st.integers(-50, 50))
def test_another_scale_of_a_number_scales_the_gap(comparison: Comparison, factor: int, shift: int) -> None:
    def scaled(runs: Runs) -> Runs:
        return {case: [round(factor * value + shift, 6) for value in of_case] for case, of_case in runs.items()}

    gap, other = one(comparison), one(changed(comparison, scaled(comparison.candidate), scaled(comparison.reference)))
    assert other.p == gap.p
    assert (other.estimate, other.lo, other.hi) == pytest.approx(
        (factor * gap.estimate, factor * gap.lo, factor * gap.hi), abs=1e-9
    )


@few
@given(comparisons(kinds=("number",)))
def test_flipping_the_sign_of_a_number_flips_the_gap(comparison: Comparison) -> None:
    def flipped(runs: Runs) -> Runs:
        return {case: [-value for value in of_case] for case, of_case in runs.items()}

    assume(len(comparison.candidate) >= 6)
    gap, other = one(comparison), one(changed(comparison, flipped(comparison.candidate), flipped(comparison.reference)))
    assert (other.p, other.lo, other.hi) == (gap.p, -gap.hi, -gap.lo)


@few
@given(comparisons())
def test_identical_cells_are_never_told_apart(comparison: Comparison) -> None:
    gap = one(changed(comparison, comparison.reference))
    assert (gap.estimate, gap.state, gap.n_cases_differ) == (0, "inconclusive", 0)
    if gap.unit == "case":
        assert gap.p == 1
    assert gap.lo <= 0 <= gap.hi


@few
@given(comparisons())
def test_established_is_p_at_most_alpha_is_an_interval_without_zero(comparison: Comparison) -> None:
    gap = one(comparison)
    assert gap.established == (gap.p <= gap.alpha) == (gap.lo > 0 or gap.hi < 0)
    assert 0 < gap.p <= 1
    assert gap.lo <= gap.hi


@few
@given(comparisons(most=8))
def test_nothing_is_established_below_the_floor(comparison: Comparison) -> None:
    gap = one(comparison)
    if gap.p_floor > gap.alpha:
        assert not gap.established
        assert gap.reason


@few
@given(comparisons(least=6), st.integers(2, 3))
def test_copying_every_run_changes_nothing_where_cases_are_the_unit(comparison: Comparison, times: int) -> None:
    def copied(runs: Runs) -> Runs:
        return {case: list(of_case) * times for case, of_case in runs.items()}

    gap, other = one(comparison), one(changed(comparison, copied(comparison.candidate), copied(comparison.reference)))
    assert (other.p, other.n_cases_differ) == (gap.p, gap.n_cases_differ)
    assert (other.estimate, other.lo, other.hi) == pytest.approx((gap.estimate, gap.lo, gap.hi), abs=1e-12)


@few
@given(st.lists(comparisons(), min_size=2, max_size=3))
def test_a_gap_does_not_depend_on_the_gaps_beside_it(several: list[Comparison]) -> None:
    assert compare(several, draws=2000) == [one(comparison) for comparison in several]


@few
@given(comparisons())
def test_a_rate_gap_and_its_interval_stay_within_one(comparison: Comparison) -> None:
    if comparison.kind == "rate":
        gap = one(comparison)
        assert -1 <= gap.lo <= gap.estimate + 1e-12
        assert gap.estimate - 1e-12 <= gap.hi <= 1
