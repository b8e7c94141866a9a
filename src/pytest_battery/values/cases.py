"""A case: one input of a task, with what is expected of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Case"]


@dataclass(frozen=True, slots=True)
class Case(Mapping[str, Any]):
    """A mapping of the case's fields; ``case["text"]`` reads one.

    ``source`` and ``line`` (1-based, 0 where unknown) say where it was written.
    """

    id: str
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)
    source: str = ""
    line: int = 0

    def __getitem__(self, name: str) -> Any:
        return self.id if name == "id" else self.fields[name]

    def __iter__(self) -> Iterator[str]:
        yield "id"
        yield from self.fields

    def __len__(self) -> int:
        return 1 + len(self.fields)
