"""What the messages in ``golden/`` say, whole and streamed."""

from __future__ import annotations

import pytest

from pytest_battery.edges.models.anthropic import Anthropic, VertexAnthropic
from pytest_battery.errors import CallError, ProviderError
from pytest_battery.values.calls import Message, Request
from pytest_battery.values.subjects import parse_subject

from .golden_answers import GOLDEN, Told, names, played, streamed, told

NAME = "anthropic"
TABLE: dict[str, Told | str] = {
    "plain.json": ("Yes ✅ 北京.", "stop", (19, 0, 0, 3, None)),
    "plain.sse": ("Yes ✅ 北京.", "stop", (19, 0, 0, 3, None)),
    # input, cache_read and cache_write stand side by side
    "cached.json": ("Yes.", "stop", (3, 0, 12304, 550, None)),
    "cached.sse": ("Yes.", "stop", (3, 0, 12304, 550, None)),
    "cache-read.json": ("Yes.", "stop", (3, 12304, 7, 23, None)),
    # message_start and two message_delta repeat the counts
    "cumulative.sse": ("Yes.", "stop", (3, 80, 7, 90, None)),
    "reasoning.json": ("Yes.", "stop", (19, 0, 0, 210, 192)),
    "reasoning.sse": ("Yes.", "stop", (19, 0, 0, 210, 192)),
    "length.json": ("The three causes are", "length", (19, 0, 0, 16, None)),
    "length.sse": ("The three causes are", "length", (19, 0, 0, 16, None)),
    "window.json": ("The three", "length", (199000, 0, 0, 1000, None)),
    "refusal.json": ("", "refusal", (19, 0, 0, 0, None)),
    "refusal.sse": ("", "refusal", (19, 0, 0, 0, None)),
    "empty.json": ("", "empty", (19, 0, 0, 3, None)),
    "empty.sse": ("", "empty", (19, 0, 0, 3, None)),
    "content-null.json": ("", "empty", (19, 0, 0, 3, None)),
    "tool-call.json": ("I look.", "tool-calls", (19, 0, 0, 40, None)),
    "tool-call.sse": ("I look.", "tool-calls", (19, 0, 0, 40, None)),
    "no-usage.json": ("Yes.", "stop", (None, None, None, None, None)),
    # what message_start says of the output was said before there was any
    "no-usage-at-the-end.sse": ("Yes.", "stop", (19, 0, 0, None, None)),
    "error-in-200.json": "error-body",
    "error-event.sse": "error-body",
    "cut.sse": "stream-cut",
}


@pytest.mark.parametrize("name", list(TABLE))
def test_what_a_golden_answer_says(name: str) -> None:
    assert told(NAME, name) == TABLE[name]


def test_every_golden_answer_is_in_the_table() -> None:
    assert names(NAME) == set(TABLE)


def test_the_model_that_answered_is_the_providers_word() -> None:
    assert played(NAME, "plain.json").model == played(NAME, "plain.sse").model == "claude-x-20260501"


def test_a_stream_cut_anywhere_before_its_end_marker_is_cut() -> None:
    content = (GOLDEN / f"{NAME}.plain.sse").read_bytes()
    for end in range(content.rindex(b"data:")):
        with pytest.raises(CallError) as caught:
            streamed(NAME, content[:end], len(content))
        assert caught.value.kind == "stream-cut", end


@pytest.mark.parametrize("bad", ["4", -4, True, 4.5])
def test_a_cached_part_that_is_no_count_is_unknown_and_not_zero(bad: object) -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": bad, "output_tokens": 2}
    read = Anthropic().read({"content": [], "usage": usage}).usage
    assert (read.input, read.cache_read, read.cache_write, read.output) == (10, None, 0, 2)


def test_a_knob_does_not_take_the_place_of_the_schema() -> None:
    request = Request(parse_subject("p/m"), (Message("user", "Hi"),), {"type": "object"})
    for fields in ({"output_config": None}, {"output_config": {"format": None}}):
        with pytest.raises(ProviderError, match=r"field 'output_config(\.format)?'"):
            Anthropic().wire(request, fields, key=None, stream=False)


def test_vertex_streams_from_a_path_of_its_own_and_is_read_alike() -> None:
    request = Request(parse_subject("p/claude-x@20260501"), (Message("user", "Hi"),))
    vertex = VertexAnthropic("a project", "eu/1")
    wire = vertex.wire(request, {"max_tokens": 5}, key=None, stream=True)
    assert wire.path == (
        "v1/projects/a%20project/locations/eu%2F1/publishers/anthropic/models/claude-x@20260501:streamRawPredict"
    )
    assert wire.headers == {}
    assert wire.body == {
        "anthropic_version": "vertex-2023-10-16",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 5,
        "stream": True,
    }
    document = {"content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn"}
    assert vertex.read(document) == Anthropic().read(document)
