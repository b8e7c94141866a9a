"""Claude Code, in its print mode.

It runs as it is, with what it discovers switched off: settings, skills, hooks, agents, MCP servers and CLAUDE.md files of
the workspace are not read (``--setting-sources user`` and ``--strict-mcp-config``).  Its ``--bare`` is not used: with that,
skills, plugins' hooks and agents have no effect, and a brick would be compared with another program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_battery.edges.agents.launches import (
    KINDS,
    Brick,
    Launch,
    Start,
    Told,
    brick_mounts,
    fault_of,
    inside,
    level_of,
)
from pytest_battery.edges.agents.packages import NPM
from pytest_battery.edges.agents.seeding import (
    agents_of,
    context_of,
    file_brick,
    json_brick,
    linked,
    mcp_servers,
    skill_brick,
    write,
    write_json,
)
from pytest_battery.edges.agents.streams import Event, Odd, at, clean, count, events_of, no_end, text_at
from pytest_battery.values.usage import Usage

__all__ = ["ClaudeCode"]

_TOOLS = ("Agent", "Bash", "Edit", "NotebookEdit", "Read", "Skill", "WebFetch", "WebSearch", "Write")
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_ALIASES = ("best", "default", "fable", "haiku", "opus", "opusplan", "sonnet")
_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool-calls",
    "refusal": "refusal",
}
_TYPES = frozenset(
    (
        *("system", "assistant", "user", "result", "stream_event", "rate_limit_event", "tool_progress"),
        *("tool_use_summary", "auth_status", "prompt_suggestion", "keep_alive"),
    )
)


class ClaudeCode:
    """Claude Code speaks Anthropic's API, and takes every kind of brick."""

    name = "claude-code"
    apis = ("anthropic",)
    bricks = KINDS
    version = NPM["claude-code"].version

    def fault(self, launch: Launch) -> str | None:
        if fault := fault_of(self.name, launch, apis=self.apis, kinds=KINDS, shape=_shape):
            return fault
        if launch.prompt.startswith("/"):
            return (
                "claude-code takes a prompt that begins with / for a command of its own: begin it with something else"
            )
        if launch.model in _ALIASES or launch.model.endswith("]"):
            return (
                f"{launch.model!r} is a name that claude-code puts a model of its choice for: write the model's full id"
            )
        extended = any(brick.kind in ("extension", "mcp") for brick in launch.bricks)
        for tool in launch.tools or ():
            if tool not in _TOOLS and not extended:
                return f"claude-code has no tool {tool!r}; it has {', '.join(_TOOLS)}"
        skills = [brick.path.name for brick in launch.bricks if brick.kind == "skill"]
        if len(set(skills)) < len(skills):
            return f"claude-code was given two skills by one name ({', '.join(sorted(skills))})"
        for kind, tool in (("skill", "Skill"), ("agents", "Agent")):
            if launch.tools is not None and tool not in launch.tools and any(b.kind == kind for b in launch.bricks):
                return f"claude-code reaches {kind} bricks by its tool {tool}: add it to the tools"
        return None

    def start(self, launch: Launch) -> Start:
        own = launch.inside_dir
        argv = [
            f"{launch.inside_install}/{NPM[self.name].executable}",
            *("-p", "--output-format", "stream-json", "--verbose", "--no-session-persistence"),
            *("--setting-sources", "user", "--strict-mcp-config", "--dangerously-skip-permissions"),
            *("--model", launch.model),
        ]
        if (effort := _effort(level_of(launch))) is not None:
            argv += ["--effort", effort]
        if launch.tools is not None:
            argv += ["--tools", ",".join(launch.tools)]
        for brick in launch.bricks:
            if brick.kind == "extension":
                argv += ["--plugin-dir", inside(launch, brick)]
        if servers := mcp_servers(launch):
            write_json(launch.agent_dir / "mcp.json", {"mcpServers": servers})
            argv += ["--mcp-config", f"{own}/mcp.json"]
        if agents := agents_of(launch):
            write_json(launch.agent_dir / "agents.json", agents)
            argv += ["--agents", f"{own}/agents.json"]
        for name, text, option in (
            ("system.md", launch.system, "--system-prompt-file"),
            ("append.md", launch.append, "--append-system-prompt-file"),
        ):
            if text:
                write(launch.agent_dir / name, text)
                argv += [option, f"{own}/{name}"]
        if context := context_of(launch):
            write(launch.agent_dir / "CLAUDE.md", context + "\n")
        linked(launch, "skill", launch.agent_dir / "skills")
        launch.agent_dir.mkdir(parents=True, exist_ok=True)
        home = NPM[self.name].directory
        return Start(
            argv=tuple(argv),
            environment=_environment(launch),
            stdin=launch.prompt.encode("utf-8"),
            mounts=(
                (launch.install / home, f"{launch.inside_install}/{home}"),
                *brick_mounts(launch, "extension", "skill", "mcp"),
            ),
        )

    def expected(self, launch: Launch) -> Mapping[str, Any]:
        # Which models it asks for an effort is its own knowledge, so that only the limit can be foretold.
        return {"max_tokens": int(launch.knobs["max_tokens"])} if "max_tokens" in launch.knobs else {}

    def told(self, launch: Launch, stdout: bytes, stderr: bytes, exit_code: int, timed_out: bool) -> Told:
        read = _Reading()
        for event in events_of(stdout, read.odd):
            read.take(event)
        result = read.result
        if result is None:
            error: str | None = no_end(stdout, stderr, exit_code, timed_out)
        elif at(result, "is_error") is not False or at(result, "subtype") != "success":
            # The subtype of a run that came to nothing is "success" too.
            errors = at(result, "errors")
            first = clean(errors[0]) if isinstance(errors, list) and errors and isinstance(errors[0], str) else None
            why = text_at(result, "result") or first or text_at(result, "terminal_reason") or "it says no more"
            error = f"{text_at(result, 'subtype')}: {why}" if at(result, "subtype") != "success" else why
        else:
            error = f"it exited with {exit_code} after its result" if exit_code else None
        final = text_at(result, "result") if error is None else None
        return Told(
            final_text=(final if final is not None else read.text).strip(),
            ended=result is not None,
            error=error,
            stop=_stop(result, failed=error is not None),
            turns=len(read.messages) if result is None else count(result, "num_turns"),
            usage=read.usage(),
            forged=read.odd.forgeries,
            notes=read.odd.notes,
        )


class _Reading:
    """The stream so far.  ``messages`` has the usage of each message of the model's own, by id."""

    def __init__(self) -> None:
        self.odd = Odd()
        self.text = ""
        self.result: Mapping[str, Any] | None = None
        self.messages: dict[str, Any] = {}
        self._session: str | None = None
        self._running: set[str] = set()

    def take(self, event: Event) -> None:
        if why := self._not_its_own(event):
            self.odd.forged(event, why)
            return
        self._session = self._session or text_at(event.body, "session_id")
        if event.type == "result":
            self.result = event.body
        elif event.type == "assistant":
            self._message(at(event.body, "message"), helper=at(event.body, "parent_tool_use_id") is not None)
        elif event.type == "user":
            for part in _parts(at(event.body, "message")):
                self._running.discard(text_at(part, "tool_use_id") or "")

    def _not_its_own(self, event: Event) -> str | None:
        """Why Claude Code can't have written *event* here."""
        if event.type not in _TYPES:
            return "no event of Claude Code's"
        session = text_at(event.body, "session_id")
        if self._session is not None and session is not None and session != self._session:
            return "of another session"
        if self.result is not None and event.type != "system":
            return "it comes after the result"
        if event.type == "result" and session is None:
            return "a result of no session"
        if event.type == "result" and self._running and at(event.body, "is_error") is False:
            return "it comes while a tool runs"
        return None

    def _message(self, message: Any, *, helper: bool) -> None:
        parts = _parts(message)
        if not helper:
            self._running.update(text_at(part, "id") or "" for part in parts if at(part, "type") == "tool_use")
        texts = [text_at(part, "text") or "" for part in parts if at(part, "type") == "text"]
        if texts and not helper and at(message, "model") != "<synthetic>":
            self.text = "".join(texts)
        if at(message, "model") != "<synthetic>" and (name := text_at(message, "id")):
            self.messages[name] = at(message, "usage")

    def usage(self) -> Usage:
        """That of the result; without one what the messages began with, which says nothing of the output."""
        if self.result is not None:
            usage = at(self.result, "usage")
            return Usage(
                input=count(usage, "input_tokens"),
                cache_read=count(usage, "cache_read_input_tokens"),
                cache_write=count(usage, "cache_creation_input_tokens"),
                output=count(usage, "output_tokens"),
                reasoning=count(usage, "output_tokens_details", "thinking_tokens"),
            )
        total: Usage | None = None
        for usage in self.messages.values():
            one = Usage(
                input=count(usage, "input_tokens"),
                cache_read=count(usage, "cache_read_input_tokens"),
                cache_write=count(usage, "cache_creation_input_tokens"),
            )
            total = one if total is None else total + one
        return total or Usage()


def _parts(message: Any) -> list[Any]:
    content = at(message, "content")
    return content if isinstance(content, list) else []


def _stop(result: Mapping[str, Any] | None, *, failed: bool) -> str | None:
    if text_at(result, "api_error") == "max_output_tokens":
        return "length"
    # Of a run that failed it tells the reason of an answer that it made up itself.
    return None if failed else _STOPS.get(text_at(result, "stop_reason") or "", "other")


def _effort(level: str | None) -> str | None:
    return level if level in _EFFORTS else "low" if level == "minimal" else None


def _shape(brick: Brick) -> str | None:
    match brick.kind:
        case "skill":
            return skill_brick(brick)
        case "context":
            return file_brick(brick)
        case "extension":
            manifest = brick.path / ".claude-plugin" / "plugin.json"
            return (
                None if manifest.is_file() else "is no plugin: it must be a directory with a .claude-plugin/plugin.json"
            )
    return json_brick(brick)


def _environment(launch: Launch) -> Mapping[str, str]:
    found = {
        "CLAUDE_CONFIG_DIR": launch.inside_dir,
        "ANTHROPIC_BASE_URL": launch.base_url,
        "ANTHROPIC_API_KEY": launch.key,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1",
        # It answers for an older model with a newer one, unless told not to.
        "CLAUDE_CODE_DISABLE_LEGACY_MODEL_REMAP": "1",
        "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
        "CLAUDE_CODE_MAX_RETRIES": str(launch.retries),
        "API_TIMEOUT_MS": "900000",
        "DISABLE_AUTOUPDATER": "1",
        # Else it refuses to go without questions as root.
        "IS_SANDBOX": "1",
    }
    if level_of(launch) in (None, "off"):
        # By itself it would think, as hard as it likes; what the subject doesn't name is not asked for.
        found |= {"CLAUDE_CODE_DISABLE_THINKING": "1", "CLAUDE_CODE_EFFORT_LEVEL": "unset"}
    if "max_tokens" in launch.knobs:
        found["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = launch.knobs["max_tokens"]
    return found
