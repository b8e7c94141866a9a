"""To the cent, against the vendors' published arithmetic; and unknown where something is."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from pytest_battery.edges.prices import Declared, price, rates
from pytest_battery.values.usage import Cost, Usage

WHEN = datetime(2026, 12, 1, tzinfo=UTC)
FULL = Usage(input=1200, cache_read=8000, cache_write=400, output=350, reasoning=100)


def plain(tokens_in: int, tokens_out: int) -> Usage:
    return Usage(input=tokens_in, cache_read=0, cache_write=0, output=tokens_out)


def usd(*parts: tuple[int, str]) -> float:
    """Tokens times USD per million, added up by hand."""
    return float(sum((Decimal(tokens) * Decimal(rate) / 1_000_000 for tokens, rate in parts), Decimal(0)))


@pytest.mark.parametrize(
    ("provider", "model", "usage", "expected"),
    [
        # Claude Haiku 4.5: $1 input, $0.10 cache read, $1.25 cache write, $5 output a million tokens
        ("anthropic", "claude-haiku-4-5", FULL, usd((1200, "1"), (8000, "0.1"), (400, "1.25"), (350, "5"))),
        ("anthropic", "claude-haiku-4-5", plain(1000, 100), usd((1000, "1"), (100, "5"))),
        (
            "vertex-anthropic",
            "claude-haiku-4-5@20251001",
            FULL,
            usd((1200, "1"), (8000, "0.1"), (400, "1.25"), (350, "5")),
        ),
        # Claude Sonnet 4.5, $3, $3.75, $0.30 and $15: a bill of $0.054399
        (
            "anthropic",
            "claude-sonnet-4-5",
            Usage(input=3, cache_read=0, cache_write=12304, output=550),
            0.054399,
        ),
        # GPT-4o: $2.50, cached $1.25, $10; of 2,459 tokens of prompt 2,455 were cached
        (
            "openai",
            "gpt-4o",
            Usage(input=4, cache_read=2455, cache_write=0, output=23),
            usd((4, "2.5"), (2455, "1.25"), (23, "10")),
        ),
        ("openai-responses", "gpt-4o", plain(1000, 100), usd((1000, "2.5"), (100, "10"))),
        # Gemini 2.5 Pro: $1.25 and $10 up to 200,000 tokens of prompt, $2.50 and $15 beyond, for the whole call
        ("google", "gemini-2.5-pro", plain(200_000, 1000), usd((200_000, "1.25"), (1000, "10"))),
        ("google", "gemini-2.5-pro", plain(200_001, 1000), usd((200_001, "2.5"), (1000, "15"))),
        ("openrouter", "anthropic/claude-haiku-4.5", plain(1000, 100), usd((1000, "1"), (100, "5"))),
        ("openrouter", "qwen/qwen3-coder:free", plain(1000, 100), 0.0),
    ],
)
def test_a_call_costs_what_the_vendor_says(provider: str, model: str, usage: Usage, expected: float) -> None:
    cost = price(provider, model, usage, None, WHEN)
    assert cost.usd == pytest.approx(expected, abs=1e-12)
    assert cost.priced_by is not None
    assert cost.priced_by.startswith("genai-prices ")
    assert cost.price_date == "2026-12-01"


def test_the_cached_part_of_a_prompt_counts_for_its_length() -> None:
    usage = Usage(input=1, cache_read=200_000, cache_write=0, output=0)
    # Gemini 2.5 Pro beyond 200,000 tokens: $2.50, and $0.25 from the cache
    assert price("google", "gemini-2.5-pro", usage, None, WHEN).usd == usd((1, "2.5"), (200_000, "0.25"))


def test_reasoning_is_paid_once() -> None:
    usage = Usage(input=10, cache_read=0, cache_write=0, output=500, reasoning=400)
    assert price("openai", "gpt-5", usage, None, WHEN).usd == usd((10, "1.25"), (500, "10"))
    assert price("lan", "m", usage, Declared(1.25, 10), WHEN).usd == usd((10, "1.25"), (500, "10"))


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-nobody-knows"),
        ("lan", "any"),
        ("google", "gemma-3"),  # listed, without a price
        ("google", "gemma-3n:free"),  # only OpenRouter's names say so
        ("openai", "whisper-1"),  # priced by the hour of sound
        ("openai", "text-embedding-3-small"),  # its output has no price
        ("openrouter", "stealth/crouton-alpha"),  # listed without a price, and nobody calls it free
        ("openrouter", "nobody/knows:free-ish"),
    ],
)
def test_what_has_no_price_is_unpriced_and_not_free(provider: str, model: str) -> None:
    assert price(provider, model, FULL, None, WHEN) == Cost()
    assert rates(provider, model, None) is None


@pytest.mark.parametrize("part", ["input", "cache_read", "cache_write", "output"])
def test_an_unknown_part_makes_the_cost_unknown(part: str) -> None:
    usage = FULL.model_copy(update={part: None})
    assert price("anthropic", "claude-haiku-4-5", usage, None, WHEN).usd is None
    assert price("lan", "m", usage, Declared(1, 2), WHEN).usd is None


def test_an_unknown_part_that_costs_nothing_does_not_matter() -> None:
    usage = FULL.model_copy(update={"cache_read": None, "reasoning": None})
    cost = price("lan", "m", usage, Declared(1, 2, cache_read=0), WHEN)
    assert cost.usd == usd((1200, "1"), (400, "1"), (350, "2"))


def test_a_declared_price_goes_before_a_listed_one() -> None:
    cost = price("anthropic", "claude-haiku-4-5", FULL, Declared(2, 4, cache_read=0.5), WHEN)
    assert cost.usd == usd((1200, "2"), (350, "4"), (8000, "0.5"), (400, "2"))
    assert (cost.priced_by, cost.price_date) == ("battery.toml", "2026-12-01")
    found = rates("anthropic", "claude-haiku-4-5", Declared(2, 4))
    assert found is not None
    assert (found.input, found.output, found.by) == (2, 4, "battery.toml")


def test_every_declared_part_has_its_own_price() -> None:
    cost = price("lan", "m", FULL, Declared(1, 10, cache_read=100, cache_write=1000), WHEN)
    assert cost.usd == usd((1200, "1"), (350, "10"), (8000, "100"), (400, "1000"))


def test_a_declared_nothing_is_free_whatever_is_known() -> None:
    assert price("lan", "m", Usage(), Declared(0, 0), WHEN).usd == 0.0
    assert price("openai", "gpt-5", FULL, Declared(0, 0), WHEN).usd == 0.0


def test_rates_are_those_of_a_million_tokens() -> None:
    found = rates("anthropic", "claude-haiku-4-5", None)
    assert found is not None
    assert (found.input, found.output) == (1.0, 5.0)
    assert found.by.startswith("genai-prices ")
    long_prompts_cost_more = rates("google", "gemini-2.5-pro", None)
    assert long_prompts_cost_more is not None
    assert (long_prompts_cost_more.input, long_prompts_cost_more.output) == (1.25, 10.0)
    assert rates("vertex-anthropic", "claude-haiku-4-5@20251001", None) == found


OFFLINE_AND_LATE = """\
import socket, sys
def no(*args, **kwargs): raise SystemExit("a connection was tried")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = no
from datetime import UTC, datetime
from pytest_battery.edges.prices import Declared, price
from pytest_battery.values.usage import Usage
usage = Usage(input=1, cache_read=0, cache_write=0, output=1)
price("lan", "m", usage, Declared(1, 1), datetime.now(UTC))
price("lan", "m", usage, None, datetime.now(UTC))
assert "genai_prices" not in sys.modules
assert price("openai", "gpt-5", usage, None, datetime.now(UTC)).usd
assert "genai_prices" in sys.modules
"""


def test_the_list_is_loaded_only_where_it_is_needed_and_never_from_elsewhere() -> None:
    done = subprocess.run([sys.executable, "-c", OFFLINE_AND_LATE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
