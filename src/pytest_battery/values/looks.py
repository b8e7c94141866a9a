"""How often a gap was looked at since its reference was measured."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from pydantic import BaseModel, ConfigDict

__all__ = ["Look", "look_number"]


class Look(BaseModel):
    """One look at one gap.  ``reference`` says what it is measured from, a cell since its first run; ``evidence`` is a
    digest of the runs of both sides that were looked at."""

    model_config = ConfigDict(frozen=True, extra="allow")

    task: str
    subject: str
    stack: str
    reference: str
    evidence: str
    at: datetime

    @property
    def gap(self) -> tuple[str, str, str, str]:
        """What is looked at: a cell against one reference.  Runs added to either side are further evidence about it."""
        return self.task, self.subject, self.stack, self.reference


def look_number(ledger: Iterable[Look], look: Look) -> int:
    """Which look at its gap *look* is, the first being 1.  The same runs seen again are the same look."""
    seen = dict.fromkeys(other.evidence for other in ledger if other.gap == look.gap)
    order = list(seen)
    return order.index(look.evidence) + 1 if look.evidence in seen else len(order) + 1
