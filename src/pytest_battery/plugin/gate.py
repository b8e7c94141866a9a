"""The gate in a session: one synthetic report per judgement, once the loop has run to its end."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_battery.errors import BatteryError
from pytest_battery.plugin.session import Battery, known_battery
from pytest_battery.saying.rendering.inert import inert

if TYPE_CHECKING:
    from pytest_battery.saying.gating import Judgement

__all__ = ["JUDGED", "Gate"]

JUDGED = pytest.StashKey["tuple[Judgement, ...]"]()


_PHASES: tuple[Literal["setup", "call", "teardown"], ...] = ("setup", "call", "teardown")


class Gate:
    """Registered in the process that talks to people, with ``--gate``."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """A gate that could not say what it judges is refused before anything is spent."""
        battery = known_battery(self.config)
        faults = [] if battery is None else list(_unclear(battery))
        if faults:
            raise pytest.UsageError("\n".join(faults))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, Any]:
        result = yield  # a loop that is cut short raises here: its session ends with another code than 0
        judgements = self._judgements()
        self.config.stash[JUDGED] = judgements
        session.testscollected += len(judgements)
        for judgement in judgements:
            self._report(judgement)
        return result

    def _judgements(self) -> tuple[Judgement, ...]:
        from pytest_battery.plugin.tables import shown_table
        from pytest_battery.saying.gating import Judgement, Rules, judge

        battery = known_battery(self.config)
        if battery is None:
            return (Judgement("battery", "failed", "nothing to judge: no task file was found here"),)
        option = self.config.option
        rules = Rules(strict=option.battery_gate == "strict", margin=option.battery_gate_margin)
        try:
            shown = shown_table(self.config, battery)
        except BatteryError as error:
            return (Judgement("battery", "failed", str(error)),)
        uncollected = [
            Judgement(prepared.task.name, "failed", "no Python test that asks this task was collected")
            for prepared in battery.unasked()
        ]
        return (*judge(shown.result.tasks, shown.table, rules), *uncollected)

    def _report(self, judgement: Judgement) -> None:
        nodeid = inert(f"gate::{judgement.name}")
        location = ("gate", None, nodeid.partition("::")[2])
        now = time.time()
        hook = self.config.hook
        hook.pytest_runtest_logstart(nodeid=nodeid, location=location)
        for when in _PHASES:
            failed = when == "call" and judgement.outcome == "failed"
            report = pytest.TestReport(
                nodeid=nodeid,
                location=location,
                keywords={"gate": 1},
                outcome="failed" if failed else "passed",
                longrepr=_said(inert(judgement.message)) if failed else None,
                when=when,
                duration=0.0,
                start=now,
                stop=now,
            )
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)


def _said(message: str) -> Any:
    """*message* as pytest shows a failure without a traceback, in the summary's one line too."""
    try:
        pytest.fail(message, pytrace=False)
    except pytest.fail.Exception as failure:
        return pytest.ExceptionInfo.from_exception(failure).getrepr(style="value")


def _unclear(battery: Battery) -> Iterator[str]:
    """Tasks with several metrics of which none is the one that decides."""
    for prepared in battery.tasks.values():
        metrics = prepared.task.metrics
        if len(metrics) > 1 and not any(metric.primary for metric in metrics):
            names = ", ".join(metric.name for metric in metrics)
            yield (
                f"{battery.shown(prepared.task.path)}: --gate judges the primary metric, and none of {names} is marked: "
                "write primary = true into one of them"
            )
