"""Run items: a window of work ahead of the one pytest is at, and one short report for what is fresh."""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_battery.doing.asking import Asker
from pytest_battery.doing.garbage import rare_garbage_collection
from pytest_battery.doing.measuring import LaneResult, Measuring
from pytest_battery.doing.planning import Decision, Plan
from pytest_battery.doing.pump import Pump
from pytest_battery.errors import BatteryError, OverBudgetError, StoreWriteError
from pytest_battery.plugin.internals import queued_indices, run_once
from pytest_battery.plugin.outcomes import Outcome, cached_reason, invalid_line, outcome_of, over_budget
from pytest_battery.plugin.python_tests import asker_of
from pytest_battery.plugin.session import Battery, permutation_of
from pytest_battery.values.permutations import Permutation

__all__ = ["PLAN", "Runner"]

PLAN = pytest.StashKey[Plan]()
_OUTCOME = pytest.StashKey[Outcome]()


@dataclass(frozen=True, slots=True)
class _Work:
    """What the pump is given for one item."""

    permutation: Permutation
    decisions: tuple[Decision, ...]
    asker: Asker | None = None


class Runner:
    """Registered in every process that runs items: the only process, or each xdist worker."""

    def __init__(self, config: pytest.Config, battery: Battery) -> None:
        self.config, self.battery = config, battery
        self.measuring = Measuring(
            battery.store,
            battery.models,
            jobs=1 if config.option.usepdb else battery.jobs,  # one lane, where somebody looks into it
            mode=battery.mode,
            secrets=battery.secrets,
            budget=battery.budget,
            cluster=battery.cluster,
            manifest=battery.manifest,
            agents=battery.agents,
        )
        self.decisions: dict[Permutation, tuple[Decision, ...]] = {}
        self._pump: Pump[str, tuple[LaneResult, ...]] | None = None
        self._work: dict[str, _Work] = {}
        self._waiting = 0  # runs started and not yet measured; counted in two threads, so under the lock
        self._counting = threading.Lock()
        self._considered = 0  # items before this index were started or needed no start
        self._index: dict[pytest.Item, int] = {}
        self._collects_garbage = gc.isenabled()
        gc.disable()  # items are made by the thousand and all stay: looking for garbage among them finds none
        self._is_worker = hasattr(config, "workerinput")
        # pytest-html writes a row only once an item was torn down; in a worker, the controller may have it
        self._wants_teardown = self._is_worker or config.pluginmanager.hasplugin("html")

    # -- before anything runs ----------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)  # the terminal reporter shows the plan in its own
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Where this process talks to people too: refuse what can't be done, before the first call."""
        if self._collects_garbage:
            gc.collect()  # once: what pytest leaves behind of each item would be frozen with what stays
            gc.freeze()
            gc.enable()
        if self._is_worker:
            return
        if self.battery.faults.by_path:
            raise pytest.UsageError(self.battery.faults.text())
        if self.config.option.collectonly or session.testsfailed:
            return
        chosen = [permutation for item in session.items if (permutation := permutation_of(item)) is not None]
        if self.config.option.battery_force:
            self.battery.delete(chosen)  # counted in the plan
        plan, self.decisions = self.battery.make_plan(chosen)
        self.config.stash[PLAN] = plan

    # -- the look-ahead ----------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, Any]:
        if not any(permutation_of(item) for item in session.items):
            return (yield)
        self._index = {item: index for index, item in enumerate(session.items)}
        if not self._is_worker:
            threading.Thread(target=_import_tables, name="battery imports", daemon=True).start()
        with rare_garbage_collection(), _interrupted_by_sigterm(), self._new_pump() as self._pump:
            return (yield)

    def _new_pump(self) -> Pump[str, tuple[LaneResult, ...]]:
        return Pump(self._measure, self.measuring.aclose, self.measuring.drain)

    async def _measure(self, nodeid: str) -> tuple[LaneResult, ...]:
        work = self._work.pop(nodeid)
        prepared = self.battery.tasks[work.permutation.task]
        try:
            return await self.measuring.permutation(prepared, work.decisions, work.asker)
        finally:
            self._count(-len(work.decisions))

    def _count(self, runs: int) -> None:
        with self._counting:
            self._waiting += runs

    def _decided(self, permutation: Permutation) -> tuple[Decision, ...]:
        decided = self.decisions.get(permutation)
        if decided is None:
            decided = self.decisions[permutation] = self.battery.decide(permutation)
        return decided

    def _fill(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Start the work of the items that come next, until twice as many runs wait as can be in flight."""
        assert self._pump is not None
        if self.config.option.usepdb:
            return  # nothing may be spent while somebody sits at the prompt
        for upcoming in self._upcoming(item, nextitem):
            if self._waiting >= 2 * self.battery.jobs:
                break
            self._considered = max(self._considered, self._index[upcoming] + 1)
            self._start(upcoming)

    def _upcoming(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[pytest.Item]:
        """Items this process will run for certain and has not looked at yet, nearest first."""
        items = item.session.items
        if not self._is_worker:
            for index in range(max(self._considered, self._index[item]), len(items)):
                yield items[index]
            return
        yield item
        if nextitem is not None:
            yield nextitem
        for index in queued_indices(self.config):
            yield items[index]

    def _start(self, item: pytest.Item) -> None:
        """Start an item's work, unless it is fresh or needs fixtures that only its own turn can set up."""
        assert self._pump is not None
        permutation = permutation_of(item)
        if permutation is None or self._pump.started(item.nodeid) or self.battery.tasks[permutation.task].source:
            return
        try:
            decided = self._decided(permutation)
        except BatteryError:
            return  # told when the item's turn comes
        if any(decision.action != "keep" for decision in decided):
            self._count(len(decided))
            self._work[item.nodeid] = _Work(permutation, decided)
            self._pump.start(item.nodeid)

    # -- items -------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> object | None:
        permutation = permutation_of(item)
        if permutation is None or self._pump is None:
            return None
        self._fill(item, nextitem)
        item.stash[_NEXT] = nextitem
        try:
            decided = self._decided(permutation)
        except BatteryError:
            decided = ()  # told in the call, which meets the same again
        if decided and not self._pump.started(item.nodeid) and all(map(_is_fresh, decided)):
            self._report_cached(item, permutation, decided)
        else:
            run_once(item, nextitem)
        return True

    def _report_cached(self, item: pytest.Item, permutation: Permutation, decided: Sequence[Decision]) -> None:
        """One report, no set-up: a fresh permutation costs a fraction of an item."""
        results = tuple(LaneResult(decision.record, "kept") for decision in decided if decision.record)
        outcome = outcome_of(permutation, self.battery.tasks[permutation.task], results)
        hook, path, line, domain = item.ihook, *item.location
        now = time.time()
        skipped = (str(item.path), (line or 0) + 1, cached_reason(results))
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for when in ("setup", "teardown") if self._wants_teardown else ("setup",):
            report = pytest.TestReport(
                nodeid=item.nodeid,
                location=(path, line, domain),
                keywords={},
                when=when,
                outcome="skipped" if when == "setup" else "passed",
                longrepr=skipped if when == "setup" else None,
                duration=0.0,
                start=now,
                stop=now,
            )
            if when == "setup":
                report.battery = outcome.as_plain()  # type: ignore[attr-defined]
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> object | None:
        permutation = permutation_of(pyfuncitem)
        if permutation is None or self._pump is None:
            return None
        prepared = self.battery.tasks[permutation.task]
        try:
            if not self._pump.started(pyfuncitem.nodeid):
                asker = asker_of(pyfuncitem) if prepared.source else None
                decided = self._decided(permutation)
                self._count(len(decided))
                self._work[pyfuncitem.nodeid] = _Work(permutation, decided, asker)
            nextitem = pyfuncitem.stash.get(_NEXT, None)
            results = self._pump.result(pyfuncitem.nodeid, lambda: self._fill(pyfuncitem, nextitem))
        except StoreWriteError as error:
            pyfuncitem.session.shouldstop = f"{error}; no more is asked, since nothing could be kept"
            pytest.fail(str(error), pytrace=False)
        except OverBudgetError as error:
            pyfuncitem.stash[_OUTCOME] = over_budget(permutation, prepared)
            pytest.skip(f"over budget: {error}")
        except BatteryError as error:
            pytest.fail(str(error), pytrace=False)
        outcome = outcome_of(permutation, prepared, results)
        pyfuncitem.stash[_OUTCOME] = outcome
        if outcome.how == "invalid":
            pytest.fail(invalid_line(results), pytrace=False)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        outcome = item.stash.get(_OUTCOME, None)
        if call.when == "call" and outcome is not None:
            report.duration = outcome.seconds  # the runs' own time; how long this item waited says nothing
            report.battery = outcome.as_plain()  # type: ignore[attr-defined]  # plain values cross xdist as they are
            if outcome.how == "over-budget" and isinstance(report.longrepr, tuple):
                place = (str(item.path), (item.location[1] or 0) + 1)  # the case's, not that of the line that skips
                report.longrepr = (*place, report.longrepr[2])
        return report


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """SIGTERM ends a session as Ctrl-C does: what is paid for is kept, and the table is printed."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt("SIGTERM")

    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _import_tables() -> None:
    """numpy and what is built on it, while the first calls are waited for: the table needs them at the end."""
    import pytest_battery.doing.tabling
    import pytest_battery.saying.rendering.text  # noqa: F401


def _is_fresh(decision: Decision) -> bool:
    """Whether there is nothing to do and nothing to complain about."""
    return decision.action == "keep" and decision.record is not None and decision.record.state == "valid"


_NEXT = pytest.StashKey["pytest.Item | None"]()
