"""``battery.toml`` at the project's root: where things are, and what the battery should hold."""

from __future__ import annotations

from pytest_battery.edges.manifest.loading import MANIFEST, load_manifest
from pytest_battery.edges.manifest.tables import Manifest, PriceTable, ProductionTable, ProviderTable, SliceTable

__all__ = ["MANIFEST", "Manifest", "PriceTable", "ProductionTable", "ProviderTable", "SliceTable", "load_manifest"]
