"""pi, in its JSON mode.

The prompt goes in by stdin: as an argument ``@name`` would be a file and a leading dash an option.  pi takes the white space
around it away.  Its exit code is 0 whatever happened to the model's answers; what counts is the last one's stop reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_battery.edges.agents.launches import (
    Brick,
    Kind,
    Launch,
    Start,
    Told,
    brick_mounts,
    fault_of,
    inside,
    level_of,
)
from pytest_battery.edges.agents.packages import NODE, NPM
from pytest_battery.edges.agents.seeding import (
    context_of,
    file_brick,
    json_brick,
    mcp_servers,
    skill_brick,
    write,
    write_json,
)
from pytest_battery.edges.agents.streams import Event, Odd, at, count, events_of, no_end, text_at
from pytest_battery.values.usage import Usage

__all__ = ["Pi"]

_APIS = {
    "openai-chat": ("openai-completions", "/v1"),
    "openai-responses": ("openai-responses", "/v1"),
    "anthropic": ("anthropic-messages", ""),
    "google": ("google-generative-ai", "/v1beta"),
}
_KINDS: tuple[Kind, ...] = ("extension", "skill", "context", "mcp")
_TOOLS = ("read", "bash", "edit", "write", "grep", "find", "ls")
_EFFORT = {"openai-chat": "reasoning_effort", "openai-responses": "reasoning.effort"}
_LIMIT = {
    "openai-chat": "max_completion_tokens",
    "openai-responses": "max_output_tokens",
    "anthropic": "max_tokens",
    "google": "generationConfig.maxOutputTokens",
}
_WINDOW, _OUTPUT = 128_000, 16_384  # what pi takes for a model that it doesn't know
_IDLE_MS = 900_000  # the relay is what bounds a wait
_STOPS = {"stop": "stop", "length": "length", "toolUse": "tool-calls"}

_DURING_TOOLS = ("tool_execution_start", "tool_execution_update", "tool_execution_end", "bash_execution_update")
_TYPES = frozenset(
    (
        *("agent_start", "agent_end", "agent_settled", "turn_start", "turn_end"),
        *("message_start", "message_update", "message_end", *_DURING_TOOLS),
        *("auto_retry_start", "auto_retry_end", "compaction_start", "compaction_end", "entry_appended"),
        *("summarization_retry_scheduled", "summarization_retry_attempt_start", "summarization_retry_finished"),
        *("queue_update", "session_info_changed", "thinking_level_changed", "extension_error"),
    )
)
_OF_A_TURN = ("agent_start", "agent_end", "agent_settled", "turn_start", "turn_end")


class Pi:
    """pi speaks all four APIs, and sets a level of thinking itself for OpenAI's two."""

    name = "pi"
    apis = tuple(_APIS)
    bricks = _KINDS
    version = NPM["pi"].version

    def fault(self, launch: Launch) -> str | None:
        if fault := fault_of(self.name, launch, apis=self.apis, kinds=_KINDS, shape=_shape):
            return fault
        if not any(brick.kind in ("extension", "mcp") for brick in launch.bricks):
            for tool in launch.tools or ():
                if tool not in _TOOLS:
                    return f"pi has no tool {tool!r}; it has {', '.join(_TOOLS)}, and those of extensions"
        return None

    def start(self, launch: Launch) -> Start:
        own = launch.inside_dir
        write_json(launch.agent_dir / "settings.json", _settings(launch))
        write_json(launch.agent_dir / "models.json", _models(launch))
        write_json(launch.agent_dir / "auth.json", {})
        argv = [
            f"{launch.inside_install}/{NODE.executable}",
            f"{launch.inside_install}/{NPM['pi'].executable}",
            *("--mode", "json", "--no-session", "--offline", "--no-extensions", "--no-skills", "--no-prompt-templates"),
            *("--no-themes", "--no-context-files", "--no-approve", "--provider", "battery", "--model", launch.model),
        ]
        if level := level_of(launch):
            argv += ["--thinking", level]
        if launch.tools is not None:
            argv += ["--tools", ",".join(launch.tools)] if launch.tools else ["--no-tools"]
        for brick in launch.bricks:
            if brick.kind in ("extension", "skill"):
                argv += [f"--{brick.kind}", inside(launch, brick)]
        if servers := mcp_servers(launch):
            direct = {name: {"exposure": "direct", **server} for name, server in servers.items()}
            write_json(launch.agent_dir / "mcp.json", {"mcpServers": direct})
            argv += ["--extension", "builtin:mcp"]
        for name, text, option in (
            ("system.md", launch.system, "--system-prompt"),
            ("context.md", context_of(launch), "--append-system-prompt"),
            ("append.md", launch.append, "--append-system-prompt"),
        ):
            if text:
                write(launch.agent_dir / name, text)
                argv += [option, f"{own}/{name}"]
        return Start(
            argv=tuple(argv),
            environment={"PI_CODING_AGENT_DIR": own, "PI_OFFLINE": "1"},
            stdin=launch.prompt.encode("utf-8"),
            mounts=(
                (launch.install, launch.inside_install),
                *brick_mounts(launch, "extension", "skill", "mcp"),
            ),
        )

    def expected(self, launch: Launch) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        if (level := level_of(launch)) and launch.api in _EFFORT:
            if level != "off":
                found[_EFFORT[launch.api]] = level
            elif launch.api == "openai-responses":
                found[_EFFORT[launch.api]] = "none"
        found[_LIMIT[launch.api]] = int(launch.knobs.get("max_tokens", _OUTPUT))
        return found

    def told(self, launch: Launch, stdout: bytes, stderr: bytes, exit_code: int, timed_out: bool) -> Told:
        read = _Reading()
        for event in events_of(stdout, read.odd):
            read.take(event)
        error = read.error
        if not read.ended:
            error = no_end(stdout, stderr, exit_code, timed_out)
        elif error is None and exit_code:
            error = f"it exited with {exit_code} after its last event"
        return Told(
            final_text=read.text,
            ended=read.ended,
            error=error,
            stop=read.stop,
            turns=read.turns,
            usage=read.usage or Usage(),
            forged=read.odd.forgeries,
            notes=read.odd.notes,
        )


class _Reading:
    """The stream so far."""

    def __init__(self) -> None:
        self.odd = Odd()
        self.text = ""
        self.stop: str | None = None
        self.error: str | None = None
        self.turns = 0
        self.usage: Usage | None = None
        self.ended = False
        self._begun = self._speaking = False
        self._running: set[str] = set()

    def take(self, event: Event) -> None:
        if why := self._not_its_own(event):
            self.odd.forged(event, why)
            return
        self.ended = False
        match event.type:
            case "session":
                self._begun = True
            case "message_start":
                self._speaking = at(event.body, "message", "role") == "assistant"
            case "message_end" if at(event.body, "message", "role") == "assistant":
                self._speaking = False
                self._message(event.body["message"])
            case "tool_execution_start":
                self._running.add(text_at(event.body, "toolCallId") or "")
            case "tool_execution_end":
                self._running.discard(text_at(event.body, "toolCallId") or "")
            case "turn_end":
                self.turns += 1
            case "extension_error":
                self.odd.note(f"an extension failed: {text_at(event.body, 'error')}")
            case "agent_settled":
                self.ended = True
                if at(event.body, "aborted") is True:
                    self.error = self.error or "it was aborted"

    def _not_its_own(self, event: Event) -> str | None:
        """Why pi can't have written *event* here."""
        if not self._begun or event.type == "session":
            return None if event.type == "session" and not self._begun else "a session begins once, with the first line"
        if event.type not in _TYPES:
            return "no event of pi's"
        if self.ended and event.type not in ("agent_start", "session_info_changed", "entry_appended"):
            return "it comes after the end"
        role = at(event.body, "message", "role")
        spoken = event.type.startswith("message_") and (role == "assistant" or event.type == "message_update")
        if self._running and (spoken or event.type in _OF_A_TURN):
            return "it comes while a tool runs"
        if spoken and event.type != "message_start" and not self._speaking:
            return "no message has begun"
        if event.type == "tool_execution_end" and text_at(event.body, "toolCallId") not in self._running:
            return "no such tool runs"
        return None

    def _message(self, message: Mapping[str, Any]) -> None:
        content = at(message, "content")
        parts = content if isinstance(content, list) else []
        self.text = "".join(text_at(part, "text") or "" for part in parts if at(part, "type") == "text").strip()
        stop = text_at(message, "stopReason")
        self.stop = _STOPS.get(stop or "")
        said = text_at(message, "errorMessage") or f"the last message ended with {stop!r}"
        self.error = None if stop in _STOPS else said
        usage = Usage(
            input=count(message, "usage", "input"),
            cache_read=count(message, "usage", "cacheRead"),
            cache_write=count(message, "usage", "cacheWrite"),
            output=count(message, "usage", "output"),
            reasoning=count(message, "usage", "reasoning"),
        )
        if stop in _STOPS:
            self.usage = usage if self.usage is None else self.usage + usage


def _shape(brick: Brick) -> str | None:
    match brick.kind:
        case "skill":
            return skill_brick(brick)
        case "context":
            return file_brick(brick)
        case "mcp":
            return json_brick(brick)
    return None


def _settings(launch: Launch) -> dict[str, Any]:
    return {
        "retry": {"enabled": launch.retries > 0, "maxRetries": launch.retries, "provider": {"maxRetries": 0}},
        "httpIdleTimeoutMs": _IDLE_MS,
        "enableInstallTelemetry": False,
        "defaultProjectTrust": "never",
        "cacheWarming": "off",
        "compaction": {"enabled": False},
    }


def _models(launch: Launch) -> dict[str, Any]:
    api, path = _APIS[launch.api]
    compat = {"supportsDeveloperRole": False, "supportsStore": False, "maxTokensField": "max_completion_tokens"}
    model = {
        "id": launch.model,
        # Without a level nothing is to be said of thinking, and of a model that can't reason pi says nothing.
        "reasoning": level_of(launch) is not None,
        "input": ["text"],
        "contextWindow": _WINDOW,
        "maxTokens": int(launch.knobs.get("max_tokens", _OUTPUT)),
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        # pi makes "high" of what is above it, unless told that the model knows more.
        **({"thinkingLevelMap": {"xhigh": "xhigh", "max": "max"}} if launch.api in _EFFORT else {}),
    }
    provider = {
        "baseUrl": launch.base_url + path,
        "apiKey": launch.key,
        "api": api,
        "models": [model],
        **({"compat": compat} if launch.api == "openai-chat" else {}),
    }
    return {"providers": {"battery": provider}}
