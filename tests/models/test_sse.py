"""Server-sent events out of bytes that are cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_battery.edges.models.sse import Events
from pytest_battery.errors import CallError

Event = tuple[str | None, str]

data = st.lists(
    st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=6), min_size=1, max_size=3
).map("\n".join)
events = st.lists(st.tuples(st.none() | st.sampled_from(["ping", "message_stop"]), data), max_size=4)


def written(event: Event, end: str) -> str:
    name, text = event
    lines = [] if name is None else [f"event: {name}"]
    return "".join(line + end for line in [*lines, ": a comment", *(f"data: {one}" for one in text.split("\n")), ""])


@given(events, st.sampled_from(["\n", "\r", "\r\n"]), st.booleans(), st.lists(st.integers(1, 5), max_size=80))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_what_was_written_is_read_however_it_is_cut(
    wanted: list[Event], end: str, marked: bool, sizes: list[int]
) -> None:
    content = ("\ufeff" * marked + "".join(written(event, end) for event in wanted)).encode()
    reading, found = Events(), []
    for size in sizes:
        found += reading.feed(content[:size])
        content = content[size:]
    found += reading.feed(content)
    assert found == wanted
    assert reading.feed(b"", last=True) == []


def test_an_event_is_given_as_soon_as_its_blank_line_is_there() -> None:
    """Also where a CR ends it, which could be half of a CRLF."""
    for end in (b"\n", b"\r", b"\r\n"):
        reading = Events()
        assert reading.feed(b"data: 1" + end + end) == [(None, "1")]
        assert reading.feed(b"data: 2" + end + end) == [(None, "2")]


def test_one_space_after_the_colon_is_no_part_of_the_data() -> None:
    assert Events().feed(b"data:a\ndata: b\ndata:  c\ndata\n\n") == [(None, "a\nb\n c\n")]


def test_the_name_of_an_event_is_not_the_next_ones() -> None:
    assert Events().feed(b"event: a\ndata: 1\n\ndata: 2\n\nevent: b\n\ndata: 3\n\n") == [
        ("a", "1"),
        (None, "2"),
        (None, "3"),
    ]


@pytest.mark.parametrize("mark", ["\u0085", "\u2028", "\u2029", "\x0b", "\x0c", "\x1c"])
def test_what_only_looks_like_the_end_of_a_line_is_text(mark: str) -> None:
    assert Events().feed(f"data: a{mark}b\n\n".encode()) == [(None, f"a{mark}b")]


def test_bytes_that_are_no_utf_8_do_not_stop_the_reading() -> None:
    assert Events().feed(b"data: a\xf0\x28b\n\ndata: c\n\n") == [(None, "a\ufffd(b"), (None, "c")]


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"data: [DONE]", [(None, "[DONE]")]),
        (b'data: {"a": 1}', [(None, '{"a": 1}')]),
        (b'data: {"a": 1}\n', [(None, '{"a": 1}')]),
        (b'data: {"a": 1\n', []),
        (b'data: {"a": "\xe2\x9c', []),
        (b"da", []),
        (b"data: [", []),
    ],
)
def test_an_event_that_the_end_cuts_off_is_given_only_if_it_is_whole(content: bytes, wanted: list[Event]) -> None:
    reading = Events()
    assert reading.feed(content) == []
    assert reading.feed(b"", last=True) == wanted


def test_a_line_that_never_ends_is_given_up_and_the_next_ones_are_counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_battery.edges.models.sse.LONGEST_LINE", 20)
    reading = Events()
    for _ in range(10):
        reading.feed(b"data: 0123456789\n")
    reading.feed(b"data: 01234")
    with pytest.raises(CallError) as caught:
        reading.feed(b"0123456789")
    assert caught.value.kind == "too-long"
