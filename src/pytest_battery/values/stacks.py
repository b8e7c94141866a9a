"""A stack: the harness an agent runs under.  Plain calls have none."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NONE", "Stack"]


@dataclass(frozen=True, slots=True)
class Stack:
    """``key`` names it in ids and directories; ``entries`` are its bricks; ``fingerprint`` is of their content."""

    key: str
    entries: tuple[str, ...] = ()
    fingerprint: str = ""


NONE = Stack("none")
