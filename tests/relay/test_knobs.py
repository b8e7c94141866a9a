"""A subject's knobs go before what the agent says, and are shown as they went over the wire."""

from __future__ import annotations

import copy
import json
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_battery.edges.models.providers import BUILT_IN, ProviderConfig
from pytest_battery.edges.models.relay import HostedWording, LocalWording, Recording, Relay, speaks
from pytest_battery.errors import ProviderError
from pytest_battery.values.subjects import parse_subject

from .agent import body_of, url_of
from .conftest import listening, relay_of
from .scripted import Scripted


def put(provider: str, subject: str, body: dict[str, Any], **more: Any) -> dict[str, Any]:
    config = ProviderConfig(
        **{**{name: getattr(BUILT_IN[provider], name) for name in ("name", "api", "base_url", "dialect")}, **more}
    )
    before = copy.deepcopy(body)
    changed = HostedWording(config).put(parse_subject(subject), body)
    assert body == before, "what the agent said is not changed in its own object"
    return changed


CASES: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    # what the subject does not name is the agent's
    ("openai", "openai/gpt-5.1", {"temperature": 0.3, "n": 1}, {"temperature": 0.3, "n": 1}),
    # the same knob under another field of the API is taken out
    (
        "openai",
        "openai/gpt-5.1@max_tokens=777",
        {"max_tokens": 2048, "top_p": 0.9},
        {"max_completion_tokens": 777, "top_p": 0.9},
    ),
    ("ollama", "ollama/llama3", {"max_completion_tokens": 9}, {"max_completion_tokens": 9}),
    ("ollama", "ollama/llama3@max_tokens=5", {"max_completion_tokens": 9}, {"max_tokens": 5}),
    ("openai", "openai/gpt-5:low", {"reasoning_effort": "high"}, {"reasoning_effort": "low"}),
    # what is no knob stays beside it
    (
        "openai-responses",
        "openai-responses/gpt-5:low",
        {"reasoning": {"effort": "high", "summary": "auto"}, "include": ["reasoning.encrypted_content"]},
        {"reasoning": {"effort": "low", "summary": "auto"}, "include": ["reasoning.encrypted_content"]},
    ),
    (
        "openai-responses",
        "openai-responses/gpt-5@max_tokens=100",
        {"reasoning": {"effort": "high"}},
        {"reasoning": {"effort": "high"}, "max_output_tokens": 100},
    ),
    # Claude Code's own adaptive thinking and effort, told otherwise
    (
        "anthropic",
        "anthropic/claude-sonnet-4-5:low@max_tokens=9000",
        {
            "max_tokens": 32000,
            "thinking": {"type": "adaptive", "display": "updates"},
            "output_config": {"effort": "high"},
            "temperature": 1,
        },
        {"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 2048, "display": "updates"}},
    ),
    (
        "anthropic",
        "anthropic/claude-sonnet-4-5:off@max_tokens=9000",
        {
            "max_tokens": 32000,
            "thinking": {"type": "enabled", "budget_tokens": 31999, "display": "summarized"},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        },
        {"max_tokens": 9000, "thinking": {"type": "disabled"}},
    ),
    (
        "anthropic",
        "anthropic/claude-opus-5:high@max_tokens=9000",
        {"thinking": {"type": "enabled", "budget_tokens": 3000}, "output_config": {"format": {"type": "x"}}},
        {
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": "high", "format": {"type": "x"}},
            "max_tokens": 9000,
        },
    ),
    # a temperature is refused while the model thinks: it was asked for, the agent's thinking was not
    (
        "anthropic",
        "anthropic/claude-sonnet-4-5@max_tokens=9000,temperature=0.2",
        {"thinking": {"type": "enabled", "budget_tokens": 2000}, "top_p": 0.9, "max_tokens": 1},
        {"max_tokens": 9000, "temperature": 0.2},
    ),
    (
        "google",
        "google/gemini-2.5-flash:off@temperature=0",
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": -1, "includeThoughts": True}, "topP": 0.5}},
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}, "topP": 0.5, "temperature": 0}},
    ),
    ("google", "google/gemini-2.5-flash@seed=7", {"generationConfig": None}, {"generationConfig": {"seed": 7}}),
]


@pytest.mark.parametrize(("provider", "subject", "sent", "expected"), CASES)
def test_what_is_asked_for_replaces_what_contradicts_it(
    provider: str, subject: str, sent: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert put(provider, subject, sent) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=5),
    lambda inner: st.dictionaries(st.sampled_from(["type", "effort", "budget_tokens", "thinkingConfig", "x"]), inner),
    max_leaves=6,
)
BODIES = st.dictionaries(
    st.sampled_from(
        [
            "thinking",
            "output_config",
            "reasoning",
            "reasoning_effort",
            "generationConfig",
            "temperature",
            "top_p",
            "max_tokens",
            "max_completion_tokens",
            "max_output_tokens",
            "context_management",
            "text",
            "stop",
        ]
    ),
    JSON,
)
SUBJECTS = [
    "openai/gpt-5:low@max_tokens=50",
    "openai-responses/gpt-5.1:off@max_tokens=50",
    "anthropic/claude-sonnet-4-5:high@max_tokens=20000,stop=END",
    "anthropic/claude-sonnet-4-5@budget=2000,max_tokens=20000",
    "google/gemini-2.5-flash:low@temperature=0.5,max_tokens=9",
]


@given(body=BODIES, subject=st.sampled_from(SUBJECTS))
def test_whatever_an_agent_says_the_knobs_are_on_the_wire(body: dict[str, Any], subject: str) -> None:
    parsed = parse_subject(subject)
    wording = HostedWording(BUILT_IN[parsed.provider])
    seen = wording.observed(parsed, wording.put(parsed, body))
    asked = {**({"thinking": parsed.level} if parsed.level else {}), **dict(parsed.knobs)}
    assert {name: str(seen.get(name)) for name in asked} == asked


def test_a_local_models_knobs_are_written_as_its_calls_have_them() -> None:
    wording, subject = LocalWording(), parse_subject("local/smollm2-135m@max_tokens=5,temperature=0")
    body = wording.put(subject, {"max_completion_tokens": 9, "temperature": 1, "messages": []})
    assert body == {"max_tokens": 5, "temperature": 0, "messages": [], "cache_prompt": True}
    assert wording.observed(subject, body) == {"max_tokens": 5, "temperature": 0}
    with pytest.raises(ProviderError, match="don't think"):
        wording.check(parse_subject("local/smollm2-135m:low"))


def test_a_knob_that_cannot_be_honoured_is_refused_before_the_run(server: Scripted) -> None:
    for subject, said in (("lan/m@max_tokens=-4", "max_tokens"), ("lan/m@nonsense=1", "nonsense")):
        with pytest.raises(ProviderError, match=said):
            relay_of(server, subject=subject).check()
    wording = HostedWording(ProviderConfig("lan", "anthropic", server.url))
    with pytest.raises(ProviderError, match="demands max_tokens"):
        Relay(parse_subject("lan/m"), Recording(wording, ())).check()
    relay_of(server, subject="lan/m@max_tokens=4").check()


def test_an_agent_that_asks_by_another_api_is_refused_before_the_run() -> None:
    speaks(BUILT_IN["anthropic"], "anthropic")
    with pytest.raises(ProviderError, match=r"the agent asks by the API openai-responses, and the provider anthropic"):
        speaks(BUILT_IN["anthropic"], "openai-responses")


def test_what_was_on_the_wire_is_what_the_summary_shows(server: Scripted) -> None:
    relay = relay_of(server, "text", subject="lan/m@max_tokens=50,temperature=0.5")

    async def work() -> None:
        async with listening(relay) as (client, base):
            asked = {**body_of("openai-chat", []), "max_completion_tokens": 9}
            await client.post(url_of("openai-chat", base), json={**asked, "seed": 3})

    anyio.run(work)
    sent = server.asked[0].body
    assert (sent["temperature"], sent["max_tokens"], "max_completion_tokens" in sent) == (0.5, 50, False)
    assert relay.summary().observed == ({"max_tokens": 50, "temperature": 0.5, "seed": 3},)
    assert relay.summary().violations == ()
    assert json.dumps(relay.calls[0].as_json()["observed"])
