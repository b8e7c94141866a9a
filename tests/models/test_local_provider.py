from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from pytest_battery.edges.models.client import Provider
from pytest_battery.edges.models.llama_host import Server
from pytest_battery.edges.models.local import LocalProvider
from pytest_battery.edges.models.weights import local_model
from pytest_battery.errors import CallError, ProviderError
from pytest_battery.values.calls import Request
from pytest_battery.values.subjects import parse_subject

Ask = Callable[..., Request]
SUBJECT = parse_subject("local/smollm2-135m@max_tokens=8,temperature=0")


class AgainstServer(LocalProvider):
    """Asks a server of the test's own."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    async def _ready(self, name: str) -> Server:
        return Server(self.url, 0, "token")


def test_it_is_a_provider() -> None:
    assert isinstance(LocalProvider(), Provider)


def test_identity_needs_no_weights_and_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_BATTERY_WEIGHTS", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    provider = LocalProvider()
    assert provider.identify(SUBJECT) == local_model("smollm2-135m").identity()
    assert provider.limit(SUBJECT) == 4
    for wrong in ("local/nothing", "local/smollm2-135m:low", "local/smollm2-135m@speed=3"):
        with pytest.raises(ProviderError):
            provider.identify(parse_subject(wrong))


def test_what_is_missing_is_said_with_the_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_BATTERY_WEIGHTS", str(tmp_path))
    with pytest.raises(ProviderError, match="battery local fetch smollm2-135m"):
        LocalProvider().check(SUBJECT)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ProviderError, match=r"pip install 'pytest-battery\[local\]'"):
        LocalProvider().check(SUBJECT)


def test_the_engine_is_named_with_its_version() -> None:
    name, _, version = (LocalProvider().engine() or "").partition(" ")
    assert name == "xllamacpp"
    assert version[0].isdigit()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "content_type", "body", "kind"),
    [
        (200, "application/json", '{"choices": null}', "no-choices"),
        (200, "application/json", '{"choices": []}', "no-choices"),
        (200, "application/json", "{}", "no-choices"),
        (200, "text/event-stream", "data: {}\n\ndata: [DONE]\n\n", "no-choices"),
        (200, "text/event-stream", "data: {}\n\n", "stream-cut"),
        (200, "application/json", '{"error": {"message": "no memory"}}', "error-body"),
        (200, "text/html", "<html>", "not-json"),
        (502, "text/html", "<html>", "http-502"),
    ],
)
async def test_answers_that_are_no_replies(
    status: int,
    content_type: str,
    body: str,
    kind: str,
    ask: Ask,
    http_server: Callable[..., AbstractContextManager[tuple[str, list[dict[str, Any]]]]],
) -> None:
    with http_server(status, content_type, body) as (url, _):
        provider = AgainstServer(url)
        with pytest.raises(CallError) as caught:
            await provider.complete(ask())
        await provider.aclose()
    assert (caught.value.kind, caught.value.fault) == (kind, "infrastructure")


@pytest.mark.anyio
async def test_a_reply_tells_what_was_sent(
    ask: Ask, http_server: Callable[..., AbstractContextManager[tuple[str, list[dict[str, Any]]]]]
) -> None:
    answer = {"model": "named", "choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}
    with http_server(200, "application/json", json.dumps(answer)) as (url, seen):
        provider = AgainstServer(url)
        reply = await provider.complete(ask("local/smollm2-135m@temperature=0.5", "Is it?"))
        await provider.aclose()
    assert [dict(reply.envelope)] == seen
    assert seen[0]["messages"] == [{"role": "user", "content": "Is it?"}]
    assert (reply.observed, reply.model, reply.raw, reply.status) == ({"temperature": 0.5}, "named", answer, 200)


@pytest.mark.anyio
async def test_a_lost_server_is_a_connection_error(ask: Ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    provider = AgainstServer(url)
    with pytest.raises(CallError, match="was lost") as caught:
        await provider.complete(ask())
    assert (caught.value.kind, caught.value.fault) == ("connection", "infrastructure")
    await provider.aclose()


def test_the_real_model_through_the_life_of_a_provider(smollm2: Path, runtime: Path, ask: Ask) -> None:
    """One server for all of it, since each takes a second to start; asked from two event loops in turn."""
    provider = LocalProvider()
    provider.check(SUBJECT)

    async def first() -> None:
        request = ask(SUBJECT.key, "Say yes.")
        async with provider.slot(SUBJECT):
            reply = await provider.complete(request)
        assert reply.text
        assert reply.model == "smollm2-135m"
        assert reply.observed == {"max_tokens": 8, "temperature": 0}
        assert 0 < (reply.usage.output or 0) <= 8
        assert reply.usage.input
        again = await provider.complete(request)
        assert again.usage.cache_read
        assert None not in (again.usage.input, reply.usage.cache_read)

        schema = {"type": "object", "properties": {"label": {"enum": ["good", "bad"]}}, "required": ["label"]}
        shaped = await provider.complete(ask("local/smollm2-135m@max_tokens=40,temperature=0", output_schema=schema))
        assert json.loads(shaped.text)["label"] in ("good", "bad")

        with pytest.raises(CallError, match=r"the prompt has 3\d\d\d tokens, and the model's context 2048") as caught:
            await provider.complete(ask(text="word " * 3000))
        assert caught.value.fault == "task"
        with pytest.raises(CallError, match="nonsense") as caught:
            await provider.complete(ask(output_schema={"type": "nonsense"}))
        assert caught.value.fault == "task"

    async def after_a_cancelled_call() -> None:
        endless = ask(text="Count.", output_schema={"type": "array", "minItems": 500, "items": {"type": "integer"}})
        server = provider._host("smollm2-135m").current()
        assert server is not None
        headers = {"authorization": f"Bearer {server.token}"}
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, headers=headers) as client:

            async def busy() -> bool:
                return any(slot["is_processing"] for slot in (await client.get("/slots")).json())

            async with anyio.create_task_group() as calls:
                calls.start_soon(provider.complete, endless)
                with anyio.fail_after(10):
                    while not await busy():
                        await anyio.sleep(0.02)
                calls.cancel_scope.cancel()
            with anyio.fail_after(10):
                while await busy():
                    await anyio.sleep(0.02)
        async with httpx.AsyncClient(base_url=server.url, trust_env=False) as stranger:
            assert (await stranger.get("/slots")).status_code == 401

    async def after_a_crash() -> None:
        server = provider._host("smollm2-135m").current()
        assert server is not None
        endless = ask(text="Count.", output_schema={"type": "array", "minItems": 500, "items": {"type": "integer"}})
        async with anyio.create_task_group() as calls:
            calls.start_soon(kill_soon, server.pid)
            with pytest.raises(CallError) as caught:
                await provider.complete(endless)
        assert caught.value.kind == "connection"
        async with provider.slot(SUBJECT):
            assert (await provider.complete(ask(SUBJECT.key))).text
        await provider.aclose()
        await provider.aclose()

    async def kill_soon(pid: int) -> None:
        await anyio.sleep(0.3)
        os.kill(pid, signal.SIGKILL)

    anyio.run(first)
    anyio.run(after_a_cancelled_call)
    anyio.run(after_a_crash)


@pytest.mark.anyio
async def test_a_start_that_nobody_waits_for_any_more_is_let_go_of(
    smollm2: Path, runtime: Path, running: Callable[[int], bool], becomes_true: Callable[[Callable[[], bool]], bool]
) -> None:
    provider = LocalProvider()
    with anyio.move_on_after(0.15) as waited:
        async with provider.slot(SUBJECT):
            pass
    assert waited.cancelled_caught
    await provider.aclose()
    notes = list(runtime.glob("*.json"))
    assert becomes_true(lambda: not any(running(json.loads(note.read_text())["pid"]) for note in notes))
