"""Which parts take part in which process, once there is something to measure."""

from __future__ import annotations

import pytest

from pytest_battery.plugin import options
from pytest_battery.plugin.session import Battery

__all__ = ["activate"]


def activate(config: pytest.Config, battery: Battery) -> None:
    """Register what the process is for: running items, talking to people, or both."""
    from pytest_battery.plugin.report import Reporter
    from pytest_battery.plugin.run import Runner

    register = config.pluginmanager.register
    is_worker = hasattr(config, "workerinput")
    if not options.distributes(config):
        register(Runner(config, battery), "battery-runner")
    if not is_worker:
        register(Reporter(config, battery), "battery-reporter")
        from pytest_battery.plugin.live import Live, wanted

        if wanted(config):
            register(Live(config, battery), "battery-live")
