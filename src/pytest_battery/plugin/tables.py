"""The gap table of a session, computed once for all who say it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from pytest_battery.doing.tabling import Tabled, tabled
from pytest_battery.plugin.session import Battery
from pytest_battery.saying.gaps import GapTable, gap_table
from pytest_battery.saying.resampling import ALPHA
from pytest_battery.values.permutations import Cell

__all__ = ["Shown", "shown_table"]


@dataclass(frozen=True)
class Shown:
    result: Tabled
    table: GapTable


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
        if config.option.battery_gate is not None:
            names, shown = None, lambda _: True
        prepared = [one for name, one in battery.tasks.items() if names is None or name in names]
        runner = config.pluginmanager.get_plugin("battery-runner")
        decided = runner.decisions if runner is not None else {}
        result = tabled(battery.store, battery.models, prepared, battery.choice, shown, decided, battery.other())
        looks = config.option.battery_looks
        table = gap_table(result.tasks, alpha=ALPHA / looks if looks else ALPHA)
        config.stash[_SHOWN] = Shown(result, table)
    return config.stash[_SHOWN]
