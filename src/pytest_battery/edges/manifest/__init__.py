"""``battery.toml`` at the project's root: where things are, and what the battery should hold."""

from __future__ import annotations

from pytest_battery.edges.manifest.loading import MANIFEST, load_manifest
from pytest_battery.edges.manifest.stacks import stack_of
from pytest_battery.edges.manifest.tables import (
    BrickTable,
    Manifest,
    PriceTable,
    ProductionTable,
    ProviderTable,
    SliceTable,
    StackTable,
)

__all__ = [
    "MANIFEST",
    "BrickTable",
    "Manifest",
    "PriceTable",
    "ProductionTable",
    "ProviderTable",
    "SliceTable",
    "StackTable",
    "load_manifest",
    "stack_of",
]
