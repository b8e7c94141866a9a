"""What goes through the relay arrives as it was sent, and is recorded for what it is."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from pytest_battery.edges.models.relay import Caps, Relay
from pytest_battery.values.relayed import RelayedCall

from .agent import APIS, Agent, body_of, give_up, url_of
from .conftest import KEY, listening, relay_of
from .scripted import Scripted, Turn, scripted


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hello.txt").write_text("hello from the workspace\n")
    monkeypatch.chdir(tmp_path)


def run(relay: Relay, api: str = "openai-chat", **more: Any) -> Agent:
    async def work() -> Agent:
        async with listening(relay) as (client, base):
            return await Agent(api, base, **more).run(client)

    return anyio.run(work)


def ask(relay: Relay, api: str = "openai-chat", *, stream: bool = True, **more: Any) -> httpx.Response:
    async def work() -> httpx.Response:
        async with listening(relay) as (client, base):
            body = body_of(api, [], stream=stream)
            return await client.post(url_of(api, base, stream=stream), json=body, **more)

    return anyio.run(work)


def only(relay: Relay) -> RelayedCall:
    (call,) = relay.calls
    return call


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", APIS)
def test_an_agent_of_each_api_finds_its_way_and_its_numbers_are_the_relays(
    server: Scripted, api: str, stream: bool
) -> None:
    relay = relay_of(server, "ok", api)
    agent = run(relay, api, stream=stream)
    assert agent.text.strip() == "The file says: hello from the workspace."
    first, second = relay.calls
    assert (first.stop_reason, second.stop_reason) == ("tool-calls", "stop")
    assert isinstance(second.response, dict)
    assert ("stream" in second.response) == stream
    summary = relay.summary()
    assert (summary.calls, summary.turns, summary.failed, summary.helpers) == (2, 2, 0, 0)
    assert (summary.usage.input, summary.usage.cache_read, summary.usage.output) == (700, 1800, 52)
    assert (summary.cost.usd, summary.cost.incomplete, summary.stop_reason) == (0.5, False, "stop")
    assert (summary.models, summary.violations, summary.ended_by) == (("m",), (), None)


@pytest.mark.parametrize("api", APIS)
def test_the_provider_sees_the_subject_and_its_key_and_nothing_of_the_agents_own(server: Scripted, api: str) -> None:
    relay = relay_of(server, "text", api)
    mine = {"authorization": "Bearer agents", "x-api-key": "agents", "x-goog-api-key": "agents", "cookie": "agents"}
    ask(relay, api, headers={**mine, "anthropic-beta": "a-beta", "user-agent": "agents"})
    (asked,) = server.asked
    assert "agents" not in json.dumps(dict(asked.headers))
    assert KEY in (asked.headers.get("authorization", "") + asked.headers.get("x-api-key", "")) + asked.headers.get(
        "x-goog-api-key", ""
    )
    assert asked.headers["anthropic-beta"] == "a-beta"
    assert (asked.body.get("model") or asked.path.rpartition("/")[2].partition(":")[0]) == "m"
    envelope = only(relay).envelope
    assert envelope["body"] == asked.body
    assert KEY not in json.dumps(relay.calls[0].as_json())


def test_a_stream_comes_as_it_is_sent_and_who_hangs_up_hangs_up_on_the_provider(server: Scripted) -> None:
    relay = relay_of(server, "hang-stream")

    async def work() -> bytes:
        async with listening(relay) as (client, base):
            url, body = url_of("openai-chat", base), body_of("openai-chat", [])
            async with client.stream("POST", url, json=body) as response:
                first = await anext(response.aiter_bytes())
            await anyio.to_thread.run_sync(server.hung_up.wait, 10)
            return first

    assert b"chat.completion.chunk" in anyio.run(work)
    assert server.hung_up.is_set()
    call = only(relay)
    assert (call.kind, call.whole, call.cost.incomplete) == ("abandoned", False, True)
    assert call.response["stream"]


def test_an_agent_that_gives_up_before_an_answer_hangs_up_on_the_provider(server: Scripted) -> None:
    relay = relay_of(server, "hang")

    async def work() -> None:
        async with listening(relay) as (client, base):
            await give_up(client, base, server)

    anyio.run(work)
    assert server.hung_up.is_set()
    assert (only(relay).kind, only(relay).status) == ("abandoned", None)


ERRORS = [
    ("e400", 400, "bad-request", "us"),
    ("e401", 401, "key", "us"),
    ("e404", 404, "unknown-model", "us"),
    ("e429", 429, "http-429", "infrastructure"),
    ("e500", 500, "http-500", "infrastructure"),
    ("e529", 529, "http-529", "infrastructure"),
]


@pytest.mark.parametrize(("scenario", "status", "kind", "fault"), ERRORS)
@pytest.mark.parametrize("api", APIS)
def test_an_error_of_the_provider_goes_through_as_it_is(
    server: Scripted, api: str, scenario: str, status: int, kind: str, fault: str
) -> None:
    relay = relay_of(server, scenario, api)
    response = ask(relay, api)
    text = json.dumps(response.json())
    assert (response.status_code, len(server.asked)) == (status, 1)
    assert "pytest-battery" not in text
    assert response.headers.get("retry-after") == ("1" if status == 429 else None)
    call = only(relay)
    assert (call.kind, call.fault, call.status, call.response) == (kind, fault, status, response.json())
    assert call.reply is None
    assert relay.summary().failed == 1


@pytest.mark.parametrize("api", APIS)
def test_a_stream_that_is_cut_is_cut_for_the_agent(server: Scripted, api: str) -> None:
    relay = relay_of(server, "cut", api)
    with pytest.raises(httpx.RemoteProtocolError):
        ask(relay, api)
    call = only(relay)
    assert (call.kind, call.fault, call.whole) == ("connection", "infrastructure", False)
    assert call.response["stream"]


@pytest.mark.parametrize("api", APIS)
def test_an_answer_that_is_cut_is_cut_for_the_agent(server: Scripted, api: str) -> None:
    relay = relay_of(server, "cut", api)
    with pytest.raises(httpx.RemoteProtocolError):
        ask(relay, api, stream=False)
    assert (only(relay).kind, only(relay).whole) == ("connection", False)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", APIS)
def test_nonsense_goes_through_and_is_recorded_as_such(server: Scripted, api: str, stream: bool) -> None:
    relay = relay_of(server, "malformed", api)
    response = ask(relay, api, stream=stream)
    assert response.text == ("data: {this is no JSON\n\ndata: \x01\x02}\n\n" if stream else "<html>no JSON")
    assert (only(relay).kind, only(relay).whole) == ("not-json", True)


@pytest.mark.parametrize("api", APIS)
def test_silence_before_the_first_byte_is_bounded_and_told_in_the_apis_words(server: Scripted, api: str) -> None:
    relay = relay_of(server, "hang", api, caps=Caps(first_byte_seconds=0.3))
    response = ask(relay, api)
    assert response.status_code == 504
    assert "no byte of an answer within 0.3 s" in response.json()["error"]["message"]
    call = only(relay)
    assert (call.kind, call.fault, call.status) == ("timeout", "infrastructure", 504)
    assert call.cost.incomplete


def test_silence_inside_a_stream_is_bounded(server: Scripted) -> None:
    relay = relay_of(server, "hang-stream", caps=Caps(idle_seconds=0.5))
    with pytest.raises(httpx.RemoteProtocolError):
        ask(relay)
    assert only(relay).kind == "timeout"
    assert "no byte more" in str(only(relay).message)


@pytest.mark.parametrize("stream", [True, False])
def test_a_flood_is_stopped(server: Scripted, stream: bool) -> None:
    relay = relay_of(server, "flood", caps=Caps(answer_bytes=300_000))
    with pytest.raises(httpx.RemoteProtocolError):
        ask(relay, stream=stream)
    assert (only(relay).kind, only(relay).whole) == ("too-long", False)


def test_a_provider_that_is_not_there_is_a_bad_gateway() -> None:
    with scripted() as server:
        relay = relay_of(server)
    response = ask(relay)  # the server has gone
    assert (response.status_code, only(relay).kind) == (502, "connection")
    assert response.json()["error"]["code"] == "connection"


@pytest.mark.parametrize(
    ("scenario", "stop"), [("length", "length"), ("empty", "empty"), ("text", "stop"), ("think", "tool-calls")]
)
@pytest.mark.parametrize("api", APIS)
def test_how_an_answer_ended_is_known(server: Scripted, api: str, scenario: str, stop: str) -> None:
    relay = relay_of(server, scenario, api)
    ask(relay, api)
    assert (only(relay).stop_reason, only(relay).kind) == (stop, None)


def test_another_model_that_answers_is_a_violation(server: Scripted) -> None:
    relay = relay_of(server, "wrong-model")
    run(relay)
    assert relay.summary().models == ("another-model-7",)
    assert relay.summary().violations == ("call 1: another-model-7 answered, not m",)


def test_a_call_for_another_model_is_a_helpers_is_answered_by_the_subject_and_paid_by_the_run(server: Scripted) -> None:
    relay = relay_of(server, "text")

    async def work() -> None:
        async with listening(relay) as (client, base):
            for model in ("agent-1", "small-and-fast"):
                await client.post(url_of("openai-chat", base), json=body_of("openai-chat", [], model))

    anyio.run(work)
    assert [(call.asked_model, call.helper) for call in relay.calls] == [("agent-1", False), ("small-and-fast", True)]
    assert [asked.body["model"] for asked in server.asked] == ["m", "m"]
    summary = relay.summary()
    assert (summary.calls, summary.helpers, summary.turns, summary.cost.usd) == (2, 1, 1, 0.5)


def test_many_calls_at_once_are_all_recorded_and_never_more_go_out_than_may(server: Scripted) -> None:
    relay = relay_of(server, "text", caps=Caps(at_once=2))

    async def work() -> None:
        async with listening(relay) as (client, base), anyio.create_task_group() as group:
            for number in range(12):
                body = body_of("openai-chat", [{"role": "user", "content": str(number)}])
                group.start_soon(lambda body=body: client.post(url_of("openai-chat", base), json=body))

    anyio.run(work)
    assert [call.number for call in relay.calls] == list(range(1, 13))
    assert len({call.request_hash for call in relay.calls}) == 12
    assert relay.summary().cost.usd == 3.0


def test_a_call_survives_being_written_down(server: Scripted) -> None:
    relay = relay_of(server, "ok", "anthropic", subject="anthropic/claude-sonnet-4-5:low@max_tokens=9000")
    run(relay, "anthropic")
    for call in relay.calls:
        assert RelayedCall.from_json(json.loads(json.dumps(call.as_json()))) == call
        assert call.reply is not None
        assert call.reply.observed == {"thinking": "low", "max_tokens": 9000, "budget": 2048}


def test_an_answer_whose_tokens_are_not_told_is_of_unknown_usage(server: Scripted) -> None:
    relay = relay_of(server, "no-usage")
    run(relay)
    assert relay.summary().usage.output is None


def test_a_text_that_no_api_has_goes_through(server: Scripted) -> None:
    odd = "\u2028 \x85 \U0001f9ea"
    with scripted(odd=[Turn(odd)]) as server:
        relay = relay_of(server, "odd")
        assert run(relay).text.strip() == odd.strip()
    assert only(relay).text.strip() == odd.strip()


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic"])
def test_a_stream_is_over_with_its_end_marker_though_the_connection_stays_open(server: Scripted, api: str) -> None:
    relay = relay_of(server, "hold", api)
    assert ask(relay, api).status_code == 200
    assert (only(relay).kind, only(relay).whole, only(relay).text.strip()) == (None, True, "That is all.")


def test_an_agent_that_is_slow_to_take_an_answer_is_not_the_providers_silence(server: Scripted) -> None:
    relay = relay_of(server, "flood", caps=Caps(idle_seconds=0.5, answer_bytes=10**9))
    small = [(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)]

    async def work() -> bool:
        transport = httpx.AsyncHTTPTransport(socket_options=small)
        async with listening(relay, buffered=4096) as (_, base), httpx.AsyncClient(transport=transport) as client:
            url, body = url_of("openai-chat", base), body_of("openai-chat", [])
            async with client.stream("POST", url, json=body) as response:
                parts = response.aiter_raw()
                await anext(parts)
                with anyio.move_on_after(1.2):  # nothing is taken meanwhile
                    await anyio.sleep_forever()
                return not relay.calls

    assert anyio.run(work)
