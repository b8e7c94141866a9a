"""What it would take: against simulated power, and by properties."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_battery.saying.comparing import Comparison, compare
from pytest_battery.saying.designs import design_fault
from pytest_battery.saying.needs import Spread, detectable, needs_of, spread_of

# Cases with which batteries of passes (base .80, ICC .4) reached 80% power, by simulation of the exact test, in steps of
# about a fifth: the gap, runs of a case, gaps in the table, cases.
SIMULATED = [
    *((0.10, 3, 1, 80), (0.10, 5, 1, 50), (0.10, 10, 1, 25), (0.15, 1, 1, 130), (0.15, 3, 1, 50), (0.15, 5, 1, 30)),
    *((0.20, 1, 1, 80), (0.20, 3, 1, 30), (0.20, 5, 1, 20), (0.20, 10, 1, 12)),
    *(
        (0.10, 3, 15, 130),
        (0.10, 5, 15, 100),
        (0.15, 3, 15, 80),
        (0.20, 1, 15, 130),
        (0.20, 3, 15, 50),
        (0.20, 5, 15, 30),
    ),
]


@pytest.mark.parametrize(("care", "runs", "m", "cases"), SIMULATED)
def test_the_cases_needed_are_near_those_simulated(care: float, runs: int, m: int, cases: int) -> None:
    """A case passes with a chance p that is Beta-distributed, and with f p in the candidate's cell."""
    base, icc, f = 0.8, 0.4, (0.8 - care) / 0.8
    square = base**2 + icc * base * (1 - base)  # of p, on average
    within = (base - square) + (f * base - f**2 * square)  # of a run around its case: p (1 - p), in both cells
    between = (1 - f) ** 2 * icc * base * (1 - base)
    found = needs_of(Spread(20, runs, between, within), care, m=m).cases
    assert found == pytest.approx(cases, rel=0.2)


def rates(values: dict[str, tuple[bool, ...]], others: dict[str, tuple[bool, ...]]) -> Comparison:
    return Comparison("rate", values, others)


def test_repeats_that_agree_leave_the_variance_between_cases() -> None:
    mine = {f"c{n}": (n % 2 == 0,) * 3 for n in range(12)}
    other = {f"c{n}": (True,) * 3 for n in range(12)}
    comparison = rates(mine, other)
    spread = spread_of(comparison, compare([comparison])[0])
    assert spread is not None
    assert spread.within == 0
    assert spread.between == pytest.approx(0.25 * 12 / 11)  # halves of 0 and -1, with n - 1
    assert needs_of(spread, 0.2).runs is None  # no number of runs takes that away


def test_one_run_a_case_says_nothing_of_runs() -> None:
    mine = {f"c{n}": (n % 3 != 0,) for n in range(12)}
    comparison = rates(mine, {f"c{n}": (True,) for n in range(12)})
    spread = spread_of(comparison, compare([comparison])[0])
    assert spread is not None
    assert spread.within is None
    assert needs_of(spread, 0.2).runs is None


def test_cases_that_all_agree_have_no_spread_to_plan_from() -> None:
    same = {f"c{n}": (True, True) for n in range(12)}
    comparison = rates(same, same)
    assert spread_of(comparison, compare([comparison])[0]) is None


numbers = st.floats(0.1, 100).map(lambda value: round(value, 2))
cells = st.lists(st.lists(numbers, min_size=2, max_size=3), min_size=6, max_size=12)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(cells, st.floats(-50, 50).map(lambda shift: round(shift, 2)))
def test_the_plan_does_not_depend_on_the_gap_that_was_seen(values: list[list[float]], shift: float) -> None:
    other = {f"c{n:02d}": tuple(reversed(runs)) for n, runs in enumerate(values)}
    mine = {f"c{n:02d}": tuple(runs) for n, runs in enumerate(values)}
    moved = {case: tuple(round(value + shift, 2) for value in runs) for case, runs in mine.items()}
    found = []
    for candidate in (mine, moved):
        comparison = Comparison("number", candidate, other, aggregate="mean")
        spread = spread_of(comparison, compare([comparison])[0])
        found.append(None if spread is None else needs_of(spread, 1.0).cases)
    if None not in found:
        assert found[1] == pytest.approx(found[0], rel=0.02, abs=1)


spreads = st.builds(
    Spread,
    cases=st.integers(6, 60),
    runs=st.sampled_from([1.0, 2.0, 3.0, 5.0]),
    between=st.floats(0, 1),
    within=st.floats(0.001, 1),
)


@given(spreads, st.floats(0.05, 1), st.floats(1.05, 3), st.integers(1, 30))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_larger_gap_needs_no_more_and_more_gaps_need_no_less(
    spread: Spread, care: float, factor: float, m: int
) -> None:
    small, large = needs_of(spread, care, m=m), needs_of(spread, care * factor, m=m)
    assert large.cases is not None
    assert small.cases is not None
    assert large.cases <= small.cases
    more = needs_of(spread, care, m=m + 5)
    assert more.cases is not None
    assert more.cases >= small.cases


@given(spreads, st.floats(0.05, 1))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_what_is_needed_can_detect_the_gap_cared_about(spread: Spread, care: float) -> None:
    needed = needs_of(spread, care).cases
    assert needed is not None
    assert detectable(Spread(needed, spread.runs, spread.between, spread.within)) <= care * 1.15


def test_the_price_is_that_of_the_cheaper_way() -> None:
    spread = Spread(20, 2, 0.0, 0.4)
    needs = needs_of(spread, 0.2, usd_per_run=(0.01, 0.03))
    assert needs.more_runs is not None
    assert needs.usd == pytest.approx(needs.more_runs / 2 * 0.04)
    assert needs_of(spread, 0.2, usd_per_run=(0.01, None)).usd is None


@pytest.mark.parametrize(
    ("cases", "runs", "m", "fault"),
    [
        (6, 1, 1, ""),
        (10, 1, 15, ""),
        (8, 3, 15, "nothing can hold among 15 gaps: 10 cases are needed (8 now)"),
        (1, 4, 1, ""),
        (1, 3, 1, "nothing can be established: 6 cases are needed (1 now), or 4 runs of each (3 now)"),
        (1, 4, 15, "nothing can hold among 15 gaps: 10 cases are needed (1 now), or 6 runs of each (4 now)"),
        (0, 5, 1, "no case is shared"),
    ],
)
def test_a_design_too_small_says_what_would_do(cases: int, runs: int, m: int, fault: str) -> None:
    assert design_fault(cases, runs, m) == fault


@pytest.mark.parametrize(
    ("m", "alpha", "fault"), [(250, 0.05, ""), (251, 0.05, "250"), (50, 0.01, ""), (51, 0.01, "50")]
)
def test_a_design_has_no_more_gaps_than_the_draws_can_tell_apart(m: int, alpha: float, fault: str) -> None:
    said = design_fault(1000, 5, m, alpha)
    assert said == (f"nothing can hold among {m} gaps: 10,000 draws allow at most {fault}" if fault else "")
