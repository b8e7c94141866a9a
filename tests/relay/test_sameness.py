"""Two sessions of one agent ask the same; what they ask for is told apart all the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_battery.edges.models.relay.sameness import DROPPED, IDS, Sameness
from pytest_battery.values.differences import first_difference
from pytest_battery.values.subjects import parse_subject

from .agent import APIS

SESSIONS = Path(__file__).with_name("sessions")
SUBJECT = parse_subject("lan/m")
AGENTS = [
    ("codex", "openai-responses"),
    ("claude-code", "anthropic"),
    ("pi-chat", "openai-chat"),
    ("pi-google", "google"),
]


def session(name: str) -> Any:
    """The second request of a real session, with its long texts and its list of tools cut."""
    return json.loads((SESSIONS / f"{name}.json").read_text("utf-8"))


@pytest.mark.parametrize(("agent", "api"), AGENTS)
def test_two_real_sessions_ask_the_same_with_other_sessions_paths_and_ids(agent: str, api: str) -> None:
    one, other = session(f"{agent}-1"), session(f"{agent}-2")
    assert one != other
    sameness = Sameness(api)
    assert first_difference(sameness.canonical(one), sameness.canonical(other)) == ""
    assert sameness.hash(SUBJECT, one) == Sameness(api).hash(SUBJECT, other)


@pytest.mark.parametrize(("agent", "api"), AGENTS)
def test_a_real_session_with_another_prompt_tool_or_result_is_another(agent: str, api: str) -> None:
    sameness = Sameness(api)
    mine = sameness.hash(SUBJECT, session(f"{agent}-1"))
    text = json.dumps(session(f"{agent}-1"))
    for found, put in (
        ("What does hello.txt say?", "What does it say?"),
        ("hello from the workspace", "hello from nowhere"),
        ("cat hello.txt", "cat other.txt"),
    ):
        assert found in text
        assert sameness.hash(SUBJECT, json.loads(text.replace(found, put))) != mine
    assert sameness.hash(SUBJECT, {**json.loads(text), "temperature": 0.25}) != mine
    assert sameness.hash(SUBJECT, {**json.loads(text), "tools": []}) != mine
    assert sameness.hash(parse_subject("lan/m@seed=1"), json.loads(text)) != mine


def said(api: str, text: str) -> dict[str, Any]:
    name = {"openai-responses": "input", "google": "contents"}.get(api, "messages")
    part: Any = [{"text": text}] if api == "google" else text
    return {name: [{"role": "user", "parts" if api == "google" else "content": part}]}


ALIKE = [
    ("Today is 2026-12-01.", "Today is 2027-01-31."),
    ("at 2026-12-01T10:00:00Z", "at 2026-12-01T10:00:00.123+01:00"),
    ("Current date: Tue Dec  1 2026", "Current date: Wed Dec 12 2026"),
    ("Tuesday, December 1, 2026", "Friday, May 22, 2026"),
    ("it is 12/1/2026, 10:00:01", "it is 1/31/2027, 23:59:59"),
    ("took 0.0312 seconds", "took 12 seconds"),
    ("real 0.5s, 12ms", "real 1.25s, 3ms"),
    ("in /tmp/pi-1f/x.log now", "in /tmp/pi-9c/x.log now"),
    ("in /var/tmp/a", "in /var/tmp/b"),
    ("session 01a231ed-6965-74b2-b632-b0541e146c2f", "session 01a231ed-6a5b-7b71-a733-6fd00b421c1c"),
    ("[main 1a2b3c4] done", "[main 9f8e7d6] done"),
    ("Chunk ID: 3f0273", "Chunk ID: 04c6cd"),
]
DIFFERENT = [
    ("page 12", "page 13"),
    ("v1.2.3", "v1.2.4"),
    ("12 items", "13 items"),
    ("/work/tmp/a", "/work/tmp/b"),
    ("port 8080", "port 8081"),
    ("an added facade", "an added cascade"),
    ("3 sheep", "4 sheep"),
    ("5 songs", "6 songs"),
    ("may 3 of them", "may 4 of them"),
]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_moments_durations_random_names_mean_nothing(api: str, one: str, other: str) -> None:
    sameness = Sameness(api)
    assert sameness.canonical(said(api, one)) == sameness.canonical(said(api, other))


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_other_numbers_and_names_do(one: str, other: str) -> None:
    sameness = Sameness("anthropic")
    assert sameness.canonical(said("anthropic", one)) != sameness.canonical(said("anthropic", other))


@pytest.mark.parametrize("api", APIS)
def test_the_fields_that_are_left_out_are_those_that_are_listed(api: str) -> None:
    body = {**said(api, "x"), **dict.fromkeys(DROPPED[api], "whatever"), "stop": ["END"]}
    assert Sameness(api).canonical(body) == {**said(api, "x"), "stop": ["END"]}


CALLS = {
    "openai-chat": lambda a, b, x, y: [
        {"role": "assistant", "tool_calls": [{"id": a, "function": {"arguments": x}}, {"id": b}]},
        {"role": "tool", "tool_call_id": b, "content": y},
    ],
    "openai-responses": lambda a, b, x, y: [
        {"type": "function_call", "id": "fc" + a, "call_id": a, "arguments": x},
        {"type": "function_call", "id": "fc" + b, "call_id": b, "arguments": "{}"},
        {"type": "function_call_output", "call_id": b, "output": y},
    ],
    "anthropic": lambda a, b, x, y: [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": a, "input": {"id": x}}, {"type": "tool_use", "id": b}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": b, "content": y}]},
    ],
    "google": lambda a, b, x, y: [
        {"role": "model", "parts": [{"functionCall": {"id": a, "args": {"id": x}}}, {"functionCall": {"id": b}}]},
        {"role": "user", "parts": [{"functionResponse": {"id": b, "response": {"id": y}}}]},
    ],
}
TALKS = {"openai-chat": "messages", "openai-responses": "input", "anthropic": "messages", "google": "contents"}
NAMES = st.text("abcxyz", min_size=1, max_size=6)


@given(api=st.sampled_from(APIS), names=st.lists(NAMES, min_size=4, max_size=4, unique=True), x=NAMES, y=NAMES, z=NAMES)
def test_ids_of_calls_mean_nothing_but_which_answer_is_whose(
    api: str, names: list[str], x: str, y: str, z: str
) -> None:
    a, b, c, d = names
    sameness, talk, calls = Sameness(api), TALKS[api], CALLS[api]
    mine = sameness.canonical({talk: calls(a, b, x, y)})
    assert mine == sameness.canonical({talk: calls(c, d, x, y)})
    swapped = json.loads(json.dumps(calls(a, b, x, y)[-1]).replace(f'"{b}"', f'"{a}"', 1)) if y != b else None
    if swapped is not None and b not in ("id", "role", "user", "tool"):
        assert mine != sameness.canonical({talk: [*calls(a, b, x, y)[:-1], swapped]})
    # what a tool is given or answers is content, whatever its keys are called
    if z not in (x, y):
        assert mine != sameness.canonical({talk: calls(a, b, z, y)})
        assert mine != sameness.canonical({talk: calls(a, b, x, z)})


def test_every_api_says_what_it_leaves_out() -> None:
    assert set(DROPPED) == set(IDS) == set(APIS)
