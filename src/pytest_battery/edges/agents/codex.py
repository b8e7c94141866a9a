"""Codex, by ``codex exec``.

Its configuration is checked strictly, so that a field which this version doesn't know ends the run.  Skills of the
workspace can only be switched off together with those handed over, so the latter are listed to the model in its own words.
"""

from __future__ import annotations

import json
import re
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
from pytest_battery.edges.agents.packages import NPM
from pytest_battery.edges.agents.seeding import context_of, file_brick, json_brick, mcp_servers, skill_brick, write
from pytest_battery.edges.agents.streams import Event, Odd, at, count, events_of, no_end, text_at
from pytest_battery.values.usage import Usage

__all__ = ["Codex"]

_KINDS: tuple[Kind, ...] = ("skill", "context", "mcp")
_TYPES = frozenset(
    (
        *("thread.started", "turn.started", "turn.completed", "turn.failed", "error"),
        *("item.started", "item.updated", "item.completed"),
    )
)
_ITEM = re.compile(r"item_(\d{1,9})\Z")
_DESCRIBED = re.compile(r"^description:[ \t]*(.+)$", re.MULTILINE)


class Codex:
    """Codex speaks OpenAI's Responses, and sets a level of thinking itself; it has no field for any other knob."""

    name = "codex"
    apis = ("openai-responses",)
    bricks = _KINDS
    version = NPM["codex"].version

    def fault(self, launch: Launch) -> str | None:
        if fault := fault_of(self.name, launch, apis=self.apis, kinds=_KINDS, shape=_shape):
            return fault
        if launch.tools is not None:
            return "codex can't be told which tools it has: leave tools out"
        return None

    def start(self, launch: Launch) -> Start:
        launch.agent_dir.mkdir(parents=True, exist_ok=True)
        if launch.system:
            write(launch.agent_dir / "system.md", launch.system)
        if context := context_of(launch):
            write(launch.agent_dir / "AGENTS.md", context + "\n")
        write(launch.agent_dir / "config.toml", _config(launch))
        home = NPM[self.name].directory
        return Start(
            argv=(
                f"{launch.inside_install}/{NPM[self.name].executable}",
                *("exec", "--json", "--ephemeral", "--skip-git-repo-check", "--strict-config", "-"),
            ),
            environment={"CODEX_HOME": launch.inside_dir, "BATTERY_KEY": launch.key},
            stdin=launch.prompt.encode("utf-8"),
            mounts=(
                (launch.install / home, f"{launch.inside_install}/{home}"),
                *brick_mounts(launch, "skill", "mcp"),
            ),
        )

    def expected(self, launch: Launch) -> Mapping[str, Any]:
        level = level_of(launch)
        return {} if level is None else {"reasoning.effort": "none" if level == "off" else level}

    def told(self, launch: Launch, stdout: bytes, stderr: bytes, exit_code: int, timed_out: bool) -> Told:
        read = _Reading()
        for event in events_of(stdout, read.odd):
            read.take(event)
        error = read.error
        if not read.ended:
            error = no_end(stdout, stderr, exit_code, timed_out) + (f"; its last error: {error}" if error else "")
        elif error is None and exit_code:
            error = f"it exited with {exit_code} after its last event"
        return Told(
            final_text=read.text.strip(),
            ended=read.ended,
            error=error,
            stop="length" if error and "max_output_tokens" in error else "stop" if read.ended and not error else None,
            turns=None,
            usage=read.usage,
            forged=read.odd.forgeries,
            notes=read.odd.notes,
        )


class _Reading:
    """The stream so far."""

    def __init__(self) -> None:
        self.odd = Odd()
        self.text = ""
        self.error: str | None = None
        self.usage = Usage()
        self.ended = False
        self._thread = self._turn = False
        self._open: set[str] = set()
        self._next = 0

    def take(self, event: Event) -> None:
        if why := self._not_its_own(event):
            self.odd.forged(event, why)
            return
        match event.type:
            case "thread.started":
                self._thread = True
            case "turn.started":
                self._turn = True
            case "error":
                self.error = text_at(event.body, "message") or "an error without a message"
            case "turn.failed":
                self.ended = True
                self.error = text_at(event.body, "error", "message") or self.error or "the turn failed"
            case "turn.completed":
                # An error before it was overcome by asking again.
                self.ended, self.error = True, None
                self.usage = _usage(at(event.body, "usage"))
            case _:
                self._item(event)

    def _not_its_own(self, event: Event) -> str | None:
        """Why Codex can't have written *event* here."""
        if event.type not in _TYPES:
            return "no event of Codex's"
        if self.ended:
            return "it comes after the end"
        if (event.type == "thread.started") == self._thread:
            return "a thread begins once, with the first line"
        if event.type in ("turn.completed", "turn.failed") and not self._turn:
            return "no turn has begun"
        if event.type == "turn.started" and self._turn:
            return "a turn begins once"
        if event.type.startswith("item."):
            return self._misnumbered(event)
        return None

    def _misnumbered(self, event: Event) -> str | None:
        found = _ITEM.match(text_at(event.body, "item", "id") or "")
        if found is None:
            return "no item"
        number = int(found[1])
        known = number < self._next
        if known and (found[0] not in self._open or event.type == "item.started"):
            return "the item is done, or begun already"
        return None if known or number == self._next else f"the next item is number {self._next}"

    def _item(self, event: Event) -> None:
        item = at(event.body, "item")
        name = text_at(item, "id") or ""
        self._next += name not in self._open
        self._open.add(name)
        if event.type == "item.completed":
            self._open.discard(name)
            if at(item, "type") == "agent_message":
                self.text = text_at(item, "text") or ""


def _usage(usage: Any) -> Usage:
    whole, read = count(usage, "input_tokens"), count(usage, "cached_input_tokens")
    written = count(usage, "cache_write_input_tokens")
    plain = None if whole is None else max(0, whole - (read or 0) - (written or 0))
    return Usage(
        input=plain,
        cache_read=read,
        cache_write=written,
        output=count(usage, "output_tokens"),
        reasoning=count(usage, "reasoning_output_tokens"),
    )


def _shape(brick: Brick) -> str | None:
    match brick.kind:
        case "skill":
            return skill_brick(brick)
        case "context":
            return file_brick(brick)
    return json_brick(brick)


# -- its configuration -----------------------------------------------------------------------------


def _config(launch: Launch) -> str:
    level = level_of(launch)
    top: dict[str, Any] = {
        "model": launch.model,
        "model_provider": "battery",
        "model_context_window": 128_000,
        "approval_policy": "never",
        # The sandbox is ours, and one inside of it would need user namespaces.
        "sandbox_mode": "danger-full-access",
        "check_for_update_on_startup": False,
        "web_search": "disabled",
        "project_doc_max_bytes": 0,
        "model_reasoning_summary": "none",
        **({} if level is None else {"model_reasoning_effort": "none" if level == "off" else level}),
        **({"model_instructions_file": f"{launch.inside_dir}/system.md"} if launch.system else {}),
        **({"developer_instructions": told} if (told := _developer(launch)) else {}),
    }
    tables: dict[str, dict[str, Any]] = {
        "model_providers.battery": {
            "name": "battery",
            "base_url": f"{launch.base_url}/v1",
            "env_key": "BATTERY_KEY",
            "wire_api": "responses",
            # The one counts for each of the other.
            "request_max_retries": 0,
            "stream_max_retries": launch.retries,
            "stream_idle_timeout_ms": 900_000,  # the relay is what bounds a wait
        },
        "features": {"plugins": False, "apps": False, "goals": False, "unbounded_connection_retries": False},
        "agents": {"enabled": False},
        "analytics": {"enabled": False},
        "skills": {"include_instructions": False},
        "skills.bundled": {"enabled": False},
        **{f"mcp_servers.{_toml(name)}": server for name, server in sorted(mcp_servers(launch).items())},
    }
    lines = [f"{name} = {_toml(value)}" for name, value in top.items()]
    for table, values in tables.items():
        lines += [
            f"[{table}]",
            *(f"{_toml(name) if '.' in name else name} = {_toml(v)}" for name, v in values.items() if v is not None),
        ]
    return "\n".join(lines) + "\n"


def _developer(launch: Launch) -> str:
    skills = [brick for brick in launch.bricks if brick.kind == "skill"]
    texts = []
    if skills:
        listed = "\n".join(
            f"- {brick.path.name}: {_description(brick)} (file: {inside(launch, brick)}/SKILL.md)" for brick in skills
        )
        texts.append(
            "<skills_instructions>\n## Skills\nA skill is a set of local instructions to follow that is stored in a "
            "`SKILL.md` file. Below is the list of skills that can be used. When the task matches a skill's description, "
            f"read its file and follow it.\n### Available skills\n{listed}\n</skills_instructions>"
        )
    if launch.append:
        texts.append(launch.append)
    return "\n\n".join(texts)


def _description(brick: Brick) -> str:
    found = _DESCRIBED.search((brick.path / "SKILL.md").read_text(encoding="utf-8", errors="replace"))
    return found[1].strip().strip("\"'") if found else "no description"


def _toml(value: Any) -> str:
    """*value* as TOML has it; a JSON text is a basic string but for one character."""
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{_toml(str(name))} = {_toml(item)}" for name, item in value.items() if item is not None)
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
