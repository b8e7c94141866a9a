"""To the cent, against the vendors' published arithmetic; and unknown where something is."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from pytest_battery.edges.prices import Declared, price, rates
from pytest_battery.values.usage import Usage

WHEN = datetime(2026, 12, 1, tzinfo=UTC)
FULL = Usage(input=1200, cache_read=8000, cache_write=400, output=350, reasoning=100)


def usd(*parts: tuple[int, str]) -> float:
    """Tokens times USD per million, added up by hand."""
    return float(sum((Decimal(tokens) * Decimal(rate) / 1_000_000 for tokens, rate in parts), Decimal(0)))


@pytest.mark.parametrize(
    ("provider", "model", "usage", "expected"),
    [
        # Claude Haiku 4.5: $1 input, $0.10 cache read, $1.25 cache write, $5 output a million tokens
        ("anthropic", "claude-haiku-4-5", FULL, usd((1200, "1"), (8000, "0.1"), (400, "1.25"), (350, "5"))),
        (
            "anthropic",
            "claude-haiku-4-5",
            Usage(input=1000, cache_read=0, cache_write=0, output=100),
            usd((1000, "1"), (100, "5")),
        ),
        # Gemini 2.5 Pro: $1.25 and $10 up to 200,000 tokens of prompt, $2.50 and $15 beyond, for the whole call
        (
            "google",
            "gemini-2.5-pro",
            Usage(input=200_000, cache_read=0, cache_write=0, output=1000),
            usd((200_000, "1.25"), (1000, "10")),
        ),
        (
            "google",
            "gemini-2.5-pro",
            Usage(input=200_001, cache_read=0, cache_write=0, output=1000),
            usd((200_001, "2.5"), (1000, "15")),
        ),
    ],
)
def test_a_call_costs_what_the_vendor_says(provider: str, model: str, usage: Usage, expected: float) -> None:
    cost = price(provider, model, usage, None, WHEN)
    assert cost.usd == pytest.approx(expected, abs=1e-12)
    assert cost.priced_by is not None
    assert cost.priced_by.startswith("genai-prices ")
    assert cost.price_date == "2026-12-01"


def test_reasoning_is_paid_once() -> None:
    with_reasoning = Usage(input=10, cache_read=0, cache_write=0, output=500, reasoning=400)
    without = Usage(input=10, cache_read=0, cache_write=0, output=500)
    assert price("openai", "gpt-5", with_reasoning, None, WHEN).usd == price("openai", "gpt-5", without, None, WHEN).usd


def test_what_has_no_price_is_unpriced_and_not_free() -> None:
    assert price("openai", "gpt-nobody-knows", FULL, None, WHEN).usd is None
    assert price("lan", "any", FULL, None, WHEN).usd is None
    assert rates("lan", "any", None) is None
    assert rates("openai", "gpt-nobody-knows", None) is None


@pytest.mark.parametrize("part", ["input", "cache_read", "cache_write", "output"])
def test_an_unknown_part_makes_the_cost_unknown(part: str) -> None:
    usage = FULL.model_copy(update={part: None})
    assert price("anthropic", "claude-haiku-4-5", usage, None, WHEN).usd is None
    assert price("lan", "m", usage, Declared(1, 2), WHEN).usd is None


def test_a_declared_price_goes_before_a_listed_one() -> None:
    cost = price("anthropic", "claude-haiku-4-5", FULL, Declared(2, 4, cache_read=0.5), WHEN)
    assert cost.usd == pytest.approx(usd((1200, "2"), (350, "4"), (8000, "0.5"), (400, "2")), abs=1e-12)
    assert cost.priced_by == "battery.toml"


def test_a_declared_nothing_is_free_whatever_is_known() -> None:
    assert price("lan", "m", Usage(), Declared(0, 0), WHEN).usd == 0.0


def test_rates_are_those_of_a_million_tokens() -> None:
    found = rates("anthropic", "claude-haiku-4-5", None)
    assert found is not None
    assert (found.input, found.output) == (1.0, 5.0)
    assert rates("vertex-anthropic", "claude-haiku-4-5@20251001", None) is not None
