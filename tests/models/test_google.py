"""What the generated contents in ``golden/`` say, whole and streamed."""

from __future__ import annotations

import pytest

from pytest_battery.edges.models.google import Google
from pytest_battery.values.calls import Message, Request
from pytest_battery.values.subjects import parse_subject

from .golden_answers import Told, names, played, told

NAME = "google"
TABLE: dict[str, Told | str] = {
    "plain.json": ("Yes ✅ 北京.", "stop", (19, 0, 0, 3, None)),
    "plain.sse": ("Yes ✅ 北京.", "stop", (19, 0, 0, 3, None)),
    # the cached tokens are inside the prompt's, the thoughts beside the candidates'
    "cached.json": ("Yes.", "stop", (155, 2304, 0, 23, None)),
    "cached.sse": ("Yes.", "stop", (155, 2304, 0, 23, None)),
    "reasoning.json": ("Yes.", "stop", (19, 0, 0, 210, 192)),
    "reasoning.sse": ("Yes.", "stop", (19, 0, 0, 210, 192)),
    "length.json": ("The three causes are", "length", (19, 0, 0, 16, None)),
    "length.sse": ("The three causes are", "length", (19, 0, 0, 16, None)),
    "length-all-reasoning.json": ("", "length", (19, 0, 0, 199, 199)),
    "filtered.json": ("", "filtered", (19, 0, 0, None, None)),
    "filtered.sse": ("The", "filtered", (19, 0, 0, 1, None)),
    "prompt-blocked.json": ("", "filtered", (19, 0, 0, None, None)),
    "prompt-blocked.sse": ("", "filtered", (19, 0, 0, None, None)),
    "empty.json": ("", "empty", (19, 0, 0, 3, None)),
    "empty.sse": ("", "empty", (19, 0, 0, 3, None)),
    "tool-call.json": ("", "tool-calls", (19, 0, 0, 3, None)),
    "tool-call.sse": ("", "tool-calls", (19, 0, 0, 3, None)),
    "tool-call-no-json.json": ("", "tool-calls", (19, 0, 0, None, None)),
    "no-usage.json": ("Yes.", "stop", (None, None, None, None, None)),
    "no-usage.sse": ("Yes.", "stop", (None, None, None, None, None)),
    "usage-after-the-finish.sse": ("Yes.", "stop", (19, 0, 0, 3, None)),
    "error-in-200.json": "error-body",
    "error-event.sse": "error-body",
    "candidates-empty.json": "no-choices",
    "candidates-missing.json": "no-choices",
    "cut.sse": "stream-cut",
}


@pytest.mark.parametrize("name", list(TABLE))
def test_what_a_golden_answer_says(name: str) -> None:
    assert told(NAME, name) == TABLE[name]


def test_every_golden_answer_is_in_the_table() -> None:
    assert names(NAME) == set(TABLE)


def test_the_model_that_answered_is_the_providers_word() -> None:
    assert played(NAME, "plain.json").model == played(NAME, "plain.sse").model == "gemini-x-001"


def test_one_part_of_the_output_that_is_no_count_leaves_the_output_unknown() -> None:
    usage = {"promptTokenCount": 5, "candidatesTokenCount": "9", "thoughtsTokenCount": 3}
    read = Google().read({"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage}).usage
    assert (read.input, read.output, read.reasoning) == (5, None, 3)


def test_the_name_of_a_model_stays_one_part_of_the_path() -> None:
    request = Request(parse_subject("p/models/../a+b"), (Message("user", "Hi"),))
    path = Google().wire(request, {}, key=None, stream=False).path
    assert path == "v1beta/models/models%2F..%2Fa%2Bb:generateContent"
