"""Canonical JSON, and the digests that identity is built from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["canonical_json", "digest"]


def canonical_json(value: Any) -> str:
    """*value* as JSON with sorted keys and no spaces; the same text for equal values, whatever their dict order.

    Tuples are arrays, other mappings are objects.  Raises ValueError for NaN and infinities.
    """
    return _canonical(value)


def digest(value: Any) -> str:
    """The first 32 hex digits of the sha256 of *value*'s canonical JSON (128 bits: no collision by chance)."""
    return hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()[:32]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


_canonical = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False, default=_plain
).encode  # made once: it costs more than most of what it writes
