"""What a call costs: by the provider's declared prices, else by genai-prices; unknown is unknown, never 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from pytest_battery.values.usage import Cost, Rates, Usage

__all__ = ["DECLARED", "Declared", "price", "rates"]

DECLARED = "battery.toml"

_MILLION = 1_000_000
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

    ``price_date`` is the day of *when*, for which prices were looked up: some models are listed with a price from a
    day on.  genai-prices carries no date of its own; its version, in ``priced_by``, says which list that was.
    """
    day = when.date().isoformat()
    if declared is not None:
        return Cost(usd=_by_declared(usage, declared), priced_by=DECLARED, price_date=day)
    if provider not in _THEIRS:
        return Cost()
    parts = (usage.input, usage.cache_read, usage.cache_write, usage.output)
    known = [part for part in parts if part is not None]
    usd = _listed(provider, model, *known, when=when) if len(known) == len(parts) else None
    return Cost() if usd is None else Cost(usd=float(usd), priced_by=_by(), price_date=day)


def rates(provider: str, model: str, declared: Declared | None) -> Rates | None:
    """What a million tokens cost today, None for a model without a price.  Of prices that rise with the length of the
    prompt, those of a short one."""
    if declared is not None:
        return Rates(declared.input, declared.output, DECLARED)
    if provider not in _THEIRS:
        return None
    now = datetime.now(UTC)
    of_input = _listed(provider, model, 1, 0, 0, 0, when=now)
    of_output = _listed(provider, model, 0, 0, 0, 1, when=now)
    if of_input is None or of_output is None:
        return None
    return Rates(float(of_input * _MILLION), float(of_output * _MILLION), _by())


def _by_declared(usage: Usage, declared: Declared) -> float | None:
    """The sum of the parts; a part that is unknown matters where it has a price."""
    parts = (
        (usage.input, declared.input),
        (usage.output, declared.output),
        (usage.cache_read, declared.input if declared.cache_read is None else declared.cache_read),
        (usage.cache_write, declared.input if declared.cache_write is None else declared.cache_write),
    )
    total = Decimal(0)
    for tokens, rate in parts:
        if not rate:
            continue
        if tokens is None:
            return None
        total += tokens * Decimal(str(rate)) / _MILLION
    return float(total)


def _by() -> str:
    import genai_prices

    return f"genai-prices {genai_prices.__version__}"


def _listed(
    provider: str, model: str, fresh: int, cache_read: int, cache_write: int, output: int, *, when: datetime
) -> Decimal | None:
    """USD by genai-prices, None where it has no price for what was used.

    Our parts are disjoint; genai-prices wants the whole input, and beside it which of it concerns the cache.
    """
    import genai_prices  # half a second, for hosted models only

    counts = {"input_tokens": fresh + cache_read + cache_write, "output_tokens": output}
    counts |= {"cache_read_tokens": cache_read} if cache_read else {}
    counts |= {"cache_write_tokens": cache_write} if cache_write else {}
    name = _name(provider, model)
    try:
        found = genai_prices.calc_price(
            genai_prices.Usage(**counts), name, provider_id=_THEIRS[provider], genai_request_timestamp=when
        )
    except (LookupError, ValueError):
        return None
    if not _is_priced(vars(found.model_price), provider, name, output):
        return None
    return found.total_price


def _is_priced(prices: Mapping[str, object], provider: str, name: str, output: int) -> bool:
    """Whether a listed model has prices for what was used: it may be listed without any, and then seem to cost nothing.

    OpenRouter's ``:free`` models are the exception: they are listed without a price because they have none.
    """
    if provider == "openrouter" and name.endswith(":free"):
        return True
    wanted = ["input_mtok", *(["output_mtok"] if output else [])]
    return all(prices.get(key) is not None for key in wanted)


def _name(provider: str, model: str) -> str:
    """The name by which prices are listed: without the version that Vertex has behind an ``@``."""
    return model.partition("@")[0] if provider == "vertex-anthropic" else model
