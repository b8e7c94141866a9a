"""Tokens and money."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

__all__ = ["Cost", "Rates", "Usage"]


@dataclass(frozen=True, slots=True)
class Rates:
    """USD per million tokens, before anything is spent; of tiered prices the first tier.  ``by`` says who says so."""

    input: float
    output: float
    by: str


class Usage(BaseModel):
    """Tokens of one run, in disjoint parts; None where the provider did not say (unknown is never 0).

    ``input`` is without cache; ``reasoning`` is inside ``output``.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    input: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None

    def __add__(self, other: Usage) -> Usage:
        """The sum of two; a part unknown on either side is unknown in the sum."""
        parts = {}
        for name in type(self).model_fields:
            mine, theirs = getattr(self, name), getattr(other, name)
            parts[name] = None if mine is None or theirs is None else mine + theirs
        return Usage(**parts)


class Cost(BaseModel):
    """What a run cost in USD; ``usd`` is None where nobody can tell."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    usd: float | None = None
    priced_by: str | None = None
    price_date: str | None = None
    incomplete: bool = False
