"""What the responses in ``golden/`` say, whole and streamed."""

from __future__ import annotations

import pytest

from .golden_answers import Told, names, played, told

NAME = "openai-responses"
NOTHING = (None, None, None, None, None)
BOTH: dict[str, Told | str] = {
    "plain": ("Yes ✅ 北京.", "stop", (19, 0, 0, 3, 0)),
    "cached": ("Yes.", "stop", (27, 2304, 128, 23, 0)),
    "reasoning": ("Yes.", "stop", (19, 0, 0, 210, 192)),
    "length": ("The three causes are", "length", (19, 0, 0, 16, 0)),
    "filtered": ("The", "filtered", (19, 0, 0, 1, 0)),
    "refusal": ("I can't help with that.", "refusal", (19, 0, 0, 8, 0)),
    "empty": ("", "empty", (19, 0, 0, 1, 0)),
    "tool-call": ("", "tool-calls", (19, 0, 0, 9, 0)),
    "no-usage": ("Yes.", "stop", NOTHING),
    "failed": "error-body",
}
TABLE: dict[str, Told | str] = {
    **{f"{name}.{end}": said for name, said in BOTH.items() for end in ("json", "sse")},
    "error-in-200.json": "error-body",
    "error-event.sse": "error-body",
    "in-progress.json": "error-body",
    "output-null.json": "not-the-api",
    "cut.sse": "stream-cut",
}


@pytest.mark.parametrize("name", list(TABLE))
def test_what_a_golden_answer_says(name: str) -> None:
    assert told(NAME, name) == TABLE[name]


def test_every_golden_answer_is_in_the_table() -> None:
    assert names(NAME) == set(TABLE)


def test_a_stream_says_what_the_whole_response_says() -> None:
    assert played(NAME, "plain.sse") == played(NAME, "plain.json")
