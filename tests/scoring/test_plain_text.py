from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_battery.scoring.plain_text import excerpt, fold_case, plain_text

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a\r\nb\rc\n", "a\nb\nc\n"),
        ("\ufeffa\ufeff", "a\ufeff"),
        ("e\u0301", "\u00e9"),
        ("a\ud800b\udc80", "a\ufffdb\ufffd"),
        ("a\x00b", "a\x00b"),
    ],
)
def test_plain_text(text: str, plain: str):
    assert plain_text(text) == plain


@given(text=ANY_TEXT)
def test_twice_is_once(text: str):
    assert plain_text(plain_text(text)) == plain_text(text)
    plain_text(text).encode("utf-8")


@given(text=ANY_TEXT)
def test_case_is_ignored_either_way(text: str):
    text = plain_text(text)
    assert fold_case(fold_case(text)) == fold_case(text)


def test_fold_case():
    assert fold_case("STRASSE") == fold_case("straße")


@given(text=ANY_TEXT, limit=st.integers(8, 50))
def test_an_excerpt_is_one_short_printable_line(text: str, limit: int):
    shown = excerpt(text, limit)
    assert len(shown) <= limit
    assert shown.isprintable()


def test_excerpt():
    assert excerpt("a\n'b'\\d\x1b[0m\u202e", 60) == r"'a\n'b'\d\x1b[0m\u202e'"
    assert excerpt("abcdefghijkl", 10) == "'abcde...'"
