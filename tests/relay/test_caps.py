"""A run that has used what it may is told so, and its relay remembers why."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from pytest_battery.edges.models.relay import Caps, HttpUpstream, Relay
from pytest_battery.errors import ProviderError
from pytest_battery.values.subjects import Subject, parse_subject
from pytest_battery.values.usage import Cost, Usage

from .agent import APIS, body_of, url_of
from .conftest import KEY, config_of, listening, relay_of
from .scripted import Scripted


def asks(relay: Relay, count: int, api: str = "openai-chat") -> list[httpx.Response]:
    async def work() -> list[httpx.Response]:
        async with listening(relay) as (client, base):
            return [await client.post(url_of(api, base), json=body_of(api, [])) for _ in range(count)]

    return anyio.run(work)


@pytest.mark.parametrize(
    ("caps", "answered", "by", "said"),
    [
        (Caps(calls=2), 2, "calls", "may make 2 calls"),
        (Caps(tokens=2000), 2, "tokens", "may use 2000 tokens, and has used 2480"),
        (Caps(usd=0.5), 2, "usd", "may cost \\$0.5000, and has cost \\$0.5000"),
        (Caps(kept_bytes=1), 1, "bytes", "more than 1 bytes"),
    ],
)
@pytest.mark.parametrize("api", APIS)
def test_the_call_after_the_last_is_refused_in_the_words_of_its_api(
    server: Scripted, api: str, caps: Caps, answered: int, by: str, said: str
) -> None:
    relay = relay_of(server, "text", api, caps=caps)
    *before, last = asks(relay, answered + 1, api)
    assert [response.status_code for response in before] == [200] * answered
    assert (last.status_code, last.headers["x-should-retry"]) == (403, "false")
    body = last.json()
    assert body["error"]["message"].startswith("pytest-battery: ")
    assert said.replace("\\", "") in body["error"]["message"]
    shape = {"anthropic": body.get("type"), "google": body["error"].get("status")}.get(api, body["error"].get("type"))
    assert shape == {"anthropic": "error", "google": "PERMISSION_DENIED"}.get(api, "permission_error")
    summary = relay.summary()
    assert (summary.ended_by, summary.calls, summary.refused) == (by, answered, 1)
    assert len(server.asked) == answered


def test_a_run_that_stays_within_its_caps_is_not_ended_by_one(server: Scripted) -> None:
    relay = relay_of(server, "text", caps=Caps(calls=2, tokens=2480, usd=0.5))
    asks(relay, 2)
    assert relay.ended_by is None


def test_a_limit_of_money_without_a_price_is_refused_before_the_run(server: Scripted) -> None:
    for price in (None, lambda *_: Cost()):
        with pytest.raises(ProviderError, match="what the model costs is not known"):
            relay_of(server, caps=Caps(usd=1.0), price=price).check()
        relay_of(server, price=price).check()
    relay_of(server, caps=Caps(usd=1.0)).check()


def test_an_answer_without_its_price_or_its_tokens_ends_a_run_that_is_limited_in_them(server: Scripted) -> None:
    def by_usage(subject: Subject, usage: Usage, model: str | None) -> Cost:
        return Cost(usd=None if usage.output is None else 0.1)

    for caps, by in ((Caps(usd=1.0), "unpriced"), (Caps(tokens=9), "uncounted"), (Caps(), None)):
        relay = relay_of(server, "no-usage", caps=caps, price=by_usage)
        relay.check()
        asks(relay, 2)
        assert (relay.ended_by, relay.summary().calls) == (by, 2 if by is None else 1)


def test_failures_count_as_calls_and_cost_nothing(server: Scripted) -> None:
    relay = relay_of(server, "e500", caps=Caps(calls=3, usd=0.1, tokens=5))
    statuses = [response.status_code for response in asks(relay, 4)]
    assert statuses == [500, 500, 500, 403]
    summary = relay.summary()
    assert (summary.failed, summary.cost.usd, summary.cost.incomplete, summary.stop_reason) == (3, 0.0, False, None)


@pytest.mark.parametrize("scenario", ["hang", "hang-stream"])
def test_a_deadline_ends_what_is_on_its_way_and_what_follows(server: Scripted, scenario: str) -> None:
    relay = relay_of(server, scenario, caps=Caps(seconds=1.0))

    async def work() -> None:
        async with listening(relay) as (client, base):
            url, body = url_of("openai-chat", base), body_of("openai-chat", [])
            if scenario == "hang":
                assert (await client.post(url, json=body)).json()["error"]["code"] == "deadline"
            else:
                with pytest.raises(httpx.RemoteProtocolError):
                    await client.post(url, json=body)
            assert (await client.post(url, json=body)).status_code == 403

    anyio.run(work)
    assert relay.ended_by == "deadline"
    assert [(call.kind, call.cost.incomplete) for call in relay.calls] == [("deadline", True)]


def test_a_call_is_bounded_whatever_trickles_in(server: Scripted) -> None:
    relay = relay_of(server, "flood", caps=Caps(call_seconds=0.3, answer_bytes=10**12))

    async def work() -> None:
        async with listening(relay) as (client, base):
            with pytest.raises(httpx.RemoteProtocolError):
                await client.post(url_of("openai-chat", base), json=body_of("openai-chat", []))

    anyio.run(work)
    assert (relay.calls[0].kind, relay.calls[0].message) == ("timeout", "no whole answer within 0.3 s")


def refused(relay: Relay, content: bytes, **headers: str) -> httpx.Response:
    async def work() -> httpx.Response:
        async with listening(relay) as (client, base):
            return await client.post(url_of("openai-chat", base), content=content, headers=headers)

    return anyio.run(work)


@pytest.mark.parametrize(
    ("content", "headers", "status", "said"),
    [
        (b"{", {}, 400, "no JSON"),
        (b"[1]", {}, 400, "not an object"),
        (b"[" * 1_900, {}, 400, "no JSON"),
        (b'{"x": ' + b"[" * 200 + b"]" * 200 + b"}", {}, 400, "100 levels"),
        (b'{"x": NaN}', {}, 400, "NaN"),
        (b'{"x": 1e999}', {}, 400, "1e999"),
        (b" " * 2001, {}, 413, "2000 bytes"),
        (b"\x1f\x8bnonsense", {"content-encoding": "gzip"}, 400, "no gzip"),
        (b"(\xb5/\xfd", {"content-encoding": "zstd"}, 415, "zstd"),
    ],
)
def test_a_request_that_cannot_be_read_is_refused_and_is_no_call(
    server: Scripted, content: bytes, headers: dict[str, Any], status: int, said: str
) -> None:
    relay = relay_of(server, caps=Caps(request_bytes=2000))
    response = refused(relay, content, **headers)
    assert (response.status_code, relay.calls, server.asked) == (status, (), [])
    assert said in response.json()["error"]["message"]


def test_a_packed_request_is_unpacked_within_bounds(server: Scripted) -> None:
    relay = relay_of(server, "text", caps=Caps(request_bytes=2000))
    body = b'{"model": "agent-1", "messages": []}'
    assert refused(relay, gzip.compress(body), **{"content-encoding": "gzip"}).status_code == 200
    relay = relay_of(server, "text", caps=Caps(request_bytes=2000))
    assert refused(relay, zlib.compress(body), **{"content-encoding": "deflate"}).status_code == 200
    relay = relay_of(server, "text", caps=Caps(request_bytes=2000))
    cut = refused(relay, gzip.compress(body)[:-9], **{"content-encoding": "gzip"})
    assert "the gzip of the body is cut off" in cut.json()["error"]["message"]
    relay = relay_of(server, "text", caps=Caps(request_bytes=2000))
    bomb = gzip.compress(b" " * 10_000_000)
    assert refused(relay, bomb[:1900] if len(bomb) > 1900 else bomb, **{"content-encoding": "gzip"}).status_code == 413


def test_waiting_for_a_turn_at_the_provider_is_not_the_runs_time(server: Scripted) -> None:
    @asynccontextmanager
    async def slot(subject: Subject) -> AsyncIterator[None]:
        await anyio.sleep_until(until + 1.0)  # when the run's time would be over
        yield

    upstream = HttpUpstream(config_of(server, "text", "openai-chat"), environ={"LAN_KEY": KEY}, slot=slot)
    relay = Relay(parse_subject("lan/m"), upstream, agent_model="agent-1", caps=Caps(seconds=1.0))
    until = 0.0

    async def work() -> httpx.Response:
        nonlocal until
        async with listening(relay) as (client, base):
            until = anyio.current_time()
            return await client.post(url_of("openai-chat", base), json=body_of("openai-chat", []))

    assert anyio.run(work).status_code == 200
    assert relay.ended_by is None
