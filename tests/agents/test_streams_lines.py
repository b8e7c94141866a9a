"""Lines and events of a stream, whatever its bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_battery.edges.agents import streams
from pytest_battery.edges.agents.streams import Event, Odd, at, clean, count, events_of, excerpt, no_end, text_at


def read(stdout: bytes) -> tuple[list[Event], Odd]:
    odd = Odd()
    return list(events_of(stdout, odd)), odd


EVENTS = st.lists(st.dictionaries(st.text(), st.text() | st.integers()).map(lambda body: {**body, "type": "t"}))


@given(EVENTS, st.booleans(), st.booleans())
def test_what_is_written_one_event_to_a_line_is_read_so(events: list[Any], plain: bool, crlf: bool) -> None:
    end = b"\r\n" if crlf else b"\n"
    written = [json.dumps(event, ensure_ascii=plain).encode("utf-8", "surrogatepass") for event in events]
    found, odd = read(end.join([*written, b""]))
    assert [event.number for event in found] == list(range(1, 1 + len(events)))
    assert odd.forgeries == odd.notes == ()
    if plain:
        assert [dict(event.body) for event in found] == events


@given(st.binary())
def test_no_bytes_raise_and_every_line_is_an_event_or_named_or_blank(stdout: bytes) -> None:
    found, odd = read(stdout)
    lines = [line for line in stdout.split(b"\n") if line.strip(b" \t\r")]
    assert len(found) + len(odd.forgeries) + len(odd.notes) == len(lines) or len(odd.forgeries) == 21


def test_a_line_may_hold_what_other_splitters_end_a_line_at() -> None:
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"
    found, odd = read(json.dumps({"type": "t", "text": text}, ensure_ascii=False).encode() + b"\n")
    assert [event.body["text"] for event in found] == [text]
    assert odd.forgeries == ()


def test_a_line_is_read_up_to_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_LINE", 20)
    found, odd = read(b'{"type":"12345678"}\n{"type":"1234567890"}\n{"type":"3"}')
    assert [event.type for event in found] == ["12345678", "3"]
    assert odd.notes == ("line 2 has 21 bytes, more than the 20 that are read of one; passed over",)


@given(st.text(alphabet=st.characters(), max_size=50))
def test_a_clean_text_can_be_written_and_stays_the_same_where_it_could(text: str) -> None:
    assert clean(text) == text
    assert clean(text + "\ud83d").encode("utf-8").decode() == text + "\ufffd"
    assert len(excerpt(text * 20)) <= 120
    assert "\n" not in excerpt(text)


@pytest.mark.parametrize(
    ("value", "number"),
    [(0, 0), (7, 7), (-1, None), (True, None), (1.5, None), ("3", None), (2**60, None), (None, None)],
)
def test_a_count_is_a_whole_number(value: Any, number: int | None) -> None:
    assert count({"a": {"b": value}}, "a", "b") == number


def test_what_is_not_there_is_none() -> None:
    assert at({"a": 1}, "a", "b") is None
    assert at([1], "a") is None
    assert text_at({"a": 1}, "a") is None


def test_why_there_is_no_end() -> None:
    assert no_end(b"", b"", 0, False) == "it said nothing, and it exited with 0"
    assert no_end(b"x", b"why\n", 1, False) == "its output breaks off, and it exited with 1; it says: why"
    assert no_end(b"x", b"", 137, True) == "it was ended when its time was up"
    assert len(no_end(b"x", b"y" * 10**6, 1, False)) < 600
