"""Tokens and money: unknown is never nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_battery.values.usage import Usage

PARTS = ("input", "cache_read", "cache_write", "output", "reasoning")
counts = st.none() | st.integers(min_value=0, max_value=10**9)
usages = st.builds(Usage, **dict.fromkeys(PARTS, counts))


@given(usages, usages)
def test_a_part_unknown_on_either_side_is_unknown_in_the_sum(one: Usage, two: Usage) -> None:
    total = one + two
    for part in PARTS:
        mine, theirs = getattr(one, part), getattr(two, part)
        assert getattr(total, part) == (None if mine is None or theirs is None else mine + theirs)
