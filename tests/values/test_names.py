"""Ids, and the shortest way to write a number."""

from __future__ import annotations

import decimal
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_battery.values.names import id_fault, shortest_number, snake_case


@pytest.mark.parametrize("text", ["a", "t01", "0", "A.b_c-d", "x" * 100])
def test_an_id_is_accepted(text: str) -> None:
    assert id_fault(text) is None


@pytest.mark.parametrize("text", ["", "_a", "-a", ".a", "a b", "a::b", "a[b", "a/b", "a\n", "\u00e4", "a" * 101])
def test_an_id_is_refused(text: str) -> None:
    assert id_fault(text)


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_the_shortest_number_is_the_same_number(number: Decimal) -> None:
    shortest = shortest_number(str(number))
    assert shortest is None or Decimal(shortest) == number  # None: an exponent that nobody writes
    assert shortest is None or shortest_number(shortest) == shortest


def test_no_digit_of_a_long_number_is_lost() -> None:
    digits = "1234567890" * 5
    assert shortest_number(digits + "1") == "1." + (digits + "1")[1:] + "e50"
    assert shortest_number(digits + "1") != shortest_number(digits + "2")


def test_a_session_that_computes_with_few_digits_writes_the_same_numbers() -> None:
    with decimal.localcontext() as context:
        context.prec = 2
        assert shortest_number("12345") == "12345"


@pytest.mark.parametrize("text", ["", "x", "1,5", "0x10", "1e", "--1", "nan", "inf", "1_000", "\u0661", "1e9999"])
def test_what_is_no_number_is_left_alone(text: str) -> None:
    assert shortest_number(text) is None


@pytest.mark.parametrize(
    ("camel", "snake"), [("maxTokens", "max_tokens"), ("topP", "top_p"), ("top_p", "top_p"), ("a", "a")]
)
def test_camel_case_becomes_snake_case(camel: str, snake: str) -> None:
    assert snake_case(camel) == snake
