"""A stack: the harness an agent runs under.  Plain calls have none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from pytest_battery.values.canonical import digest

__all__ = ["AGENTS", "BARE", "BRICK_KINDS", "NONE", "BrickKind", "Stack", "StackBrick", "stack"]

AGENTS = ("loop", "pi", "claude-code", "codex", "mini-swe-agent", "command")
"""The agents there are drivers for."""

BrickKind = Literal["extension", "skill", "context", "agents", "mcp"]
BRICK_KINDS: tuple[BrickKind, ...] = get_args(BrickKind)

BARE = "bare"
"""The stack that every agent has: no brick, and nothing that it would find by itself."""


@dataclass(frozen=True, slots=True)
class StackBrick:
    """One piece of harness.

    ``name`` is its path from the project's root, as the manifest has it; ``path`` is where it lies on this machine, which is
    no part of what it is.  ``digest`` is of its content, or the name and version of an installed package.
    """

    kind: BrickKind
    name: str
    digest: str
    path: Path = field(compare=False)


@dataclass(frozen=True, slots=True)
class Stack:
    """``key`` names it in ids and directories; ``entries`` are its bricks; ``fingerprint`` is of their content."""

    key: str
    entries: tuple[str, ...] = ()
    fingerprint: str = ""
    agent: str | None = None
    version: str | None = None
    bricks: tuple[StackBrick, ...] = ()


NONE = Stack("none")


def stack(key: str, agent: str, version: str | None = None, bricks: Sequence[StackBrick] = ()) -> Stack:
    """A stack of *agent*, with the fingerprint of what it is made of: the agent, its version, and the content of each brick.

    The order of the bricks is part of it, since agents load them in that order; the key is not, nor are the bricks' paths.
    """
    return Stack(
        key,
        entries=tuple(f"{brick.kind} {brick.name}" for brick in bricks),
        fingerprint=digest([agent, version, [[brick.kind, brick.digest] for brick in bricks]]),
        agent=agent,
        version=version,
        bricks=tuple(bricks),
    )
