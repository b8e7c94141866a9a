"""A run is made once more from its recording, with no provider."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from pytest_battery.edges.models.relay import Caps, HostedWording, Recording, Relay
from pytest_battery.edges.models.relay.recordings import parts_of
from pytest_battery.edges.models.sse import Events
from pytest_battery.values.relayed import RelayedCall
from pytest_battery.values.subjects import parse_subject

from .agent import APIS, Agent, body_of, give_up, url_of
from .conftest import SUBJECTS, config_of, listening, relay_of
from .scripted import Scripted


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hello.txt").write_text("hello from the workspace\n")
    monkeypatch.chdir(tmp_path)


def kept(calls: Sequence[RelayedCall]) -> list[RelayedCall]:
    """As they come back from the disk."""
    return [RelayedCall.from_json(json.loads(json.dumps(call.as_json()))) for call in calls]


def replay_of(server: Scripted, api: str, calls: Sequence[RelayedCall], **more: Any) -> Relay:
    recording = Recording(HostedWording(config_of(server, "ok", api)), kept(calls))
    return Relay(parse_subject(SUBJECTS[api]), recording, agent_model="agent-1", **more)


def run(relay: Relay, api: str, prompt: str = "What does hello.txt say?", **more: Any) -> Agent:
    async def work() -> Agent:
        async with listening(relay) as (client, base):
            return await Agent(api, base, **more).run(client, prompt)

    return anyio.run(work)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", APIS)
def test_a_replayed_agent_gets_the_same_answers_and_the_run_the_same_numbers(
    server: Scripted, api: str, stream: bool
) -> None:
    live = relay_of(server, "ok", api)
    then = run(live, api, stream=stream)
    asked = len(server.asked)
    again = replay_of(server, api, live.calls)
    again.check()
    now = run(again, api, stream=stream)
    assert (now.text, now.said) == (then.text, then.said)
    assert again.calls == live.calls
    assert again.summary() == live.summary()
    assert len(server.asked) == asked, "nobody was asked"


@pytest.mark.parametrize("scenario", ["cut", "malformed", "e401", "e500", "length", "empty", "hang", "hang-stream"])
@pytest.mark.parametrize("api", APIS)
def test_what_went_wrong_goes_wrong_again(server: Scripted, api: str, scenario: str) -> None:
    def outcome(relay: Relay) -> tuple[Any, ...]:
        async def work() -> tuple[Any, ...]:
            async with listening(relay) as (client, base):
                try:
                    response = await client.post(url_of(api, base), json=body_of(api, []))
                except httpx.RemoteProtocolError:
                    return ("cut",)
                text = response.text
                return response.status_code, text if "stream" in response.headers["content-type"] else json.loads(text)

        return anyio.run(work)

    live = relay_of(server, scenario, api, caps=Caps(first_byte_seconds=0.3, idle_seconds=0.3))
    then = outcome(live)
    again = replay_of(server, api, live.calls)
    assert outcome(again) == then
    assert [(call.kind, call.fault, call.message) for call in again.calls] == [
        (call.kind, call.fault, call.message) for call in live.calls
    ]


def test_repeats_of_one_request_each_have_their_own_answer(server: Scripted) -> None:
    live = relay_of(server, "text")

    async def thrice(relay: Relay) -> list[str]:
        async with listening(relay) as (client, base):
            url, body = url_of("openai-chat", base), body_of("openai-chat", [])
            return [(await client.post(url, json=body)).text for _ in range(3)]

    then = anyio.run(thrice, live)
    assert len(set(then)) == 3
    again = replay_of(server, "openai-chat", live.calls)
    assert anyio.run(thrice, again) == then
    last = replay_of(server, "openai-chat", live.calls[:2])
    anyio.run(thrice, last)
    assert last.summary().missing == ("call 3 is not in the recording: this was asked 2 times, and is asked once more",)


@pytest.mark.parametrize("api", APIS)
def test_what_was_not_recorded_is_an_error_that_names_the_first_difference(server: Scripted, api: str) -> None:
    live = relay_of(server, "ok", api)
    run(live, api)
    again = replay_of(server, api, live.calls)
    agent = run(again, api, "What does goodbye.txt say?")
    assert agent.error is not None
    assert (agent.error.status_code, agent.error.headers["x-should-retry"]) == (400, "false")
    (missing,) = again.summary().missing
    assert missing in agent.error.json()["error"]["message"]
    assert missing.startswith("call 1 is not in the recording: nearest is call 1: ")
    assert "recorded 'What does hello.txt say?', asked 'What does goodbye.txt say?'" in missing
    assert again.calls == ()


def test_the_nearest_recorded_request_is_the_one_that_says_most_alike(server: Scripted) -> None:
    live = relay_of(server, "ok")
    run(live, "openai-chat")
    talk = json.loads(json.dumps(live.calls[1].envelope["body"]["messages"]))
    talk[-1]["content"] = "something else entirely"

    async def work(relay: Relay) -> None:
        async with listening(relay) as (client, base):
            await client.post(url_of("openai-chat", base), json=body_of("openai-chat", talk))

    again = replay_of(server, "openai-chat", live.calls)
    anyio.run(work, again)
    (missing,) = again.summary().missing
    assert "nearest is call 2: messages[2].content differs" in missing


def test_a_recording_of_nothing_and_one_of_another_subject_say_so(server: Scripted) -> None:
    again = replay_of(server, "openai-chat", ())
    run(again, "openai-chat")
    assert again.summary().missing == ("call 1 is not in the recording: no call was recorded",)
    live = relay_of(server, "ok")
    run(live, "openai-chat")
    other = [replace(call, subject=parse_subject("lan/n"), request_hash="gone") for call in live.calls]
    again = replay_of(server, "openai-chat", other)
    run(again, "openai-chat")
    assert "lan/n was asked, and now lan/m" in again.summary().missing[0]


def test_a_request_is_still_found_when_its_evidence_lost_a_credential(server: Scripted) -> None:
    live = relay_of(server, "ok")
    run(live, "openai-chat", "Is sk-12345 a key?")
    text = json.dumps([call.as_json() for call in live.calls]).replace("sk-12345", "[redacted:A_KEY]")
    calls = [RelayedCall.from_json(document) for document in json.loads(text)]
    again = replay_of(server, "openai-chat", calls)
    assert run(again, "openai-chat", "Is sk-12345 a key?").error is None


def test_a_call_the_agent_had_given_up_is_broken_off_again(server: Scripted) -> None:
    live = relay_of(server, "hang")

    async def gives_up() -> None:
        async with listening(live) as (client, base):
            await give_up(client, base, server)

    async def asks_again(relay: Relay) -> int:
        async with listening(relay) as (client, base):
            return (await client.post(url_of("openai-chat", base), json=body_of("openai-chat", []))).status_code

    anyio.run(gives_up)
    again = replay_of(server, "openai-chat", live.calls)
    assert anyio.run(asks_again, again) == 500
    assert again.calls[0].kind == "abandoned"


def test_the_events_of_a_stream_are_given_out_as_they_came() -> None:
    seen = [["a", '{"x": 1}'], [None, "two\nlines"], [None, "[DONE]"]]
    content = b"".join(parts_of({"stream": seen}))
    assert [list(event) for event in Events().feed(content)] == seen
