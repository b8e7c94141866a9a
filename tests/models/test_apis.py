"""Four APIs: what is sent, and what comes back means.  The payloads follow the vendors' own types."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_battery.edges.models.answers import count, merged
from pytest_battery.edges.models.anthropic import VertexAnthropic
from pytest_battery.edges.models.api_names import APIS, api
from pytest_battery.edges.models.apis import Answer
from pytest_battery.edges.models.sse import Events
from pytest_battery.errors import CallError, ProviderError
from pytest_battery.values.calls import Message, Request
from pytest_battery.values.subjects import parse_subject

CHAT, RESPONSES, CLAUDE, GOOGLE = (api(name) for name in ("openai-chat", "openai-responses", "anthropic", "google"))
SCHEMA = {"type": "object"}


def request(subject: str = "p/m", schema: Any = None) -> Request:
    messages = (
        Message("system", "Be brief."),
        Message("user", "Hi"),
        Message("assistant", "Yes?"),
        Message("user", "Go"),
    )
    return Request(parse_subject(subject), messages, schema)


# -- what is sent ---------------------------------------------------------------------------------


def test_openai_chat_is_asked() -> None:
    wire = CHAT.wire(request(schema=SCHEMA), {"temperature": 0}, key="k", stream=True)
    assert (wire.path, wire.headers) == ("chat/completions", {"authorization": "Bearer k"})
    assert wire.body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Yes?"},
            {"role": "user", "content": "Go"},
        ],
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA}},
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
    }


def test_openai_responses_is_asked() -> None:
    wire = RESPONSES.wire(request(schema=SCHEMA), {"text": {"verbosity": "low"}}, key=None, stream=False)
    assert (wire.path, wire.headers) == ("responses", {})
    assert wire.body["instructions"] == "Be brief."
    assert [one["role"] for one in wire.body["input"]] == ["user", "assistant", "user"]
    assert wire.body["store"] is False
    assert wire.body["text"] == {
        "format": {"type": "json_schema", "name": "answer", "strict": True, "schema": SCHEMA},
        "verbosity": "low",
    }


def test_anthropic_is_asked() -> None:
    fields = {"max_tokens": 10, "output_config": {"effort": "low"}}
    wire = CLAUDE.wire(request(schema=SCHEMA), fields, key="k", stream=True)
    assert wire.path == "v1/messages"
    assert wire.headers == {"anthropic-version": "2023-06-01", "x-api-key": "k"}
    assert (wire.body["system"], wire.body["stream"], wire.body["max_tokens"]) == ("Be brief.", True, 10)
    assert wire.body["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}, "effort": "low"}


def test_vertex_has_the_model_in_its_path() -> None:
    wire = VertexAnthropic("my-project", "us-east5").wire(request("p/claude-x@20251001"), {}, key="t", stream=False)
    assert wire.path == (
        "v1/projects/my-project/locations/us-east5/publishers/anthropic/models/claude-x@20251001:rawPredict"
    )
    assert wire.headers == {"authorization": "Bearer t"}
    assert "model" not in wire.body
    assert wire.body["anthropic_version"] == "vertex-2023-10-16"


def test_google_is_asked() -> None:
    fields = {"generationConfig": {"temperature": 0}}
    wire = GOOGLE.wire(request("p/gemini-x", SCHEMA), fields, key="k", stream=True)
    assert wire.path == "v1beta/models/gemini-x:streamGenerateContent?alt=sse"
    assert wire.headers == {"x-goog-api-key": "k"}
    assert wire.body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert [one["role"] for one in wire.body["contents"]] == ["user", "model", "user"]
    assert wire.body["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": SCHEMA,
        "temperature": 0,
    }


@pytest.mark.parametrize("name", list(APIS))
def test_a_knob_never_overwrites_what_is_asked(name: str) -> None:
    fields = {"contents": []} if name == "google" else {"input": []} if name == "openai-responses" else {"messages": []}
    with pytest.raises(ProviderError, match="may not write the field"):
        api(name).wire(request(), fields, key=None, stream=False)


def test_an_unknown_api_names_those_there_are() -> None:
    with pytest.raises(ProviderError, match="known: anthropic, google, openai-chat, openai-responses"):
        api("bedrock")


def test_fields_are_merged_into_what_is_there() -> None:
    assert merged({"a": {"b": 1}}, {"a": {"c": 2}}, frozenset()) == {"a": {"b": 1, "c": 2}}
    with pytest.raises(ProviderError):
        merged({"a": {"b": 1}}, {"a": {"b": 2}}, frozenset())


# -- what comes back ------------------------------------------------------------------------------


def chat(content: Any = "yes", finish: Any = "stop", usage: Any = None, **message: Any) -> dict[str, Any]:
    return {
        "model": "m-1",
        "choices": [{"message": {"content": content, **message}, "finish_reason": finish}],
        "usage": usage,
    }


def responses(*parts: Any, status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"model": "m-1", "status": status, "output": [{"type": "message", "content": list(parts)}], **more}


def claude(*blocks: Any, stop: Any = "end_turn", usage: Any = None) -> dict[str, Any]:
    return {"type": "message", "model": "m-1", "content": list(blocks), "stop_reason": stop, "usage": usage}


def gemini(*parts: Any, finish: Any = "STOP", **more: Any) -> dict[str, Any]:
    return {"modelVersion": "m-1", "candidates": [{"content": {"parts": list(parts)}, "finishReason": finish}], **more}


def said(text: str) -> dict[str, str]:
    return {"type": "output_text", "text": text}


def block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("speaks", "document", "text", "stop"),
    [
        (CHAT, chat(), "yes", "stop"),
        (CHAT, chat("cut", "length"), "cut", "length"),
        (CHAT, chat("", "length"), "", "length"),
        (CHAT, chat(""), "", "empty"),
        (CHAT, chat(None), "", "empty"),
        (CHAT, chat(None, refusal="I can't."), "I can't.", "refusal"),
        (CHAT, chat("", "content_filter"), "", "filtered"),
        (CHAT, chat(None, "tool_calls", tool_calls=[{"function": {"arguments": "{not json"}}]), "", "tool-calls"),
        (CHAT, chat([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "ab", "stop"),
        (CHAT, chat("x", "eos"), "x", "other"),
        (CHAT, chat("x", None), "x", "other"),
        (RESPONSES, responses(said("a"), said("b")), "ab", "stop"),
        (RESPONSES, responses({"type": "refusal", "refusal": "No."}), "No.", "refusal"),
        (
            RESPONSES,
            responses(said("cu"), status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
            "cu",
            "length",
        ),
        (
            RESPONSES,
            responses(status="incomplete", incomplete_details={"reason": "content_filter"}),
            "",
            "filtered",
        ),
        (RESPONSES, responses(), "", "empty"),
        (CLAUDE, claude({"type": "thinking", "thinking": "hm"}, block("a"), block("b")), "ab", "stop"),
        (CLAUDE, claude(block("cut"), stop="max_tokens"), "cut", "length"),
        (CLAUDE, claude(stop="refusal"), "", "refusal"),
        (CLAUDE, claude(block("x"), stop="stop_sequence"), "x", "stop"),
        (CLAUDE, claude({"type": "tool_use", "input": {}}, stop="tool_use"), "", "tool-calls"),
        (CLAUDE, claude(block("x"), stop="pause_turn"), "x", "other"),
        (CLAUDE, claude(), "", "empty"),
        (GOOGLE, gemini({"text": "hm", "thought": True}, {"text": "a"}, {"text": "b"}), "ab", "stop"),
        (GOOGLE, gemini({"text": "cut"}, finish="MAX_TOKENS"), "cut", "length"),
        (GOOGLE, gemini(finish="SAFETY"), "", "filtered"),
        (GOOGLE, {"promptFeedback": {"blockReason": "SAFETY"}}, "", "filtered"),
        (GOOGLE, gemini({"functionCall": {"name": "f"}}), "", "tool-calls"),
        (GOOGLE, gemini({"text": "x"}, finish="LANGUAGE"), "x", "other"),
    ],
)
def test_an_answer_and_how_it_ended(speaks: Any, document: Any, text: str, stop: str) -> None:
    answer = speaks.read(document)
    assert (answer.text, answer.stop_reason) == (text, stop)


@pytest.mark.parametrize(
    ("speaks", "document", "kind"),
    [
        (CHAT, {"error": {"message": "x"}}, "error-body"),
        (CHAT, {"choices": [{"error": {"code": 502}}]}, "error-body"),
        (CHAT, {"choices": None}, "no-choices"),
        (CHAT, {}, "no-choices"),
        (CHAT, {"choices": []}, "no-choices"),
        (CHAT, "text", "not-the-api"),
        (RESPONSES, {"error": {"message": "x"}, "output": []}, "error-body"),
        (RESPONSES, {"status": "failed", "output": []}, "error-body"),
        (RESPONSES, {"choices": []}, "not-the-api"),
        (CLAUDE, {"type": "error", "error": {"type": "overloaded_error"}}, "error-body"),
        (CLAUDE, {"type": "error"}, "error-body"),
        (CLAUDE, {"choices": []}, "not-the-api"),
        (GOOGLE, {"error": {"code": 400}}, "error-body"),
        (GOOGLE, {"candidates": []}, "no-choices"),
        (GOOGLE, {"choices": []}, "not-the-api"),
    ],
)
def test_what_is_no_answer(speaks: Any, document: Any, kind: str) -> None:
    with pytest.raises(CallError) as caught:
        speaks.read(document)
    assert caught.value.kind == kind


def parts(answer: Answer) -> tuple[int | None, ...]:
    usage = answer.usage
    return usage.input, usage.cache_read, usage.cache_write, usage.output, usage.reasoning


@pytest.mark.parametrize(
    ("speaks", "usage", "expected"),
    [
        # the cached part is inside the prompt, the reasoning inside the completion
        (
            CHAT,
            {
                "prompt_tokens": 100,
                "completion_tokens": 50,
                "prompt_tokens_details": {"cached_tokens": 80, "cache_write_tokens": 5},
                "completion_tokens_details": {"reasoning_tokens": 30},
            },
            (15, 80, 5, 50, 30),
        ),
        (CHAT, {"prompt_tokens": 100, "completion_tokens": 50}, (100, 0, 0, 50, None)),
        (CHAT, None, (None, None, None, None, None)),
        (CHAT, {}, (None, None, None, None, None)),
        (CHAT, {"prompt_tokens": "100", "completion_tokens": -5}, (None, None, None, None, None)),
        (CHAT, {"prompt_tokens": True, "completion_tokens": 2.5}, (None, None, None, None, None)),
        (CHAT, {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}}, (None, 9, 0, None, None)),
        (CHAT, {"prompt_tokens": 5, "completion_tokens": 0, "cost": 0.01}, (5, 0, 0, 0, None)),
        (
            RESPONSES,
            {
                "input_tokens": 100,
                "output_tokens": 50,
                "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 10},
            },
            (40, 60, 0, 50, 10),
        ),
        # the cached part is beside the input
        (
            CLAUDE,
            {"input_tokens": 10, "cache_read_input_tokens": 80, "cache_creation_input_tokens": 7, "output_tokens": 50},
            (10, 80, 7, 50, None),
        ),
        (CLAUDE, {"input_tokens": 10, "output_tokens": 5}, (10, 0, 0, 5, None)),
        (CLAUDE, {"output_tokens": 5}, (None, None, None, 5, None)),
        # thoughts are beside the candidates' tokens, the cached part inside the prompt
        (
            GOOGLE,
            {
                "promptTokenCount": 100,
                "cachedContentTokenCount": 40,
                "candidatesTokenCount": 20,
                "thoughtsTokenCount": 30,
            },
            (60, 40, 0, 50, 30),
        ),
        (GOOGLE, {"promptTokenCount": 100}, (100, 0, 0, None, None)),
    ],
)
def test_usage_is_in_disjoint_parts_and_unknown_is_never_zero(speaks: Any, usage: Any, expected: Any) -> None:
    documents = {
        "openai-chat": chat(usage=usage),
        "openai-responses": responses(said("x"), usage=usage),
        "anthropic": claude(block("x"), usage=usage),
        "google": gemini({"text": "x"}, usageMetadata=usage),
    }
    assert parts(speaks.read(documents[speaks.name])) == expected


def streamed(speaks: Any, *events: Any) -> Answer:
    stream = speaks.stream()
    for event in events:
        name, data = event if isinstance(event, tuple) else (None, event)
        stream.feed(name, data if isinstance(data, str) else json.dumps(data))
    answer: Answer = stream.answer()
    return answer


def test_anthropics_counts_are_cumulative_and_never_added() -> None:
    answer = streamed(
        CLAUDE,
        {"type": "message_start", "message": {"model": "m-1", "usage": {"input_tokens": 9, "output_tokens": 1}}},
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "ye"}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "s"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    )
    assert (answer.text, answer.stop_reason, answer.model) == ("yes", "stop", "m-1")
    assert parts(answer) == (9, 0, 0, 7, None)


def test_openais_usage_comes_in_an_event_without_choices() -> None:
    answer = streamed(
        CHAT,
        {"model": "m-1", "choices": [{"delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{"delta": {"content": "yes"}, "finish_reason": None}]},
        {"choices": [{"delta": {}, "finish_reason": "length"}]},
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
        "[DONE]",
    )
    assert (answer.text, answer.stop_reason, parts(answer)[3]) == ("yes", "length", 2)


def test_responses_end_with_the_whole_of_it() -> None:
    whole = responses(said("yes"), usage={"input_tokens": 3, "output_tokens": 2})
    answer = streamed(
        RESPONSES,
        {"type": "response.output_text.delta", "delta": "yes"},
        {"type": "response.completed", "response": whole},
    )
    assert (answer.text, parts(answer)[0]) == ("yes", 3)


def test_googles_events_are_responses_that_follow_one_another() -> None:
    answer = streamed(
        GOOGLE,
        gemini({"text": "ye"}, finish=None),
        gemini({"text": "s"}, usageMetadata={"promptTokenCount": 4, "candidatesTokenCount": 2}),
    )
    assert (answer.text, answer.stop_reason, parts(answer)[3]) == ("yes", "stop", 2)


@pytest.mark.parametrize(
    ("speaks", "events"),
    [
        (CHAT, [{"choices": [{"delta": {"content": "ye"}, "finish_reason": None}]}]),
        (RESPONSES, [{"type": "response.output_text.delta", "delta": "ye"}]),
        (CLAUDE, [{"type": "content_block_delta", "delta": {"type": "text_delta", "text": "ye"}}]),
        (GOOGLE, [gemini({"text": "ye"}, finish=None)]),
        (CHAT, []),
    ],
)
def test_a_stream_without_its_end_is_cut(speaks: Any, events: list[Any]) -> None:
    with pytest.raises(CallError) as caught:
        streamed(speaks, *events)
    assert caught.value.kind == "stream-cut"


@pytest.mark.parametrize(
    ("speaks", "event"),
    [
        (CHAT, {"error": {"message": "overloaded"}}),
        (RESPONSES, {"type": "error", "message": "x"}),
        (CLAUDE, {"type": "error", "error": {"type": "overloaded_error"}}),
        (GOOGLE, {"error": {"code": 503}}),
    ],
)
def test_an_error_inside_a_stream_is_an_error(speaks: Any, event: Any) -> None:
    with pytest.raises(CallError) as caught:
        streamed(speaks, event)
    assert caught.value.kind == "error-body"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "content",
                    "delta",
                    "finish_reason",
                    "usage",
                    "output",
                    "type",
                    "text",
                    "candidates",
                    "parts",
                    "model",
                    "error",
                    "status",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("name", list(APIS))
@given(document=anything)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_whatever_comes_is_an_answer_or_an_error_of_the_call(name: str, document: Any) -> None:
    for read in (lambda: api(name).read(document), lambda: streamed(api(name), document)):
        with contextlib.suppress(CallError):
            assert isinstance(read(), Answer)


@pytest.mark.parametrize("value", [True, "5", -1, 2.5, None, [1], 1e300])
def test_what_is_no_count_is_unknown(value: Any) -> None:
    assert count(value) is None


# -- server-sent events ---------------------------------------------------------------------------


STREAM = 'event: a\ndata: one\ndata: two\n\n: ping\n\ndata:{"x": "\u2028 \u00e4"}\r\n\r\nid: 7\rdata: last\r\r'
EVENTS = [("a", "one\ntwo"), (None, '{"x": "\u2028 \u00e4"}'), (None, "last")]


@given(st.lists(st.integers(1, 9), max_size=60))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_events_are_the_same_however_they_are_cut(sizes: list[int]) -> None:
    content = "\ufeff".encode() + STREAM.encode()
    events, found = Events(), []
    for size in sizes:
        found += events.feed(content[:size])
        content = content[size:]
    assert found + events.feed(content, last=True) == EVENTS


def test_a_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_battery.edges.models.sse.LONGEST_LINE", 100)
    with pytest.raises(CallError, match="longer than 100"):
        Events().feed(b"data: " + b"x" * 200)
