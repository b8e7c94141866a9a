"""The APIs by name."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_battery.edges.models.anthropic import Anthropic
from pytest_battery.edges.models.apis import Api
from pytest_battery.edges.models.google import Google
from pytest_battery.edges.models.openai_chat import OpenAIChat
from pytest_battery.edges.models.openai_responses import OpenAIResponses
from pytest_battery.errors import ProviderError

__all__ = ["APIS", "api"]

APIS: Mapping[str, Api] = {one.name: one for one in (Anthropic(), Google(), OpenAIChat(), OpenAIResponses())}


def api(name: str) -> Api:
    """Raises `ProviderError` for a name that is none."""
    if name not in APIS:
        raise ProviderError(f"no API is called {name!r}; known: {', '.join(APIS)}")
    return APIS[name]
