"""The engine against values from scipy, statsmodels and R; how they were made is in the file's ``meta``."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from pytest_battery.saying.bounds import normal_quantile, wilson
from pytest_battery.saying.cells import Kind
from pytest_battery.saying.comparing import Comparison, compare
from pytest_battery.saying.holm import holm
from pytest_battery.saying.resampling import case_bits
from pytest_battery.saying.standards import SEED
from pytest_battery.saying.verdicts import Gap

REFERENCE = json.loads((Path(__file__).parent / "stats_reference.json").read_text(encoding="utf-8"))
REFERENCE_SEED = REFERENCE["meta"]["seed"]

by_id = pytest.mark.parametrize("data", REFERENCE["gaps"], ids=lambda data: data["id"])


def gap_of(data: dict[str, Any], seed: int) -> Gap:
    kind: Kind = "rate" if data["kind"] == "rate" else "number"
    return compare([Comparison(kind, data["candidate"], data["reference"])], seed=seed)[0]


def assert_ends(ends: tuple[float, float], expected: list[float | None]) -> None:
    for end, value in zip(ends, expected, strict=True):
        assert math.isinf(end) if value is None else end == pytest.approx(value, abs=1e-9)


@by_id
def test_gap_equals_the_reference_with_the_reference_seed(data: dict[str, Any]) -> None:
    gap, expected = gap_of(data, REFERENCE_SEED), data["expected"]
    assert (gap.unit, gap.n_cases, gap.state) == (expected["unit"], expected["n_shared_cases"], expected["state"])
    assert gap.estimate == pytest.approx(expected["estimate"], abs=1e-12)
    assert gap.p == pytest.approx(expected["p"], abs=1e-12)
    assert gap.p_floor == pytest.approx(expected["p_floor"], abs=1e-12)
    assert_ends((gap.lo, gap.hi), expected["interval"])
    assert_ends(gap.draw_interval, expected["draw_interval"])
    assert gap.reason.startswith(expected["reason"])


@by_id
@pytest.mark.parametrize("seed", [SEED, REFERENCE_SEED])
def test_gap_is_within_monte_carlo_error_of_the_exact_one_with_any_seed(data: dict[str, Any], seed: int) -> None:
    gap, expected = gap_of(data, seed), data["expected"]
    assert abs(gap.p - expected["p_exact"]) <= expected["p_tolerance_other_rng"]
    brackets = expected["interval_brackets_other_rng"]
    for end, (low, high) in zip(gap.draw_interval, (brackets["lo"], brackets["hi"]), strict=True):
        assert (-math.inf if low is None else low - 1e-9) <= end <= (math.inf if high is None else high + 1e-9)


@pytest.mark.parametrize(("case", "expected"), REFERENCE["bits"].items())
def test_bits_of_a_case_are_the_documented_ones(case: str, expected: dict[str, Any]) -> None:
    bits = case_bits(REFERENCE_SEED, case)
    assert "".join(map(str, bits[:32])) == expected["first_32"]
    assert int(bits.sum()) == expected["ones"]


@pytest.mark.parametrize("data", REFERENCE["holm"], ids=lambda data: data["id"])
def test_holm_equals_statsmodels_and_r(data: dict[str, Any]) -> None:
    p = data["p"] if isinstance(data["p"], list) else [data["p"]["value"]] * data["p"]["count"]
    adjusted = holm(p)
    assert adjusted[: len(data["p_holm"])] == pytest.approx(data["p_holm"], abs=1e-12)
    assert [value <= 0.05 for value in adjusted][: len(data["holds"])] == data["holds"]


@pytest.mark.parametrize("data", REFERENCE["wilson"], ids=lambda data: f"{data['passes']} of {data['n']}")
def test_wilson_equals_scipy_and_r(data: dict[str, Any]) -> None:
    interval = wilson(data["passes"] / data["n"], data["n"], normal_quantile(0.975))
    assert interval == pytest.approx(data["wilson"], abs=1e-9)
