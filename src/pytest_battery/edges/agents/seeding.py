"""The agent's own directory: written anew for each run, from the launch alone, the same bytes each time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_battery.edges.agents.launches import Brick, Kind, Launch, inside

__all__ = [
    "MOST_TEXT",
    "agents_of",
    "context_of",
    "file_brick",
    "json_brick",
    "linked",
    "mcp_servers",
    "skill_brick",
    "write",
    "write_json",
]

MOST_TEXT = 2**20
"""Bytes of a brick that is a file to be read."""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))


def write_json(path: Path, document: Any) -> None:
    write(path, json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def context_of(launch: Launch) -> str:
    """The texts of the context bricks, in order."""
    return "\n\n".join(_read(brick).strip("\n") for brick in launch.bricks if brick.kind == "context")


def mcp_servers(launch: Launch) -> dict[str, Any]:
    """The servers of all mcp bricks, by name; ``{here}`` in their texts is the brick's directory as the agent sees it."""
    found: dict[str, Any] = {}
    for brick in launch.bricks:
        if brick.kind == "mcp":
            found.update(_placed(json.loads(_read(brick))["mcpServers"], inside(launch, brick)))
    return found


def _placed(value: Any, here: str) -> Any:
    if isinstance(value, dict):
        return {name: _placed(item, here) for name, item in value.items()}
    if isinstance(value, list):
        return [_placed(item, here) for item in value]
    return value.replace("{here}", here) if isinstance(value, str) else value


def agents_of(launch: Launch) -> dict[str, Any]:
    """The definitions of all agents bricks, by name."""
    found: dict[str, Any] = {}
    for brick in launch.bricks:
        if brick.kind == "agents":
            found.update(json.loads(_read(brick)))
    return found


def linked(launch: Launch, kind: Kind, below: Path) -> None:
    """A link for each brick of *kind* in the directory *below*, to where the agent sees it."""
    for brick in launch.bricks:
        if brick.kind == kind:
            below.mkdir(parents=True, exist_ok=True)
            (below / brick.path.name).symlink_to(inside(launch, brick))


def skill_brick(brick: Brick) -> str | None:
    """What is wrong with a skill."""
    if not (brick.path / "SKILL.md").is_file():
        return "is no skill: it must be a directory with a SKILL.md"
    return None


def file_brick(brick: Brick) -> str | None:
    """What is wrong with a file that is read as text."""
    path = _file(brick)
    if not path.is_file():
        return "must be a file" if brick.kind != "mcp" else "must be a JSON file, or a directory with an mcp.json"
    if (size := path.stat().st_size) > MOST_TEXT:
        return f"has {size} bytes; it may have {MOST_TEXT}"
    try:
        text = _read(brick)
    except UnicodeDecodeError as error:
        return f"is no UTF-8: {error.reason} at byte {error.start}"
    return "holds a NUL character" if "\0" in text else None


def json_brick(brick: Brick) -> str | None:
    """What is wrong with a JSON file of agents or MCP servers."""
    if wrong := file_brick(brick):
        return wrong
    try:
        document = json.loads(_read(brick))
    except (ValueError, RecursionError) as error:
        return f"is no JSON: {error}"
    if brick.kind == "mcp" and isinstance(document, dict):
        if set(document) != {"mcpServers"}:
            return 'must be {"mcpServers": {NAME: SERVER}} and nothing else'
        document = document["mcpServers"]
    if not isinstance(document, dict) or not all(isinstance(value, dict) for value in document.values()):
        return "must be an object of objects, by name"
    return None if document else "is empty"


def _file(brick: Brick) -> Path:
    return brick.path / "mcp.json" if brick.kind == "mcp" and brick.path.is_dir() else brick.path


def _read(brick: Brick) -> str:
    return _file(brick).read_bytes().decode("utf-8")
