"""A small agent for each API: asks, runs the shell calls it is answered, and asks again until there is a text."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.to_thread
import httpx

from .scripted import Scripted

__all__ = ["APIS", "PATHS", "Agent", "body_of", "give_up", "url_of"]

APIS = ("openai-chat", "openai-responses", "anthropic", "google")
PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "google": "/v1beta/models/MODEL:VERB",
}
_SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


def url_of(api: str, base: str, model: str = "agent-1", *, stream: bool = True) -> str:
    verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return base + PATHS[api].replace("MODEL", model).replace("VERB", verb)


def body_of(
    api: str, talk: list[Any], model: str = "agent-1", *, stream: bool = True, tools: bool = True
) -> dict[str, Any]:
    """A request for the conversation *talk*."""
    offered: Any
    if api == "openai-chat":
        offered = [{"type": "function", "function": {"name": "bash", "parameters": _SCHEMA}}]
        body: dict[str, Any] = {"model": model, "messages": talk, "max_tokens": 2048}
    elif api == "openai-responses":
        offered = [{"type": "function", "name": "exec_command", "parameters": _SCHEMA}]
        body = {"model": model, "input": talk, "store": False, "prompt_cache_key": "k"}
    elif api == "anthropic":
        offered = [{"name": "Bash", "input_schema": _SCHEMA}]
        body = {"model": model, "messages": talk, "max_tokens": 2048, "metadata": {"user_id": "u"}}
    else:
        offered = [{"functionDeclarations": [{"name": "run_shell_command", "parameters": _SCHEMA}]}]
        body = {"contents": talk, "generationConfig": {"maxOutputTokens": 2048}}
    if api != "google":
        body["stream"] = stream
    return {**body, **({"tools": offered} if tools else {})}


async def give_up(client: httpx.AsyncClient, base: str, server: Scripted) -> None:
    """Ask, and hang up once *server* has the call, which must be one that it never answers."""
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: client.post(url_of("openai-chat", base), json=body_of("openai-chat", [])))
        await anyio.to_thread.run_sync(server.called.wait, 10)
        group.cancel_scope.cancel()
    await anyio.to_thread.run_sync(server.hung_up.wait, 10)


@dataclass
class Agent:
    """``said`` is the conversation, ``text`` the last text; ``error`` the response that ended it early."""

    api: str
    base: str
    model: str = "agent-1"
    stream: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)
    said: list[Any] = field(default_factory=list)
    text: str = ""
    error: httpx.Response | None = None

    async def run(self, client: httpx.AsyncClient, prompt: str = "What does hello.txt say?") -> Agent:
        self.said = [_user(self.api, prompt)]
        for _ in range(10):
            url = url_of(self.api, self.base, self.model, stream=self.stream)
            body = body_of(self.api, self.said, self.model, stream=self.stream)
            response = await client.post(url, json=body, headers=dict(self.headers))
            if response.status_code != 200:
                self.error = response
                return self
            message, self.text, calls = _answer(self.api, response.text, self.stream)
            self.said += message
            if not calls:
                return self
            self.said += _results(self.api, [(call, _run(call[2])) for call in calls])
        return self


def _run(command: str) -> str:
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False).stdout


def _user(api: str, text: str) -> Any:
    if api == "google":
        return {"role": "user", "parts": [{"text": text}]}
    return {"role": "user", "content": text}


_Call = tuple[str, str, str]
"""Id, tool, command."""


def _answer(api: str, text: str, stream: bool) -> tuple[list[Any], str, list[_Call]]:
    """What to add to the conversation, the text in it, and the calls."""
    if stream:
        events = [
            json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: ") and "[DONE]" not in line
        ]
        document = _joined(api, events)
    else:
        document = json.loads(text)
    if api == "openai-chat":
        message = document["choices"][0]["message"]
        called = message.get("tool_calls") or []
        calls = [(one["id"], "", json.loads(one["function"]["arguments"])["command"]) for one in called]
        return [message], message.get("content") or "", calls
    if api == "openai-responses":
        output = document["output"]
        texts = [part["text"] for item in output if item["type"] == "message" for part in item["content"]]
        made = [item for item in output if item["type"] == "function_call"]
        return output, "".join(texts), [(it["call_id"], "", json.loads(it["arguments"])["command"]) for it in made]
    if api == "anthropic":
        blocks = document["content"]
        used = [(one["id"], "", one["input"]["command"]) for one in blocks if one["type"] == "tool_use"]
        said = "".join(one["text"] for one in blocks if one["type"] == "text")
        return [{"role": "assistant", "content": blocks}], said, used
    content = document["candidates"][0]["content"]
    functions = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
    said = "".join(part.get("text", "") for part in content["parts"])
    return [content], said, [(one["id"], one["name"], one["args"]["command"]) for one in functions]


def _joined(api: str, events: list[Any]) -> Any:
    """The whole that a stream amounts to."""
    if api == "openai-responses":
        return events[-1]["response"]
    if api == "google":
        parts = [part for event in events for part in event["candidates"][0]["content"]["parts"]]
        return {"candidates": [{"content": {"role": "model", "parts": parts}}]}
    if api == "anthropic":
        blocks = [event["content_block"] for event in events if event["type"] == "content_block_start"]
        for event in events:
            if event["type"] == "content_block_delta":
                block, delta = blocks[event["index"]], event["delta"]
                if "text" in delta:
                    block["text"] += delta["text"]
                elif "partial_json" in delta:
                    block["input"] = json.loads(delta["partial_json"])
        return {"content": blocks}
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    for event in events:
        for choice in event["choices"]:
            message["content"] += choice["delta"].get("content") or ""
            for call in choice["delta"].get("tool_calls") or ():
                if "id" in call:
                    message["tool_calls"] = [{**call, "function": dict(call["function"])}]
                else:
                    message["tool_calls"][0]["function"]["arguments"] += call["function"]["arguments"]
    return {"choices": [{"message": message}]}


def _results(api: str, done: list[tuple[_Call, str]]) -> list[Any]:
    if api == "openai-chat":
        return [{"role": "tool", "tool_call_id": call[0], "content": output} for call, output in done]
    if api == "openai-responses":
        return [{"type": "function_call_output", "call_id": call[0], "output": output} for call, output in done]
    if api == "anthropic":
        blocks = [{"type": "tool_result", "tool_use_id": call[0], "content": output} for call, output in done]
        return [{"role": "user", "content": blocks}]
    parts = [
        {"functionResponse": {"id": call[0], "name": call[1], "response": {"output": output}}} for call, output in done
    ]
    return [{"role": "user", "parts": parts}]
