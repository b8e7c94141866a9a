"""Whole sessions against loopback servers, each speaking its own API."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pytest_battery.edges.models import http_provider

from ..models.http_server import Answer, Asked, PlayingServer, playing
from .conftest import Project

LOADED = (http_provider,)

TASK = """\
[task]
title = "Say the word"
kind = "call"
runs = 2
timeout = 20
prompt = {{ text = "ECHO:{{{{ case.word }}}}" }}
subjects = [{subjects}]

[scorer]
use = "matchers"
equals = "{{{{ case.word }}}}"

[metrics.correct]
better = "higher"

[[case]]
id = "t01"
word = "one"

[[case]]
id = "t02"
word = "two"
"""


def word(asked: Asked) -> str:
    texts: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, str) and "ECHO:" in value:
            texts.append(value.partition("ECHO:")[2])
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(item)

    walk(asked.json)
    return texts[-1]


def chat(asked: Asked) -> Answer:
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    message = {"message": {"content": word(asked)}, "finish_reason": "stop"}
    return Answer(body={"model": "chat-1", "choices": [message], "usage": usage})


def responses(asked: Asked) -> Answer:
    output = [{"type": "message", "content": [{"type": "output_text", "text": word(asked)}]}]
    usage = {"input_tokens": 10, "output_tokens": 5}
    return Answer(body={"model": "resp-1", "status": "completed", "output": output, "usage": usage})


def claude(asked: Asked) -> Answer:
    content = [{"type": "text", "text": word(asked)}]
    usage = {"input_tokens": 10, "output_tokens": 5}
    return Answer(
        body={"type": "message", "model": "claude-1", "content": content, "stop_reason": "end_turn", "usage": usage}
    )


def gemini(asked: Asked) -> Answer:
    candidate = {"content": {"parts": [{"text": word(asked)}]}, "finishReason": "STOP"}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5}
    return Answer(body={"modelVersion": "gem-1", "candidates": [candidate], "usageMetadata": usage})


def stream(asked: Asked) -> Answer:
    events = [
        {"choices": [{"delta": {"content": word(asked)}, "finish_reason": "stop"}]},
        {"model": "stream-1", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}},
    ]
    lines = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    return Answer(pieces=[*lines, b"data: [DONE]\n\n"], headers={"content-type": "text/event-stream"})


SERVERS = {"chat": chat, "resp": responses, "claude": claude, "gemini": gemini, "flow": stream}
MANIFEST = """\
[providers.chat]
api = "openai-chat"
base_url = "{chat}/v1"
key_env = "CHAT_KEY"
price = {{ input = 1.0, output = 2.0 }}

[providers.resp]
api = "openai-responses"
base_url = "{resp}/v1"

[providers.claude]
api = "anthropic"
base_url = "{claude}"

[providers.gemini]
api = "google"
base_url = "{gemini}"

[providers.flow]
api = "openai-chat"
base_url = "{flow}/v1"
dialect = "openrouter"
stream = true
"""
SUBJECTS = (
    "chat/gpt-5.4",
    "resp/gpt-5.4",
    "claude/claude-opus-4-6",
    "gemini/gemini-2.5-flash",
    "flow/openai/gpt-5.4",
)
KEY = "sk-chat-0123456789"


@pytest.fixture
def servers() -> Iterator[dict[str, PlayingServer]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(playing(speak)) for name, speak in SERVERS.items()}


@pytest.fixture
def project_of_five(project: Project, servers: dict[str, PlayingServer], monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("CHAT_KEY", KEY)
    (project.path / "conftest.py").unlink()
    (project.path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    urls = {name: server.url for name, server in servers.items()}
    (project.path / "battery.toml").write_text(MANIFEST.format(**urls), encoding="utf-8")
    (project.path / "benchmarks").mkdir()
    subjects = ", ".join(f'"{subject}"' for subject in SUBJECTS)
    (project.path / "benchmarks" / "echo.toml").write_text(TASK.format(subjects=subjects), encoding="utf-8")
    return project


SWEEP = ["--sweep", "thinking=off,low", "--sweep", "max_tokens=4000,5000"]


def test_five_apis_under_a_sweep_with_the_evidence_of_the_wire(
    project_of_five: Project, servers: dict[str, PlayingServer]
) -> None:
    project = project_of_five
    live = project.run("benchmarks", *SWEEP)
    assert live.ret == 0
    live.stdout.fnmatch_lines(["*40 passed*"])
    for name, server in servers.items():
        assert len(server.asked) == 16, name  # 2 levels x 2 limits x 2 cases x 2 runs
    records = project.records()
    assert {record["response_model"] for record in records} == {"chat-1", "resp-1", "claude-1", "gem-1", "stream-1"}
    assert all(record["metrics"]["correct"] for record in records)
    for record in records:
        asked, seen = record["knobs"]["requested"], record["knobs"]["observed"]
        assert {name: str(seen[name]) for name in asked} == asked
    by_provider = {record["subject"]["ref"].partition("/")[0]: record["cost"] for record in records}
    assert by_provider["chat"]["usd"] == pytest.approx(10 / 1e6 + 5 * 2 / 1e6)
    assert by_provider["chat"]["priced_by"] == "battery.toml"
    assert by_provider["resp"]["usd"] is None
    live.stdout.fnmatch_lines(["cost unknown for 64 runs: the sums leave them out"])


def test_the_same_in_replay_with_the_servers_gone(
    project_of_five: Project, servers: dict[str, PlayingServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = project_of_five
    live = project.run("benchmarks", *SWEEP, "-q")
    store = project.path / "store"
    before = {path: path.read_bytes() for path in store.rglob("*.json")}
    for server in servers.values():
        server.close()

    def refuse(self: socket.socket, address: Any) -> None:
        raise AssertionError(f"a replay opened a connection to {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.delenv("CHAT_KEY")
    replayed = project.run("benchmarks", *SWEEP, "-q", "--refresh", "--record-mode", "replay")
    assert replayed.ret == 0
    assert {path: path.read_bytes() for path in store.rglob("*.json")} == before
    rows = [[line for line in result.outlines if "/none" in line] for result in (live, replayed)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 20


def test_no_file_of_the_store_holds_the_key(project_of_five: Project, servers: dict[str, PlayingServer]) -> None:
    def gossip(asked: Asked) -> Answer:
        answer = chat(asked)
        answer.body["choices"][0]["message"]["content"] = f"your key is {asked.headers['authorization']}"
        return answer

    with playing(gossip) as server:
        manifest = project_of_five.path / "battery.toml"
        manifest.write_text(
            manifest.read_text(encoding="utf-8").replace(servers["chat"].url, server.url), encoding="utf-8"
        )
        assert project_of_five.run("benchmarks", "--model", "chat/gpt-5.4").ret == 0
    files = [path for path in (project_of_five.path / "store").rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    assert any(b"[redacted:CHAT_KEY]" in path.read_bytes() for path in files)


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("claude/claude-opus-4-6", "*max_tokens*"),
        ("claude/claude-opus-4-6:low@max_tokens=4000,temperature=0.5", "*temperature*"),
        ("chat/gpt-5@temperature=0", "*temperature*"),
        ("gemini/gemini-2.5-pro:off", "*off*"),
        ("chat/any@top_j=1", "*top_j*"),
        ("bedrock/claude", "*bedrock: Amazon Bedrock signs its requests in another way*"),
    ],
)
def test_a_knob_that_cannot_be_honoured_costs_nothing(
    project_of_five: Project, servers: dict[str, PlayingServer], subject: str, message: str
) -> None:
    result = project_of_five.run("benchmarks", "--model", subject)
    assert result.ret == 4
    result.stderr.fnmatch_lines([message])
    assert not any(server.asked for server in servers.values())


def test_a_missing_key_is_told_before_any_call(
    project_of_five: Project, servers: dict[str, PlayingServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHAT_KEY")
    result = project_of_five.run("benchmarks", *SWEEP)
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*chat: the variable CHAT_KEY holds no key*"])
    assert not any(server.asked for server in servers.values())


def test_a_manifest_that_cannot_be_used_is_refused(project_of_five: Project) -> None:
    (project_of_five.path / "battery.toml").write_text("[providers.x]\nkind = 1\n", encoding="utf-8")
    result = project_of_five.run("benchmarks")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*battery.toml:2: providers.x.kind is not known here*"])


def test_a_refused_half_or_empty_answer_is_a_result_of_its_kind(project_of_five: Project) -> None:
    def odd(asked: Asked) -> Answer:
        answer = chat(asked)
        choice = answer.body["choices"][0]
        if word(asked) == "one":
            choice["finish_reason"] = "length"
        else:
            choice["message"] = {"content": None, "refusal": "I can't."}
        return answer

    with playing(odd) as server:
        text = f'[providers.odd]\napi = "openai-chat"\nbase_url = "{server.url}/v1"\n'
        (project_of_five.path / "battery.toml").write_text(text, encoding="utf-8")
        result = project_of_five.run("benchmarks", "--model", "odd/m")
    assert [record["stop_reason"] for record in project_of_five.records()] == ["length"] * 2 + ["refusal"] * 2
    assert [record["metrics"]["correct"] for record in project_of_five.records()] == [True, True, False, False]
    result.stdout.fnmatch_lines(["*2 cut at max_tokens, 2 refused"])


def test_xdist_workers_ask_over_http_too(project_of_five: Project, servers: dict[str, PlayingServer]) -> None:
    result = project_of_five.run("benchmarks", *SWEEP, "-n", "2", plugins=["xdist"])
    assert result.ret == 0
    assert sum(len(server.asked) for server in servers.values()) == 80
