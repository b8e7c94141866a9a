"""What is asked beside calls of the model, and who may ask."""

from __future__ import annotations

import anyio
import httpx
import pytest

from pytest_battery.edges.models.relay import Relay
from pytest_battery.edges.models.relay.routes import Route, route_of
from pytest_battery.values.usage import Cost

from .agent import body_of
from .conftest import listening, relay_of
from .scripted import Scripted


def sent(relay: Relay, method: str, path: str, **more: object) -> httpx.Response:
    async def work() -> httpx.Response:
        async with listening(relay) as (client, base):
            return await client.request(method, base + path, **more)  # type: ignore[arg-type]

    return anyio.run(work)


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("POST", "/v1/chat/completions", "", Route("call", "openai-chat")),
        ("POST", "/chat/completions/", "", Route("call", "openai-chat")),
        ("POST", "/any/prefix/v1/responses", "", Route("call", "openai-responses")),
        ("POST", "/v1/messages", "beta=true", Route("call", "anthropic")),
        ("POST", "/v1/messages/count_tokens", "", Route("count", "anthropic")),
        ("POST", "/v1beta/models/m:generateContent", "", Route("call", "google", "m")),
        (
            "POST",
            "/v1beta/models/m-2.5:streamGenerateContent",
            "alt=sse&key=x",
            Route("call", "google", "m-2.5", stream=True, sse=True),
        ),
        ("POST", "/x/models/a/b:streamGenerateContent", "", Route("call", "google", "a/b", stream=True)),
        ("POST", "/v1beta/models/m:countTokens", "", Route("count", "google", "m")),
        ("GET", "/v1/models", "", Route("models")),
        ("GET", "/prefix/v1/models/agent-1", "", Route("models")),
        ("HEAD", "/api/hello", "", Route("probe")),
        ("GET", "/api/hello", "", Route("probe")),
        ("GET", "/", "", Route("probe")),
        ("HEAD", "/whatever", "", Route("probe")),
        ("GET", "/v1/responses", "", Route("method", "openai-responses")),
        ("DELETE", "/v1/messages", "", Route("method", "anthropic")),
        ("GET", "/etc/passwd", "", Route("unknown")),
        ("POST", "/v1/embeddings", "", Route("unknown")),
        ("POST", "/v1/models", "", Route("unknown")),
    ],
)
def test_a_path_says_what_is_asked_whatever_stands_before_it(
    method: str, path: str, query: str, expected: Route
) -> None:
    assert route_of(method, path, query) == expected


def test_the_list_of_models_has_the_agents_own(server: Scripted) -> None:
    relay = relay_of(server)
    listed = sent(relay, "GET", "/v1/models").json()
    assert [one["id"] for one in listed["data"]] == ["agent-1"]
    assert listed["models"] == [{"name": "models/agent-1", "displayName": "agent-1"}]
    assert sent(relay, "GET", "/v1/models/agent-1").json()["id"] == "agent-1"
    assert (relay.summary().unknown, server.asked) == ((), [])


def test_a_look_whether_somebody_is_there_is_answered(server: Scripted) -> None:
    relay = relay_of(server)
    assert sent(relay, "HEAD", "/api/hello").status_code == 200
    assert (relay.summary().unknown, relay.calls) == ((), ())


def test_tokens_are_not_counted_and_that_is_no_matter(server: Scripted) -> None:
    relay = relay_of(server, api="anthropic")
    response = sent(relay, "POST", "/v1/messages/count_tokens", json={})
    assert (response.status_code, response.json()["error"]["type"]) == (404, "not_found_error")
    assert relay.summary().unknown == ()


def test_what_is_not_known_is_refused_and_noted_and_only_so_often(server: Scripted) -> None:
    relay = relay_of(server)

    async def work() -> None:
        async with listening(relay) as (client, base):
            for number in range(130):
                response = await client.post(f"{base}/v1/embeddings/{number}", json={})
                assert response.status_code == 404
                assert response.json()["error"]["message"].startswith("pytest-battery: POST /v1/embeddings")
            assert (await client.get(f"{base}/v1/chat/completions")).status_code == 405

    anyio.run(work)
    assert relay.summary().unknown[0] == "POST /v1/embeddings/0"
    assert len(relay.summary().unknown) == 100
    assert server.asked == []


def test_a_call_by_another_api_is_refused_in_that_apis_words(server: Scripted) -> None:
    relay = relay_of(server, api="openai-chat")
    response = sent(relay, "POST", "/v1/messages", json=body_of("anthropic", []))
    assert response.status_code == 404
    assert response.json()["type"] == "error"
    assert "asked by the API openai-chat, and not by anthropic" in response.json()["error"]["message"]
    assert relay.summary().unknown == ("POST /v1/messages (anthropic)",)


def test_googles_stream_must_be_one_of_events(server: Scripted) -> None:
    relay = relay_of(server, api="google")
    response = sent(relay, "POST", "/v1beta/models/agent-1:streamGenerateContent", json={"contents": []})
    assert (response.status_code, response.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    "headers", [{"authorization": "Bearer right"}, {"x-api-key": "right"}, {"x-goog-api-key": "right"}]
)
def test_with_a_token_only_who_shows_it_is_let_in(server: Scripted, headers: dict[str, str]) -> None:
    relay = relay_of(server, "text", token="right")
    path = "/v1/chat/completions"
    assert sent(relay, "POST", path, json=body_of("openai-chat", []), headers=headers).status_code == 200
    for wrong in ({}, {"authorization": "Bearer wrong"}, {"authorization": "right"}, {"x-api-key": "ri\u0067h"}):
        relay = relay_of(server, "text", token="right")
        response = sent(relay, "POST", path, json=body_of("openai-chat", []), headers=wrong)
        assert (response.status_code, relay.calls) == (401, ())
        assert relay.summary().unknown == ("POST /v1/chat/completions without the token",)
    assert len(server.asked) == 1


def test_a_fault_of_the_relays_own_makes_the_run_no_measurement(server: Scripted) -> None:
    def price(*_: object) -> Cost:
        raise ZeroDivisionError("no such price")

    relay = relay_of(server, "text", price=price)
    sent(relay, "HEAD", "/api/hello", headers={"host": "["})
    with pytest.raises(httpx.RemoteProtocolError):
        sent(relay, "POST", "/v1/chat/completions", json=body_of("openai-chat", []))
    (violation,) = relay.summary().violations
    assert violation.startswith("the relay failed at POST /v1/chat/completions: ")
    assert "no such price" in violation
