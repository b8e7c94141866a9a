"""A small run of bench/calibration.py: the same seeds give the same counts on any machine."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "calibration.py"


@pytest.fixture(scope="module")
def calibration() -> ModuleType:
    spec = importlib.util.spec_from_file_location("calibration", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["calibration"] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def test_a_single_case_and_run_can_star_nothing(calibration: ModuleType) -> None:
    found = calibration.false_stars((1, 1), 10)
    assert found.gaps == 150
    assert (sum(found.stars.values()), found.held_tables) == (0, 0)


@pytest.mark.parametrize(
    ("size", "stars", "starred", "held"),
    [
        ((3, 3), {"correct": 1, "usd": 3, "turns": 0}, 3, 1),
        ((8, 1), {"correct": 0, "usd": 7, "turns": 0}, 5, 0),
        ((12, 3), {"correct": 0, "usd": 9, "turns": 0}, 4, 2),
        ((20, 1), {"correct": 2, "usd": 2, "turns": 0}, 4, 0),
    ],
)
def test_tables_in_which_nothing_differs(
    calibration: ModuleType, size: tuple[int, int], stars: dict[str, int], starred: int, held: int
) -> None:
    found = calibration.false_stars(size, 20)
    assert (found.stars, found.starred_tables, found.held_tables) == (stars, starred, held)


def test_a_truly_worse_candidate(calibration: ModuleType) -> None:
    found = calibration.found_gaps((20, 3), calibration.Truth(shift=-1.6, factor=1.6), 12)
    assert sum(starred for *_, starred, _ in found["correct"]) == 11
    assert sum(held for *_, held in found["correct"]) == 6


def test_looking_again_finds_what_is_not_there(calibration: ModuleType) -> None:
    seen = calibration.first_stars("add 5 runs of each case", 40)
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]


def test_the_cases_said_to_be_needed_do(calibration: ModuleType) -> None:
    gap, said, share = calibration.needed((calibration.Truth(-1.6), 12, 3), 20)
    assert gap == pytest.approx(-0.304, abs=0.002)
    assert 10 <= said <= 40
    assert share >= 0.8
