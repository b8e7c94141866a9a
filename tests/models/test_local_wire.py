from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pytest_battery.edges.models import local_wire
from pytest_battery.edges.models.event_stream import joined_completion
from pytest_battery.edges.models.weights import local_model
from pytest_battery.errors import CallError, ProviderError
from pytest_battery.values.calls import Request
from pytest_battery.values.subjects import parse_subject
from pytest_battery.values.usage import Usage

MODEL = local_model("smollm2-135m")


@pytest.mark.parametrize(
    ("knobs", "sent"),
    [
        ("max_tokens=1", {"max_tokens": 1}),
        ("maxTokens=2048", {"max_tokens": 2048}),
        ("temperature=0,top_k=0,min_p=0", {"temperature": 0, "top_k": 0, "min_p": 0}),
        ("temperature=0.70,top_p=1.0", {"temperature": 0.7, "top_p": 1}),
        ("seed=4294967294", {"seed": 4294967294}),
        ("presence_penalty=-2,frequency_penalty=2", {"presence_penalty": -2, "frequency_penalty": 2}),
        ("stop=END", {"stop": "END"}),
        ("stop=5", {"stop": "5"}),
    ],
)
def test_knobs_go_over_the_wire_as_numbers_and_are_reported_as_sent(
    knobs: str, sent: dict[str, Any], ask: Callable[..., Request]
) -> None:
    request = ask(f"local/smollm2-135m@{knobs}")
    body = local_wire.body(request, MODEL)
    assert {name: body[name] for name in sent} == sent
    assert [type(body[name]) for name in sent] == [type(value) for value in sent.values()]
    assert local_wire.reply(request, body, completion("yes"), 200).observed == sent


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("@max_tokens=0", "max_tokens must be a whole number from 1 to the 2048 tokens of its context, not 0"),
        ("@max_tokens=2049", "not 2049"),
        ("@max_tokens=2.5", "not 2.5"),
        ("@max_tokens=many", "not many"),
        ("@temperature=-0.1", "temperature must be a number from 0 to 100, not -0.1"),
        ("@temperature=1e999", "temperature must be"),
        ("@temperature=nan", "temperature must be"),
        ("@top_p=0", "top_p must be a number above 0, up to 1, not 0"),
        ("@top_p=1.1", "top_p must be"),
        ("@top_k=-1", "top_k must be"),
        ("@min_p=2", "min_p must be"),
        ("@seed=-1", "seed must be"),
        ("@seed=4294967295", "seed must be"),
        ("@presence_penalty=2.5", "presence_penalty must be"),
        ("@frequency_penalty=-3", "frequency_penalty must be"),
        ("@verbosity=low", "no knob verbosity; its knobs are frequency_penalty, max_tokens, min_p"),
        (":low", "local models don't think: take the level :low away"),
        (":off", "local models don't think"),
        ("@thinking=high", "local models don't think"),
    ],
)
def test_knobs_that_cannot_be_honoured_are_refused_with_the_rule(subject: str, message: str) -> None:
    with pytest.raises(ProviderError) as caught:
        local_wire.knobs(parse_subject(f"local/smollm2-135m{subject}"), MODEL)
    assert message in str(caught.value)
    assert str(caught.value).startswith("local/smollm2-135m")


def test_a_schema_is_sent_as_one(ask: Callable[..., Request]) -> None:
    schema = {"type": "object"}
    sent = local_wire.body(ask(output_schema=schema), MODEL)["response_format"]
    assert sent["type"] == "json_schema"
    assert sent["json_schema"]["schema"] == schema
    assert "response_format" not in local_wire.body(ask(), MODEL)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            {"prompt_tokens": 37, "completion_tokens": 12, "prompt_tokens_details": {"cached_tokens": 25}},
            Usage(input=12, cache_read=25, output=12),
        ),
        (
            {"prompt_tokens": 37, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 0}},
            Usage(input=37, cache_read=0, output=0),
        ),
        ({"prompt_tokens": 37, "completion_tokens": 12}, Usage(output=12)),
        ({"completion_tokens": 12, "prompt_tokens_details": {"cached_tokens": 5}}, Usage(cache_read=5, output=12)),
        ({"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(output=1)),
        ({"prompt_tokens": -1, "completion_tokens": -2, "prompt_tokens_details": {"cached_tokens": -3}}, Usage()),
        ({"prompt_tokens": "37", "completion_tokens": True, "prompt_tokens_details": []}, Usage()),
        ({}, Usage()),
        (None, Usage()),
        ("none", Usage()),
    ],
)
def test_usage_is_disjoint_and_unknown_is_never_zero(found: Any, expected: Usage) -> None:
    assert local_wire.usage(found) == expected


@pytest.mark.parametrize(
    ("content", "finish", "stop_reason"),
    [
        ("yes", "stop", "stop"),
        ("ye", "length", "length"),
        (None, "length", "length"),
        (None, "stop", "empty"),
        ("", "stop", "empty"),
        ("", None, "empty"),
        (None, "tool_calls", "tool-calls"),
        ("x", "content_filter", "filtered"),
        ("x", "something", "other"),
        ("x", None, "other"),
    ],
)
def test_how_a_reply_ended(
    content: str | None, finish: str | None, stop_reason: str, ask: Callable[..., Request]
) -> None:
    reply = local_wire.reply(ask(), {}, completion(content, finish), 200)
    assert (reply.text, reply.stop_reason) == (content or "", stop_reason)
    assert (reply.cost.usd, reply.cost.priced_by) == (0.0, "local")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"choices": None}, "no-choices"),
        ({"choices": []}, "no-choices"),
        ({"choices": [None]}, "no-choices"),
        ({"choices": "x"}, "no-choices"),
        ({}, "no-choices"),
        ({"choices": [{}]}, "malformed"),
        ({"choices": [{"message": {"content": ["x"]}}]}, "malformed"),
        ([], "malformed"),
        (None, "malformed"),
        ({"error": {"message": "out of memory"}}, "error-body"),
    ],
)
def test_a_response_without_a_reply_is_the_infrastructures_fault(
    answer: Any, kind: str, ask: Callable[..., Request]
) -> None:
    with pytest.raises(CallError) as caught:
        local_wire.reply(ask(), {}, answer, 200)
    assert (caught.value.kind, caught.value.fault) == (kind, "infrastructure")


TOO_LONG = {"error": {"type": "exceed_context_size_error", "message": "no", "n_prompt_tokens": 3031, "n_ctx": 2048}}


@pytest.mark.parametrize(
    ("status", "text", "with_schema", "kind", "fault"),
    [
        (400, json.dumps(TOO_LONG), False, "context-size", "task"),
        (400, '{"error": {"message": "bad schema"}}', True, "http-400", "task"),
        (400, '{"error": {"message": "bad body"}}', False, "http-400", "us"),
        (401, "", False, "http-401", "us"),
        (500, "<html>", False, "http-500", "infrastructure"),
        (503, '{"error": "loading"}', True, "http-503", "infrastructure"),
    ],
)
def test_another_status_says_whose_fault_it_is(
    status: int, text: str, with_schema: bool, kind: str, fault: str
) -> None:
    error = local_wire.status_error(status, text, with_schema=with_schema)
    assert (error.kind, error.fault) == (kind, fault)


def test_a_prompt_that_does_not_fit_says_by_how_much() -> None:
    assert "3031 tokens, and the model's context 2048" in str(
        local_wire.status_error(400, json.dumps(TOO_LONG), with_schema=False)
    )


def test_a_stream_is_joined_whatever_its_texts_hold() -> None:
    # The second piece holds characters that end a line for Python but not for the protocol.
    first, second = {"role": "assistant", "content": None}, {"content": "a\u2028b\x85c"}
    stream = events(chunk(first), chunk(second), chunk({"content": "!"}), chunk({}, "stop"), {"usage": {"x": 1}})
    joined = joined_completion(": ping\n\n" + stream)
    assert joined["choices"][0]["message"]["content"] == "a\u2028b\x85c!"
    assert joined["choices"][0]["finish_reason"] == "stop"
    assert (joined["model"], joined["usage"]) == ("m", {"x": 1})


def test_a_stream_without_text_is_an_empty_reply(ask: Callable[..., Request]) -> None:
    joined = joined_completion(events(chunk({"content": None}), chunk({}, "stop")))
    assert local_wire.reply(ask(), {}, joined, 200).stop_reason == "empty"


@pytest.mark.parametrize(
    ("stream", "kind"),
    [
        ("", "stream-cut"),
        ('data: {"choices": [{"delta": {"content": "half"}}]}\n\n', "stream-cut"),
        ("data: {half\n\n", "not-json"),
        ("data: [1]\n\n", "not-json"),
        ('data: {"error": {"message": "out of memory"}}\n\n', "error-body"),
    ],
)
def test_a_stream_that_breaks_off_is_no_reply(stream: str, kind: str) -> None:
    with pytest.raises(CallError) as caught:
        joined_completion(stream)
    assert (caught.value.kind, caught.value.fault) == (kind, "infrastructure")


@pytest.mark.parametrize("choices", [None, [], "x", [None]])
def test_a_stream_without_choices_has_none(choices: Any, ask: Callable[..., Request]) -> None:
    joined = joined_completion(events({"choices": choices}))
    with pytest.raises(CallError, match="no choices"):
        local_wire.reply(ask(), {}, joined, 200)


def completion(content: str | None, finish: str | None = "stop") -> dict[str, Any]:
    return {"model": "m", "choices": [{"message": {"content": content}, "finish_reason": finish}]}


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"model": "m", "choices": [{"delta": delta, "finish_reason": finish}]}


def events(*found: dict[str, Any]) -> str:
    texts = [json.dumps(event, ensure_ascii=False) for event in found]
    return "".join(f"data: {text}\n\n" for text in [*texts, "[DONE]"])
