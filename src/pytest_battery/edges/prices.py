"""What a call costs: by the provider's declared prices, else by genai-prices; unknown is unknown, never 0."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from pytest_battery.values.usage import Cost, Rates, Usage

__all__ = ["DECLARED", "Declared", "price", "rates"]

DECLARED = "battery.toml"

_MILLION = Decimal(1_000_000)
_THEIRS = {
    "anthropic": "anthropic",
    "google": "google",
    "openai": "openai",
    "openai-responses": "openai",
    "openrouter": "openrouter",
    "vertex-anthropic": "google",
}
"""Our providers by genai-prices' names; a provider that is not here has the prices it declares."""


@dataclass(frozen=True, slots=True)
class Declared:
    """USD per million tokens; what goes through the cache costs as input does where nothing else is said."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


def price(provider: str, model: str, usage: Usage, declared: Declared | None, when: datetime) -> Cost:
    """The cost of one call.  ``usd`` is None where the model has no price, or tokens that cost something are unknown.

    Our usage is in disjoint parts; genai-prices wants the whole input, with the cache's part beside it.
    """
    day = when.date().isoformat()
    if declared is not None:
        if not any((declared.input, declared.output, declared.cache_read, declared.cache_write)):
            return Cost(usd=0.0, priced_by=DECLARED, price_date=day)
        return Cost(usd=_by_declared(usage, declared), priced_by=DECLARED, price_date=day)
    theirs = _THEIRS.get(provider)
    if theirs is None:
        return Cost()
    known = (usage.input, usage.cache_read, usage.cache_write, usage.output)
    import genai_prices  # half a second, for hosted models only

    by = f"genai-prices {genai_prices.__version__}"
    if any(part is None for part in known):
        return Cost(priced_by=by, price_date=day)
    tokens = [part or 0 for part in known]
    given = {"input_tokens": sum(tokens[:3]), "output_tokens": tokens[3]}
    given |= {"cache_read_tokens": tokens[1]} if tokens[1] else {}
    given |= {"cache_write_tokens": tokens[2]} if tokens[2] else {}
    try:
        found = genai_prices.calc_price(
            genai_prices.Usage(**given), _model(provider, model), provider_id=theirs, genai_request_timestamp=when
        )
    except (LookupError, ValueError):
        return Cost(price_date=day)
    return Cost(usd=float(found.total_price), priced_by=by, price_date=day)


def _by_declared(usage: Usage, declared: Declared) -> float | None:
    """The sum of the parts; a part that is unknown matters where it has a price."""
    cache_read = declared.input if declared.cache_read is None else declared.cache_read
    cache_write = declared.input if declared.cache_write is None else declared.cache_write
    parts = (
        (usage.input, declared.input),
        (usage.output, declared.output),
        (usage.cache_read, cache_read),
        (usage.cache_write, cache_write),
    )
    total = Decimal(0)
    for tokens, rate in parts:
        if tokens is None:
            if rate:
                return None
            continue
        total += Decimal(tokens) * Decimal(str(rate)) / _MILLION
    return float(total)


def rates(provider: str, model: str, declared: Declared | None) -> Rates | None:
    """What a million tokens cost, None for a model without a price."""
    if declared is not None:
        return Rates(declared.input, declared.output, DECLARED)
    theirs = _THEIRS.get(provider)
    if theirs is None:
        return None
    import genai_prices

    def cost(**tokens: int) -> float:
        calculated = genai_prices.calc_price(genai_prices.Usage(**tokens), _model(provider, model), provider_id=theirs)
        return float(calculated.total_price) * 1000

    try:
        by: Any = f"genai-prices {genai_prices.__version__}"
        return Rates(cost(input_tokens=1000), cost(output_tokens=1000), by)
    except (LookupError, ValueError):
        return None


def _model(provider: str, model: str) -> str:
    """The name by which prices are listed: without Vertex's version behind an ``@``, or OpenRouter's ``:free``."""
    return model.partition("@")[0] if provider == "vertex-anthropic" else model
