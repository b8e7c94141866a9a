"""Did this change make it better, worse, or can't we tell?  Measurements of language models as pytest items.

The public names are imported on first use: this package is imported in every pytest run of a machine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_battery.edges.models.client import Provider
    from pytest_battery.edges.models.fake import FakeModel
    from pytest_battery.edges.store import Store
    from pytest_battery.errors import BatteryError, CallError, ScoringError
    from pytest_battery.scoring.scorers import Score, Scorer, View
    from pytest_battery.values.calls import Message, Reply, Request
    from pytest_battery.values.cases import Case
    from pytest_battery.values.records import Record
    from pytest_battery.values.subjects import Subject, parse_subject
    from pytest_battery.values.usage import Cost, Usage

__version__ = "0.1.0"

_HOMES = {
    "BatteryError": "errors",
    "CallError": "errors",
    "Case": "values.cases",
    "Cost": "values.usage",
    "FakeModel": "edges.models.fake",
    "Message": "values.calls",
    "Provider": "edges.models.client",
    "Record": "values.records",
    "Reply": "values.calls",
    "Request": "values.calls",
    "Score": "scoring.scorers",
    "Scorer": "scoring.scorers",
    "ScoringError": "errors",
    "Store": "edges.store",
    "Subject": "values.subjects",
    "Usage": "values.usage",
    "View": "scoring.scorers",
    "parse_subject": "values.subjects",
}

__all__ = [
    "BatteryError",
    "CallError",
    "Case",
    "Cost",
    "FakeModel",
    "Message",
    "Provider",
    "Record",
    "Reply",
    "Request",
    "Score",
    "Scorer",
    "ScoringError",
    "Store",
    "Subject",
    "Usage",
    "View",
    "parse_subject",
]


def __getattr__(name: str) -> Any:
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
