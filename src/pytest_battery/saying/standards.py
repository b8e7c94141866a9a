"""What every verdict is made with."""

from __future__ import annotations

__all__ = ["ALPHA", "DRAWS", "SEED"]

ALPHA = 0.05
"""The level at which a gap is established; Holm's adjustment holds it over a whole table."""
DRAWS = 10_000
SEED = 20260729
