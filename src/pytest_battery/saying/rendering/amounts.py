"""Money in words."""

from __future__ import annotations

__all__ = ["money"]


def money(usd: float) -> str:
    """US dollars with cents; amounts below a cent with as many digits as they need."""
    return f"${usd:.2f}" if usd == 0 or usd >= 0.01 else f"${usd:.4f}"
