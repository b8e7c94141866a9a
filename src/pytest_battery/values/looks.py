"""How often a gap was looked at since its reference was measured."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from pydantic import BaseModel, ConfigDict

__all__ = ["Look", "look_number"]


class Look(BaseModel):
    """One look at one gap: ``candidate`` and ``reference`` are digests of the runs on either side."""

    model_config = ConfigDict(frozen=True, extra="allow")

    task: str
    subject: str
    stack: str
    candidate: str
    reference: str
    at: datetime

    @property
    def gap(self) -> tuple[str, str, str, str]:
        """What is looked at: a cell against one reference.  Other runs of the reference make it another gap."""
        return self.task, self.subject, self.stack, self.reference


def look_number(ledger: Iterable[Look], look: Look) -> int:
    """Which look at its gap *look* is, the first being 1.  The same runs seen again are the same look."""
    seen = dict.fromkeys(other.candidate for other in ledger if other.gap == look.gap)
    order = list(seen)
    return order.index(look.candidate) + 1 if look.candidate in seen else len(order) + 1
