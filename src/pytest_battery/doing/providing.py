"""Who can be asked: the providers built in, those of the manifest, and what each costs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import NoReturn

from pytest_battery.edges.manifest import Manifest, PriceTable, ProviderTable
from pytest_battery.edges.models.client import Provider
from pytest_battery.edges.models.providers import BUILT_IN, UNAVAILABLE, ProviderConfig
from pytest_battery.edges.prices import Declared, price, rates
from pytest_battery.errors import ProviderError
from pytest_battery.values.subjects import Subject
from pytest_battery.values.usage import Cost, Rates, Usage

__all__ = ["config_of", "declared_price", "late_providers"]


def late_providers(manifest: Manifest, environ: Mapping[str, str] = os.environ) -> dict[str, Callable[[], Provider]]:
    """By name, what makes a provider when a subject first names it: none is made, and no key is read, before that."""
    made: dict[str, Callable[[], Provider]] = {name: partial(_local) for name in ("local",)}
    for name in {**BUILT_IN, **manifest.providers}:
        made[name] = partial(_http, config_of(manifest, name), environ)
    for name, why in UNAVAILABLE.items():
        made.setdefault(name, partial(_unavailable, name, why))
    return made


def config_of(manifest: Manifest, name: str) -> ProviderConfig:
    """The configuration of provider *name*; the manifest's goes before the one built in.  Raises `ProviderError`."""
    declared = manifest.providers.get(name)
    if declared is not None:
        return _declared(name, declared)
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name in UNAVAILABLE:
        _unavailable(name, UNAVAILABLE[name])
    known = ", ".join(sorted({*BUILT_IN, *manifest.providers}))
    raise ProviderError(f"no provider is called {name!r}; known: {known}")


def declared_price(config: ProviderConfig) -> Declared | None:
    """The price that the manifest declares, if it does."""
    if config.price is None:
        return None
    found = config.price
    return Declared(found["input"], found["output"], found.get("cache_read"), found.get("cache_write"))


def _declared(name: str, table: ProviderTable) -> ProviderConfig:
    return ProviderConfig(
        name=name,
        api=table.api,
        base_url=table.base_url,
        key_env=table.key_env,
        key_command=tuple(table.key_command or ()),
        price=_price_of(table.price),
        max_in_flight=table.max_in_flight,
        dialect=table.dialect,
        stream=table.stream,
        headers=dict(table.headers),
    )


def _price_of(table: PriceTable | None) -> dict[str, float] | None:
    if table is None:
        return None
    return {name: value for name, value in table.model_dump().items() if value is not None}


def _local() -> Provider:
    from pytest_battery.edges.models.local import LocalProvider  # only where a subject is local

    return LocalProvider()


def _http(config: ProviderConfig, environ: Mapping[str, str]) -> Provider:
    from pytest_battery.edges.models.http_provider import HttpProvider  # httpx, where a subject is hosted

    def cost(subject: Subject, usage: Usage, model: str | None) -> Cost:
        return price(config.name, subject.model, usage, declared_price(config), datetime.now(UTC))

    def per_million(subject: Subject) -> Rates | None:
        return rates(config.name, subject.model, declared_price(config))

    return HttpProvider(config, environ=environ, price=cost, rates=per_million)


def _unavailable(name: str, why: str) -> NoReturn:
    raise ProviderError(f"{name}: {why}")
