"""Providers as the relay asks them: keys, turns, and models of this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from pytest_battery.edges.models.http_provider import HttpProvider
from pytest_battery.edges.models.llama_host import LlamaHost
from pytest_battery.edges.models.providers import ProviderConfig
from pytest_battery.edges.models.relay import HttpUpstream, LocalUpstream, Relay, local_price
from pytest_battery.edges.models.relay.asking import asking_of
from pytest_battery.edges.models.relay.proof import is_same_model
from pytest_battery.edges.models.relay.routes import route_of
from pytest_battery.edges.models.weights import local_model, verified
from pytest_battery.errors import ProviderError
from pytest_battery.values.subjects import parse_subject

from .agent import body_of, url_of
from .conftest import KEY, config_of, listening, relay_of
from .scripted import Scripted, Turn, scripted


def ask(relay: Relay, count: int = 1, **more: Any) -> list[httpx.Response]:
    async def work() -> list[httpx.Response]:
        async with listening(relay) as (client, base):
            body = {**body_of("openai-chat", [{"role": "user", "content": "Say yes."}], tools=False), **more}
            return [await client.post(url_of("openai-chat", base), json=body) for _ in range(count)]

    return anyio.run(work)


def test_a_provider_without_its_key_is_refused_before_the_run(server: Scripted) -> None:
    upstream = HttpUpstream(config_of(server, "ok", "openai-chat"), environ={})
    with pytest.raises(ProviderError, match="the variable LAN_KEY holds no key"):
        Relay(parse_subject("lan/m"), upstream).check()


def test_headers_of_the_provider_go_along_and_are_not_shown(server: Scripted) -> None:
    config = config_of(server, "text", "openai-chat", headers={"X-Team": "evals", "Authorization": "Bearer other"})
    relay = Relay(parse_subject("lan/m"), HttpUpstream(config, environ={"LAN_KEY": KEY}))
    ask(relay)
    assert server.asked[0].headers["x-team"] == "evals"
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert relay.calls[0].envelope["headers"] == {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("base_url", "kind"), [("http://host:port", "not-sent"), ("gopher://x", "not-sent"), ("https", "tls")]
)
def test_a_base_url_that_leads_nowhere_is_a_bad_gateway(server: Scripted, base_url: str, kind: str) -> None:
    there = server.url.replace("http://", "https://") if base_url == "https" else base_url
    relay = Relay(parse_subject("lan/m"), HttpUpstream(ProviderConfig("lan", "openai-chat", there), environ={}))
    (response,) = ask(relay)
    assert (response.status_code, response.json()["error"]["code"]) == (502, kind)
    assert (relay.calls[0].kind, relay.calls[0].fault) == (kind, "us")


def test_a_token_that_has_run_out_is_replaced_in_the_call(server: Scripted, tmp_path: Path) -> None:
    printed = tmp_path / "count"
    script = (
        f"import pathlib; p = pathlib.Path({str(printed)!r}); p.open('a').write('x'); print('token-' + p.read_text())"
    )
    config = ProviderConfig("lan", "openai-chat", server.at("e401") + "/v1", key_command=(sys.executable, "-c", script))
    relay = Relay(parse_subject("lan/m"), HttpUpstream(config, environ={}))
    (response,) = ask(relay)
    assert response.status_code == 401
    assert [asked.headers["authorization"] for asked in server.asked] == ["Bearer token-x", "Bearer token-xx"]
    assert len(relay.calls) == 1


def test_vertex_has_the_model_in_the_path_and_not_in_the_body(server: Scripted) -> None:
    config = ProviderConfig("vertex", "anthropic", server.url, "LAN_KEY", vertex=("PROJECT", "LOCATION"))
    environ = {"LAN_KEY": KEY, "PROJECT": "p", "LOCATION": "l"}
    upstream, subject = HttpUpstream(config, environ=environ), parse_subject("vertex/m@max_tokens=9")
    asking = asking_of(
        body_of("anthropic", []),
        route_of("POST", "/v1/messages"),
        subject=subject,
        wording=upstream.wording,
        agent_model="agent-1",
    )
    sent = upstream.outgoing(subject, asking, {})
    assert sent.url.endswith("/v1/projects/p/locations/l/publishers/anthropic/models/m:streamRawPredict")
    assert "model" not in json.loads(sent.content)
    assert json.loads(sent.content)["anthropic_version"] == "vertex-2023-10-16"
    with pytest.raises(ProviderError, match="the variable PROJECT is not set"):
        HttpUpstream(config, environ={"LAN_KEY": KEY}).check(subject)


def test_calls_of_agents_and_other_calls_take_turns(server: Scripted) -> None:
    """The provider's own limiter and slots are used: what one is told of a quota, the other heeds."""
    config = config_of(server, "e429", "openai-chat")
    provider = HttpProvider(config, environ={"LAN_KEY": KEY})
    held: list[str] = []

    @asynccontextmanager
    async def slot(subject: Any) -> Any:
        held.append(subject.key)
        yield

    upstream = HttpUpstream(config, credential=provider.credential, limiter=provider.limiter, slot=slot)
    ask(Relay(parse_subject("lan/m"), upstream))
    assert (provider.limiter.refusals, provider.limiter.in_flight, held) == (1, 0, ["lan/m"])


def test_a_spent_quota_is_told_without_asking_again() -> None:
    with scripted(spent=[Turn("insufficient_quota", status=429)]) as other:
        relay = relay_of(other, "spent")
        first, second = ask(relay, 2)
        assert (first.status_code, second.status_code, len(other.asked)) == (429, 429, 1)
    assert [call.kind for call in relay.calls] == ["quota", "quota"]
    assert "not asked again in this session" in second.json()["error"]["message"]


@pytest.mark.parametrize(
    ("asked", "answered", "same"),
    [
        ("gpt-5", "gpt-5-2025-08-07", True),
        ("gpt-4", "gpt-4-0613", True),
        ("claude-haiku-4-5", "claude-haiku-4-5-20251001", True),
        ("claude-haiku-4-5@20251001", "claude-haiku-4-5-20251001", True),
        ("anthropic/claude-haiku-4.5", "claude-haiku-4-5-20251001", True),
        ("qwen/qwen3-coder:free", "qwen/qwen3-coder", True),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022", True),
        ("llama3.2", "llama3.2:latest", True),
        ("llama3.2:3b", "llama3.2:3b", True),
        ("m", "M", True),
        ("gpt-5", "gpt-5-mini", False),
        ("gpt-5", "gpt-5.1", False),
        ("gpt-4-0613", "gpt-4-0314", False),
        ("gpt-4-0613", "gpt-4", False),
        ("llama3.2:3b", "llama3.2:1b", False),
        ("m", "another-model-7", False),
    ],
)
def test_an_id_with_a_date_is_the_same_model_and_another_size_is_not(asked: str, answered: str, same: bool) -> None:
    assert is_same_model(asked, answered) == same


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LlamaHost]:
    """A server of the test's own; a machine without the weights fails with the command that fetches them."""
    home = tmp_path / "runtime"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home))
    try:
        verified(local_model("smollm2-135m"))
    except ProviderError as error:
        pytest.fail(str(error))
    running = LlamaHost(local_model("smollm2-135m"))
    yield running
    running.close()


def test_a_model_of_this_machine_answers_an_agent_and_costs_nothing(host: LlamaHost) -> None:
    subject = parse_subject("local/smollm2-135m@max_tokens=4,seed=1,temperature=0")
    relay = Relay(subject, LocalUpstream(host), agent_model="agent-1", price=local_price)
    relay.check()
    first, second = ask(relay, 2)
    assert (first.status_code, second.status_code) == (200, 200)
    summary = relay.summary()
    assert (summary.models, summary.violations, summary.cost.usd) == (("smollm2-135m",), (), 0.0)
    assert summary.usage.output == 8
    assert summary.observed == ({"max_tokens": 4, "seed": 1, "temperature": 0},) * 2
    assert summary.stop_reason == "length"
    assert host.ready().token not in json.dumps([call.as_json() for call in relay.calls])
