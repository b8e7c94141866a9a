"""The gap table of a session, computed once for all who say it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from pytest_battery.plugin.session import Battery
from pytest_battery.values.permutations import Cell

if TYPE_CHECKING:  # numpy comes with these; the first call need not wait for it
    from pytest_battery.doing.elsewhere import Other
    from pytest_battery.doing.tabling import Tabled
    from pytest_battery.saying.gaps import GapTable

__all__ = ["Shown", "place_line", "shown_table"]


@dataclass(frozen=True)
class Shown:
    """``unsaid`` is what went wrong with counting looks, or empty."""

    result: Tabled
    table: GapTable
    unsaid: str = ""


_SHOWN = pytest.StashKey[Shown]()


def shown_table(
    config: pytest.Config,
    battery: Battery,
    names: set[str] | None = None,
    shown: Callable[[Cell], bool] = lambda _: True,
) -> Shown:
    """The table of the tasks *names*, with the rows *shown*; under ``--gate`` that of the whole battery, all of it.

    Raises `BatteryError` where the reference cannot be read.
    """
    if _SHOWN not in config.stash:
        from pytest_battery.doing.garbage import no_garbage_collection
        from pytest_battery.doing.looking import looked
        from pytest_battery.doing.tabling import tabled
        from pytest_battery.saying.gaps import gap_table
        from pytest_battery.saying.standards import ALPHA

        if config.option.battery_gate is not None:
            names, shown = None, lambda _: True
        prepared = [one for name, one in battery.tasks.items() if names is None or name in names]
        runner = config.pluginmanager.get_plugin("battery-runner")
        decided = runner.decisions if runner is not None else {}
        looks = config.option.battery_looks
        with no_garbage_collection():
            result = tabled(battery.store, battery.models, prepared, battery.choice, shown, decided, battery.other())
            table = gap_table(result.tasks, alpha=ALPHA / looks if looks else ALPHA)
        table, unsaid = looked(battery.store, result.tasks, table, looks, battery.started)
        config.stash[_SHOWN] = Shown(result, table, unsaid)
    return config.stash[_SHOWN]


def place_line(word: str, other: Other, now: datetime) -> str:
    """What another place is, called *word*: commit, age, how many records, and who answered them."""
    seen = other.seen
    commit = []
    if other.commit is not None and other.committed_at is not None:
        commit = [f"{other.commit[:7]}, committed {_age(other.committed_at, now)} ago"]
    parts = [f"{word}: {other.name}" + (f" ({commit[0]})" if commit else "")]
    parts.append(f"{seen.records} record{'' if seen.records == 1 else 's'}")
    if seen.oldest is not None and seen.newest is not None:
        first, last = f"{seen.oldest:%Y-%m-%d}", f"{seen.newest:%Y-%m-%d}"
        parts.append(f"measured {first}" if first == last else f"measured {first} to {last}")
        parts.append(f"newest {_age(seen.newest, now)} old")
    if seen.models:
        parts.append(f"answered by {', '.join(sorted(seen.models))}")
    return ", ".join(parts)


def _age(then: datetime, now: datetime) -> str:
    seconds = max(0, (now - then).total_seconds())
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
