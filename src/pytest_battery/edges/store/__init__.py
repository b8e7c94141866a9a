"""The store: one JSON file a run, evidence beside it."""

from pytest_battery.edges.store.evidence import Evidence, read_artifacts
from pytest_battery.edges.store.files import Putting, Store
from pytest_battery.edges.store.locks import LaneLocks
from pytest_battery.edges.store.reading import Problem, Stored

__all__ = ["Evidence", "LaneLocks", "Problem", "Putting", "Store", "Stored", "read_artifacts"]
