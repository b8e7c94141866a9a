from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_battery.saying.rendering.fitting import columns, left, right, shortened, wrapped
from pytest_battery.saying.rendering.inert import encodable, inert

anything = st.text(st.characters(codec=None), max_size=40)  # lone surrogates too


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text, 100% [ok]", "plain text, 100% [ok]"),
        ("two\nlines\r\n\tand more", "two\\nlines\\r\\n\\tand more"),
        ("\x1b[31mred\x1b[0m\x07", "\\x1b[31mred\\x1b[0m\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("abc\u202exe.exe", "abc\\u202exe.exe"),
        ("a\u2066b\u2069", "a\\u2066b\\u2069"),
        ("lone \ud800 surrogate", "lone \\ud800 surrogate"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("hidden\u3164\ufe0f", "hidden\\u3164\\ufe0f"),
        ("a\u2028b\x85c", "a\\u2028b\\x85c"),
        ("no\u00a0break", "no break"),
        ("naïve 日本語 ★", "naïve 日本語 ★"),
        ("e\u0301", "e\u0301"),
        ("z" + "\u0335" * 5, "z" + "\u0335" * 2 + "\\u0335" * 3),
    ],
)
def test_what_a_terminal_obeys_or_hides_is_written_out(text: str, expected: str) -> None:
    assert inert(text) == expected


@given(anything)
def test_inert_text_is_one_printable_line_and_stays_as_it_is(text: str) -> None:
    safe = inert(text)
    safe.encode("utf-8")
    assert all(unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in safe)
    assert inert(safe) == safe


@given(anything, st.sampled_from(["utf-8", "cp1252", "ascii", "latin-1", "no-such-encoding"]))
def test_encodable_text_can_be_written(text: str, encoding: str) -> None:
    encodable(inert(text), encoding).encode("ascii" if encoding == "no-such-encoding" else encoding)


@pytest.mark.parametrize(
    ("text", "encoding", "expected"),
    [
        ("★ ☆ … ±", "utf-8", "★ ☆ … ±"),
        ("★ ☆ … ±", "cp1252", "** * … ±"),
        ("★ ☆ … ±", "ascii", "** * ... +/-"),
        ("\N{MINUS SIGN}0.02", "cp1252", "-0.02"),
        ("日 é", "cp1252", "\\u65e5 é"),
        ("é", "ascii", "\\xe9"),
        ("\U0001f9ea", "ascii", "\\U0001f9ea"),
        ("★", "no-such-encoding", "**"),
    ],
)
def test_signs_have_a_plain_form_and_others_an_escape(text: str, encoding: str, expected: str) -> None:
    assert encodable(text, encoding) == expected


def test_wide_characters_take_two_columns_and_marks_none() -> None:
    assert columns("日本") == 4
    assert columns("e\u0301") == 1
    assert columns("ab") == 2
    assert left("日", 4) == "日  "
    assert right("日", 4) == "  日"


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("short", 5, "short"),
        ("local/smollm2-135m", 11, "local…-135m"),
        ("日本語日本語", 7, "日…本語"),
        ("abcdef", 2, "ab"),
        ("abcdef", 3, "a…f"),
    ],
)
def test_long_names_lose_their_middle(text: str, width: int, expected: str) -> None:
    assert shortened(text, width) == expected


@given(anything.map(inert), st.integers(1, 30), st.sampled_from(["…", "..."]))
def test_a_shortened_name_is_never_too_wide(text: str, width: int, ellipsis: str) -> None:
    assert columns(shortened(text, width, ellipsis)) <= width


@given(anything.map(inert), st.integers(8, 40))
def test_wrapped_text_is_never_too_wide_and_loses_nothing(text: str, width: int) -> None:
    lines = wrapped(text, width, "  ")
    assert all(columns(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_wrapping_indents_and_breaks_long_words() -> None:
    assert wrapped("one two three", 9, "  ", first="") == ["one two", "  three"]
    assert wrapped("abcdefghij", 6, "  ") == ["  abcd", "  efgh", "  ij"]
    assert wrapped(["n 24", "p 0.5"], 8) == ["n 24,", "p 0.5"]
    assert wrapped("", 9) == []
