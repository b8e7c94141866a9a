"""What the chat completions in ``golden/`` say, whole and streamed."""

from __future__ import annotations

import pytest

from pytest_battery.edges.models.api_names import api
from pytest_battery.edges.models.openai_chat import OpenAIChat
from pytest_battery.errors import CallError

from .golden_answers import GOLDEN, Told, names, played, streamed, told

NAME = "openai-chat"
NOTHING = (None, None, None, None, None)
TABLE: dict[str, Told | str] = {
    "plain.json": ("Yes ✅ 北京.", "stop", (19, 0, 0, 3, None)),
    "plain.sse": ("Yes ✅ 北京.", "stop", (19, 0, 0, 3, None)),
    "cached.json": ("Yes.", "stop", (27, 2304, 128, 23, None)),
    "cached.sse": ("Yes.", "stop", (27, 2304, 128, 23, None)),
    "reasoning.json": ("Yes.", "stop", (19, 0, 0, 210, 192)),
    "reasoning.sse": ("Yes.", "stop", (19, 0, 0, 210, 192)),
    # 12 + 2 + 317 = 331: here the reasoning stands beside the completion
    "reasoning-beside.json": ("Yes.", "stop", (8, 4, 0, 319, 317)),
    "length.json": ("The three causes are", "length", (19, 0, 0, 16, 0)),
    "length.sse": ("The three causes are", "length", (19, 0, 0, 16, None)),
    "length-all-reasoning.json": ("", "length", (19, 0, 0, 200, 199)),
    "refusal.json": ("I can't help with that.", "refusal", (19, 0, 0, 3, None)),
    "refusal.sse": ("I can't help with that.", "refusal", (19, 0, 0, 8, None)),
    "filtered.json": ("", "filtered", (19, 0, 0, 0, None)),
    "filtered.sse": ("The", "filtered", (19, 0, 0, 1, None)),
    "empty.json": ("", "empty", (19, 0, 0, 3, None)),
    "empty.sse": ("", "empty", (19, 0, 0, 1, None)),
    "tool-call.json": ("", "tool-calls", (19, 0, 0, 3, None)),
    "tool-call.sse": ("", "tool-calls", (19, 0, 0, 9, None)),
    "parts.json": ("Yes.", "stop", (19, 0, 0, 3, None)),
    "no-usage.json": ("Yes.", "stop", NOTHING),
    "no-usage.sse": ("Yes.", "stop", NOTHING),
    "gateway-cost.json": ("Yes.", "stop", (19, 0, 0, 3, 0)),
    "usage-beside-choices.sse": ("Yes.", "stop", (19, 0, 0, 3, None)),
    "usage-as-it-grows.sse": ("Yes.", "stop", (19, 0, 0, 3, None)),
    "error-in-200.json": "error-body",
    "error-in-choice.json": "error-body",
    "error-in-choice.sse": "error-body",
    "error-event.sse": "error-body",
    "choices-null.json": "no-choices",
    "choices-empty.json": "no-choices",
    "choices-missing.json": "no-choices",
    "no-choices.sse": "no-choices",
    "text-completion.json": "not-the-api",
    "cut.sse": "stream-cut",
}


@pytest.mark.parametrize("name", list(TABLE))
def test_what_a_golden_answer_says(name: str) -> None:
    assert told(NAME, name) == TABLE[name]


def test_every_golden_answer_is_in_the_table() -> None:
    assert names(NAME) == set(TABLE)


def test_the_model_that_answered_is_the_providers_word() -> None:
    assert played(NAME, "plain.json").model == played(NAME, "plain.sse").model == "gpt-x-2026-05-01"


def test_a_stream_cut_anywhere_before_its_finish_reason_is_cut() -> None:
    """Also inside a character, and inside a JSON text."""
    content = (GOLDEN / f"{NAME}.plain.sse").read_bytes()
    for end in range(content.index(b'"finish_reason":"stop"')):
        with pytest.raises(CallError) as caught:
            streamed(NAME, content[:end], len(content))
        assert caught.value.kind == "stream-cut", end


def test_a_stream_that_ends_after_its_finish_reason_without_a_marker_is_whole() -> None:
    """There are servers that send none; the usage that would have followed is unknown then, not 0."""
    content = (GOLDEN / f"{NAME}.plain.sse").read_bytes()
    end = content.index(b"\n\n", content.index(b'"finish_reason":"stop"')) + 2
    answer = streamed(NAME, content[:end], len(content))
    assert (answer.text, answer.stop_reason) == ("Yes ✅ 北京.", "stop")
    assert answer.usage.output is None


def test_the_end_marker_ends_a_stream_even_without_a_blank_line() -> None:
    content = (GOLDEN / f"{NAME}.plain.sse").read_bytes()
    assert streamed(NAME, content.rstrip(), len(content)).text == "Yes ✅ 北京."


def test_an_event_without_data_says_nothing() -> None:
    content = b"data:\n\n" + (GOLDEN / f"{NAME}.plain.sse").read_bytes()
    assert streamed(NAME, content, 10).text == "Yes ✅ 北京."


@pytest.mark.parametrize("bad", ["4", -4, True, 4.5, [4]])
def test_a_cached_part_that_is_no_count_leaves_the_input_unknown(bad: object) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": bad}}
    read = OpenAIChat().read({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": usage})
    assert (read.usage.input, read.usage.cache_read, read.usage.output) == (None, None, 2)


def test_more_reasoning_than_output_leaves_the_output_unknown() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 50}}
    read = OpenAIChat().read({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": usage})
    assert read.usage.output is None


@pytest.mark.parametrize("content", [5, {"text": "Yes."}, True])
def test_a_content_that_is_no_text_is_not_taken_for_an_empty_answer(content: object) -> None:
    with pytest.raises(CallError, match="no text as its content"):
        api(NAME).read({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]})


@pytest.mark.parametrize("place", ["choices", "error", "message"])
def test_a_document_nested_without_end_is_an_error_of_the_call(place: str) -> None:
    deep: object = "x"
    for _ in range(100_000):
        deep = [deep]
    for document in (deep, {place: deep}, {"choices": [{place: deep}]}):
        with pytest.raises(CallError):
            api(NAME).read(document)
