"""A provider over HTTP against a server that plays every row of the table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import anyio
import pytest

from pytest_battery.edges.models.http_faults import TABLE, of_status, retry_after
from pytest_battery.edges.models.http_provider import HttpProvider, Limits
from pytest_battery.edges.models.limiter import Limiter
from pytest_battery.edges.models.patience import running_limit, waiting_its_turn
from pytest_battery.edges.models.providers import BUILT_IN, Credential, ProviderConfig
from pytest_battery.errors import CallError, ProviderError
from pytest_battery.values.calls import Message, Reply, Request
from pytest_battery.values.subjects import parse_subject

from .http_server import Answer, Asked, PlayingServer, playing

QUICK = Limits(attempts=3, connect=5, idle=0.3, total=0.6, body=20_000, first_wait=0.0)
OK = Answer(
    body={
        "model": "m-2026",
        "choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
    },
    headers={"x-request-id": "r1", "x-secret-thing": "no"},
)


def config(server: PlayingServer, **more: Any) -> ProviderConfig:
    return replace(ProviderConfig("lan", "openai-chat", f"{server.url}/v1", "LAN_KEY"), **more)


def ask(server: PlayingServer, subject: str = "lan/m", limits: Limits = QUICK, **more: Any) -> Reply:
    async def work() -> Reply:
        provider = HttpProvider(config(server, **more), environ={"LAN_KEY": "sk-abcdef123"}, limits=limits)
        try:
            request = Request(parse_subject(subject), (Message("user", "Say yes."),))
            async with provider.slot(request.subject):
                return await provider.complete(request)
        finally:
            await provider.aclose()

    return anyio.run(work)


def test_what_was_sent_is_what_is_shown() -> None:
    with playing([OK]) as server:
        reply = ask(server, "lan/m@temperature=0.7,max_tokens=20,stop=END", dialect="vllm")
    (asked,) = server.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == "Bearer sk-abcdef123"
    assert asked.json == {
        "model": "m",
        "messages": [{"role": "user", "content": "Say yes."}],
        "temperature": 0.7,
        "max_completion_tokens": 20,
        "stop": ["END"],
    }
    assert reply.observed == {"temperature": 0.7, "max_tokens": 20, "stop": "END"}
    assert reply.envelope["body"] == asked.json
    assert "sk-abcdef123" not in json.dumps([dict(reply.envelope), dict(reply.headers)])
    assert (reply.text, reply.model, reply.status) == ("yes", "m-2026", 200)
    assert (reply.usage.input, reply.usage.cache_read, reply.usage.output) == (6, 4, 2)
    assert reply.headers == {"x-request-id": "r1"}
    assert [attempt["status"] for attempt in reply.attempts] == [200]


ERROR = {"error": {"message": "no"}}
EVENTS = {"content-type": "text/event-stream"}
HALF = b'data: {"choices": [{"delta": {"content": "ye"}}]}\n\n'


@pytest.mark.parametrize(
    ("answer", "kind", "fault", "requests"),
    [
        (Answer(400, ERROR), "bad-request", "us", 1),
        (Answer(400, {"error": {"message": "maximum context length is 8192"}}), "context-length", "subject", 1),
        (Answer(401, ERROR), "key", "us", 1),
        (Answer(402, ERROR), "quota", "infrastructure", 1),
        (Answer(403, ERROR), "key", "us", 1),
        (Answer(404, ERROR), "unknown-model", "us", 1),
        (Answer(408, ERROR), "http-408", "infrastructure", 3),
        (Answer(409, ERROR), "http-409", "infrastructure", 3),
        (Answer(413, ERROR), "bad-request", "us", 1),
        (Answer(422, ERROR), "bad-request", "us", 1),
        (Answer(429, ERROR, {"retry-after": "0"}), "http-429", "infrastructure", 3),
        (Answer(429, ERROR, {"retry-after": "86400"}), "quota", "infrastructure", 1),
        (Answer(429, {"error": {"code": "insufficient_quota"}}), "quota", "infrastructure", 1),
        (Answer(500, ERROR), "http-500", "infrastructure", 3),
        (Answer(502, b"<html>"), "http-502", "infrastructure", 3),
        (Answer(503, ERROR, {"retry-after-ms": "1"}), "http-503", "infrastructure", 3),
        (Answer(529, ERROR), "http-529", "infrastructure", 3),
        (Answer(302, b"", {"location": "/x"}), "redirect", "us", 1),
        (Answer(200, b"<html>sign in</html>"), "not-json", "infrastructure", 3),
        (Answer(200, {"hello": 1}), "no-choices", "infrastructure", 3),
        (Answer(200, [1]), "not-the-api", "us", 1),
        (Answer(200, {"choices": None}), "no-choices", "infrastructure", 3),
        (Answer(200, {"choices": []}), "no-choices", "infrastructure", 3),
        (Answer(200, ERROR), "error-body", "infrastructure", 3),
        (Answer(200, {"error": {"code": 429, "message": "slow"}}), "http-429", "infrastructure", 3),
        (Answer(200, {"error": {"code": 401, "message": "key"}}), "key", "us", 1),
        (Answer(hold=True), "timeout", "infrastructure", 3),
        (Answer(close=True), "connection", "infrastructure", 3),
        (Answer(body=OK.body, close=True, sent=20), "connection", "infrastructure", 3),
        (Answer(pieces=[b"x" * 9_000] * 3), "too-long", "infrastructure", 1),
    ],
)
def test_each_row_of_the_table(answer: Answer, kind: str, fault: str, requests: int) -> None:
    with playing([answer]) as server, pytest.raises(CallError) as caught:
        ask(server)
    assert (caught.value.kind, caught.value.fault, len(server.asked)) == (kind, fault, requests)
    assert str(caught.value).startswith("lan")


@pytest.mark.parametrize(
    ("answer", "kind", "requests"),
    [
        (Answer(pieces=[HALF], headers=EVENTS), "stream-cut", 3),
        (Answer(pieces=[HALF], headers=EVENTS, close=True), "connection", 3),
        (Answer(pieces=[HALF], headers=EVENTS, hold=True), "timeout", 3),
        (Answer(pieces=[HALF, b'data: {"error": {"message": "overloaded"}}\n\n'], headers=EVENTS), "error-body", 3),
        (Answer(pieces=[HALF, b"data: {nonsense\n\n"], headers=EVENTS), "not-json", 3),
        (Answer(pieces=[b": ping\n"] * 5000, headers=EVENTS), "too-long", 1),
    ],
)
def test_each_row_of_the_table_in_a_stream(answer: Answer, kind: str, requests: int) -> None:
    with playing([answer]) as server, pytest.raises(CallError) as caught:
        ask(server, stream=True)
    assert (caught.value.kind, len(server.asked)) == (kind, requests)


def test_a_stream_is_kept_event_by_event() -> None:
    rest = b'data: {"choices": [{"delta": {"content": "s"}, "finish_reason": "stop"}]}\n\n'
    last = b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}\n\ndata: [DONE]\n\n'
    content = HALF + rest + last
    pieces = [content[start : start + 7] for start in range(0, len(content), 7)]
    with playing([Answer(pieces=pieces, headers=EVENTS)]) as server:
        reply = ask(server, stream=True)
    assert (reply.text, reply.stop_reason, reply.usage.output) == ("yes", "stop", 1)
    assert [name for name, _ in reply.raw["stream"]] == [None] * 4
    assert reply.raw["stream"][-1][1] == "[DONE]"
    assert server.asked[0].json["stream_options"] == {"include_usage": True}


def test_a_retry_is_an_attempt_of_the_same_call() -> None:
    with playing([Answer(503, ERROR), Answer(429, ERROR, {"retry-after": "0"}), OK]) as server:
        reply = ask(server)
    assert reply.text == "yes"
    assert [(one["status"], one["error"]) for one in reply.attempts] == [
        (503, "http-5xx"),
        (429, "http-429"),
        (200, None),
    ]
    assert len({asked.body for asked in server.asked}) == 1


def test_a_spent_quota_stops_the_subject() -> None:
    with playing([Answer(402, ERROR)]) as server:

        async def work() -> str:
            provider = HttpProvider(config(server), environ={"LAN_KEY": "sk-abcdef123"}, limits=QUICK)
            request = Request(parse_subject("lan/m"), (Message("user", "x"),))
            with pytest.raises(CallError, match="402"):
                await provider.complete(request)
            with pytest.raises(CallError, match="lan/m is not asked again in this session") as caught:
                async with provider.slot(request.subject):
                    raise AssertionError("the slot of a spent subject was given")
            await provider.aclose()
            return caught.value.kind

        assert anyio.run(work) == "quota"
    assert len(server.asked) == 1


def test_no_server_is_a_connection_that_failed() -> None:
    with playing([OK]) as server:
        pass
    with pytest.raises(CallError) as caught:
        ask(server)
    assert caught.value.kind == "connection"


# -- how many at once -----------------------------------------------------------------------------


def test_a_burst_of_refusals_leaves_as_many_as_were_let_through() -> None:
    """64 at once against 4: nothing is lost, and the limit settles at what the server takes."""

    def busy(asked: Asked) -> Answer:
        return replace(OK, delay=0.02) if server.at_once <= 4 else Answer(429, ERROR, {"retry-after": "0.01"})

    with playing(busy) as server:

        async def work() -> tuple[int, float]:
            provider = HttpProvider(
                config(server), environ={"LAN_KEY": "sk-abcdef123"}, limits=replace(QUICK, attempts=50, total=20)
            )
            request = Request(parse_subject("lan/m"), (Message("user", "x"),))
            done = 0

            async def one() -> None:
                nonlocal done
                reply = await provider.complete(request)
                done += reply.text == "yes"

            async with anyio.create_task_group() as group:
                for _ in range(200):
                    group.start_soon(one)
            await provider.aclose()
            return done, provider.limiter.limit

        done, limit = anyio.run(work)
    assert done == 200
    assert limit <= 16


def test_the_limit_falls_by_one_for_each_refusal_and_grows_again() -> None:
    limiter = Limiter(most=8)
    subject = parse_subject("lan/m")
    limiter.in_flight = 8
    for _ in range(3):
        limiter.failed(subject, of_status(429, {}, ""))
        limiter.in_flight -= 1
    assert limiter.limit == 5
    for _ in range(1000):
        limiter.succeeded()
    assert limiter.limit == 8


def test_a_server_that_fails_does_not_lower_the_limit() -> None:
    limiter = Limiter(most=8)
    limiter.in_flight = 8
    limiter.failed(parse_subject("lan/m"), of_status(503, {}, ""))
    assert limiter.limit == 8


def test_waiting_does_not_count_against_the_run() -> None:
    async def work() -> bool:
        with running_limit(0.05) as scope:
            with waiting_its_turn():
                await anyio.sleep(0.1)
            await anyio.lowlevel.checkpoint()
        return scope.cancelled_caught

    assert anyio.run(work) is False


# -- what the provider asks for -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_retry_after_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_retry_after_as_a_date() -> None:
    now = datetime(2026, 12, 1, 12, tzinfo=UTC)
    headers = {"retry-after": format_datetime(now + timedelta(seconds=30), usegmt=True)}
    assert retry_after(headers, now) == 30


def test_every_row_says_what_it_is() -> None:
    assert all(row.what and row.kind == kind for kind, row in TABLE.items())


# -- before any call ------------------------------------------------------------------------------


def provider(name: str, environ: dict[str, str], **more: Any) -> HttpProvider:
    return HttpProvider(replace(BUILT_IN[name], **more), environ=environ)


@pytest.mark.parametrize(
    ("name", "subject", "message"),
    [
        ("anthropic", "anthropic/claude-haiku-4-5@max_tokens=4000,temperature=0.5,thinking=low", "temperature"),
        ("anthropic", "anthropic/claude-haiku-4-5", "max_tokens"),
        ("openai", "openai/gpt-5@temperature=0", "temperature"),
        ("google", "google/gemini-2.5-pro:off", "off"),
    ],
)
def test_a_knob_that_cannot_be_honoured_is_refused_before_any_call(name: str, subject: str, message: str) -> None:
    with pytest.raises(ProviderError, match=message):
        provider(name, {}).identify(parse_subject(subject))


def test_a_missing_key_names_its_variable() -> None:
    with pytest.raises(ProviderError, match="anthropic: the variable ANTHROPIC_API_KEY holds no key"):
        provider("anthropic", {}).check(parse_subject("anthropic/claude-haiku-4-5"))


def test_vertex_names_the_variable_it_lacks() -> None:
    with pytest.raises(ProviderError, match="the variable GOOGLE_CLOUD_PROJECT is not set"):
        provider("vertex-anthropic", {}).check(parse_subject("vertex-anthropic/claude-haiku-4-5"))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("/nonexistent",), "cannot be run"),
        (("sh", "-c", "echo no >&2; exit 3"), "printed no token; it said: no"),
    ],
)
def test_a_token_command_that_fails_is_told(command: Sequence[str], message: str) -> None:
    credential = Credential(ProviderConfig("x", "anthropic", "http://h", key_command=tuple(command)))
    with pytest.raises(ProviderError, match=message):
        credential.value()


def test_a_token_command_is_asked_once_and_its_token_never_shown() -> None:
    credential = Credential(ProviderConfig("x", "anthropic", "http://h", key_command=("sh", "-c", "echo t-$$-abc")))
    first = credential.value()
    assert first is not None
    assert credential.value() == first
    assert first not in repr(credential)
