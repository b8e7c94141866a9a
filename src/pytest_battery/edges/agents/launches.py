"""What a run gives to a driver, and what a driver gives back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from pytest_battery.values.subjects import LEVELS
from pytest_battery.values.usage import Usage

__all__ = ["KINDS", "Brick", "Kind", "Launch", "Start", "Told", "brick_mounts", "fault_of", "inside", "level_of"]

Kind = Literal["extension", "skill", "context", "agents", "mcp"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_TOOL = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\Z")
_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+~-]*\Z")
_BASE_URL = re.compile(r"http://[A-Za-z0-9.-]+(:\d+)?(/[A-Za-z0-9._~-]+)*\Z")


@dataclass(frozen=True, slots=True)
class Brick:
    """One piece of harness, by its path on the host.

    An ``extension`` is what the agent calls so (a file or directory of pi's, a plugin directory of Claude Code's), a
    ``skill`` a directory with a SKILL.md, ``context`` a text file in the manner of AGENTS.md, ``agents`` a JSON file of
    agent definitions, ``mcp`` a JSON file with ``mcpServers``.
    """

    kind: Kind
    path: Path


@dataclass(frozen=True, slots=True)
class Launch:
    """One run of an agent.

    ``append`` is added to the agent's system prompt, and ``system`` put in its place.  ``tools`` are names of the agent's
    own; None is what it has by itself.  ``knobs`` are texts by name as a `Subject` has them, the level as ``thinking``; what
    the agent can't set is the relay's to write.  ``base_url`` is the relay as seen from inside, without the API's path, and
    ``key`` the credential that it wants to see.  ``agent_dir`` is a directory of the host's, empty, of this run alone, and
    ``inside_dir`` the same as seen from inside; so are ``install`` and ``inside_install``.  Bricks are seen below
    ``inside_bricks``; with None, where nothing is mounted, by their own paths.  ``retries`` is how often the agent asks
    again after a failed call.
    """

    prompt: str
    model: str
    api: str
    base_url: str
    agent_dir: Path
    install: Path
    append: str | None = None
    system: str | None = None
    tools: tuple[str, ...] | None = None
    knobs: Mapping[str, str] = field(default_factory=dict)
    bricks: tuple[Brick, ...] = ()
    inside_dir: str = "/agent"
    workdir: str = "/work"
    inside_install: str = "/opt/agents"
    inside_bricks: str | None = "/bricks"
    key: str = "battery"
    retries: int = 3


@dataclass(frozen=True, slots=True)
class Start:
    """How to start it.  ``environment`` is added to the sandbox's own; ``mounts`` are (host, inside), read-only."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    stdin: bytes = b""
    mounts: tuple[tuple[Path, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """What the agent says of its run: a claim, for whatever runs inside can write on the same stream.

    ``ended`` is that the end marker was seen.  ``error`` is why there is no answer; ``stop`` the reason in the words of
    `StopReason`, None of a run that failed otherwise than by an answer's length.  ``turns`` and ``usage`` are None where it
    doesn't say.  ``forged`` are lines that can't be the agent's, ``notes`` what else is odd.
    """

    final_text: str
    ended: bool
    error: str | None
    stop: str | None
    turns: int | None
    usage: Usage
    forged: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def level_of(launch: Launch) -> str | None:
    return launch.knobs.get("thinking")


def inside(launch: Launch, brick: Brick) -> str:
    """The path of *brick* as the agent sees it."""
    if launch.inside_bricks is None:
        return str(brick.path)
    return f"{launch.inside_bricks}/{1 + launch.bricks.index(brick)}/{brick.path.name}"


def brick_mounts(launch: Launch, *kinds: Kind) -> tuple[tuple[Path, str], ...]:
    """The bricks of *kinds*, which the agent reads by itself."""
    return tuple((brick.path, inside(launch, brick)) for brick in launch.bricks if brick.kind in kinds)


def fault_of(
    name: str,
    launch: Launch,
    *,
    apis: tuple[str, ...],
    kinds: tuple[Kind, ...],
    shape: Callable[[Brick], str | None],
) -> str | None:
    """What is wrong with *launch* whatever the agent; *shape* says what is wrong with a brick that is there."""
    return next(_faults(name, launch, apis, kinds, shape), None)


def _faults(
    name: str,
    launch: Launch,
    apis: tuple[str, ...],
    kinds: tuple[Kind, ...],
    shape: Callable[[Brick], str | None],
) -> Iterator[str]:
    if launch.api not in apis:
        yield f"{name} doesn't speak {launch.api}; it speaks {', '.join(apis)}"
    if not launch.prompt.strip():
        yield f"{name} was given an empty prompt"
    if not _MODEL.match(launch.model):
        yield f"{launch.model!r} is no id of a model"
    if not _BASE_URL.match(launch.base_url):
        yield f"{launch.base_url!r} is no base URL of the relay: http://HOST:PORT without a final slash"
    if not _KEY.match(launch.key):
        yield "the credential that the relay wants is written with letters, digits, _ and - only"
    if (level := level_of(launch)) is not None and level not in LEVELS:
        yield f"thinking={level}: the levels are {', '.join(LEVELS)}"
    if "max_tokens" in launch.knobs and not re.fullmatch(r"[1-9]\d{0,8}", launch.knobs["max_tokens"]):
        yield f"max_tokens={launch.knobs['max_tokens']}: {name} takes a whole number from 1"
    for tool in launch.tools or ():
        if not _TOOL.match(tool):
            yield f"{tool!r} is no name of a tool"
    for field_name in ("prompt", "append", "system"):
        if "\0" in (getattr(launch, field_name) or ""):
            yield f"{name}: the {field_name} holds a NUL character, which no agent can be given"
    for brick in launch.bricks:
        if brick.kind not in kinds:
            allowed = f"it takes {', '.join(kinds)}" if kinds else "it takes none"
            yield f"{name} can't load the brick {brick.path} of the kind {brick.kind}; {allowed}"
        elif not brick.path.exists():
            yield f"the brick {brick.path} ({brick.kind}) is not there"
        elif wrong := shape(brick):
            yield f"the brick {brick.path} ({brick.kind}) {wrong}"
    if len(set(launch.bricks)) < len(launch.bricks):
        yield f"{name} was given a brick twice"
