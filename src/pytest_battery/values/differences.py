"""Where two plain JSON values first differ, in words."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

__all__ = ["first_difference"]

_SHOWN = 80  # characters of each side of a difference


def first_difference(then: Any, now: Any, path: str = "") -> str:
    """Where *now* differs from what was recorded *then*, and how; empty where it doesn't."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for name in [*then, *(name for name in now if name not in then)]:
            below = f"{path}.{name}" if path else str(name)
            if found := first_difference(then.get(name), now.get(name), below):
                return found
        return ""
    if isinstance(then, list) and isinstance(now, list):
        for index, (one, other) in enumerate(zip_longest(then, now)):
            if found := first_difference(one, other, f"{path}[{index}]"):
                return found
        return ""
    if then == now:
        return ""
    if isinstance(then, str) and isinstance(now, str):
        start = next((place for place, (a, b) in enumerate(zip_longest(then, now)) if a != b), 0)
        begin = max(0, start - 20)
        return (
            f"{path} differs at character {start + 1}: recorded {then[begin : begin + _SHOWN]!r}, "
            f"asked {now[begin : begin + _SHOWN]!r}"
        )
    return f"{path} differs: recorded {then!r:.{_SHOWN}}, asked {now!r:.{_SHOWN}}"
