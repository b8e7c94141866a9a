"""pytest-xdist: the controller's side.  The only module that imports it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from pytest_battery.edges.taskfiles import looks_like_a_task_file
from pytest_battery.errors import BatteryError, TaskFileError
from pytest_battery.plugin.run import PLAN
from pytest_battery.plugin.session import WORKERINPUT, battery_of, known_battery

__all__ = ["Controller"]


class Controller:
    """Reads every task file before a worker may spend, ships one snapshot, and keeps the workers' queues filled."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._planned = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Before xdist starts its workers: a broken task file must not let the others be paid for."""
        for path in _task_files(self.config):
            battery = battery_of(self.config)
            try:
                battery.load(path)
            except TaskFileError:
                continue
        battery_found = known_battery(self.config)
        if battery_found is not None and battery_found.faults.by_path:
            raise pytest.UsageError(battery_found.faults.text())

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        battery = known_battery(self.config)
        if battery is None:
            return
        shipped: dict[str, Any] = {"started": battery.started.isoformat()}
        if battery.hide:
            try:
                shipped["hidden"] = [
                    nodeid
                    for nodeid, permutation in battery.permutations_by_nodeid()
                    if all(decision.action == "keep" for decision in battery.decide(permutation))
                ]
            except BatteryError as error:
                raise pytest.UsageError(str(error)) from None
        budget = battery.budget()
        if budget is not None:
            shipped["began"] = budget.began
        node.workerinput[WORKERINPUT] = shipped

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """The first worker has told what is selected: plan it, before any item is handed out."""
        battery = known_battery(self.config)
        if battery is None or self._planned:
            return
        self._planned = True
        selected = set(ids)
        known = dict(battery.permutations_by_nodeid())
        chosen = [permutation for nodeid, permutation in known.items() if nodeid in selected]
        if self.config.option.battery_force:
            battery.delete(chosen)
        if battery.hide:
            for nodeid, permutation in known.items():
                if nodeid not in selected:
                    battery.is_hidden(permutation, nodeid)
        plan, _ = battery.make_plan(chosen)
        self.config.stash[PLAN] = plan
        reporter = self.config.pluginmanager.get_plugin("battery-reporter")
        if reporter is not None:
            reporter.show_plan(plan)
        live = self.config.pluginmanager.get_plugin("battery-live")
        if live is not None:
            live.expect(len(ids))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        if known_battery(config) is None or config.getvalue("dist") != "load":
            return None
        return _window_scheduling(config, log, 2 * config.option.battery_jobs)


def _window_scheduling(config: pytest.Config, log: Any, depth: int) -> Any:
    from xdist.scheduler import LoadScheduling

    class WindowScheduling(LoadScheduling):  # type: ignore[misc,unused-ignore]
        """Keeps *depth* items queued at every worker.

        Load scheduling waits until a worker with slow items has one left, and then a worker that looks ahead has
        nothing to look at.  Items go out in small hands, so that all workers stay at the same cases.
        """

        def schedule(self) -> None:
            self.maxschedchunk = depth
            super().schedule()

        def check_schedule(self, node: Any, duration: float = 0) -> None:
            if node.shutting_down:
                return
            if self.pending:
                self._send_tests(node, max(0, max(2, depth) - len(self.node2pending[node])))
            else:
                node.shutdown()

    return WindowScheduling(config, log)


def _task_files(config: pytest.Config) -> Iterator[Path]:
    """Task files below the arguments, as pytest itself would find them; each once, in order."""
    seen: set[Path] = set()
    arguments = [argument.partition("::")[0] for argument in config.args]
    base = config.invocation_params.dir
    for argument in arguments:
        path = Path(os.path.abspath(base / argument))
        for file in _files(config, path):
            if file not in seen and looks_like_a_task_file(file.read_bytes()):
                seen.add(file)
                yield file


def _files(config: pytest.Config, path: Path) -> Iterator[Path]:
    if path.is_file():
        if path.suffix == ".toml":
            yield path
        return
    if not path.is_dir():
        return
    skipped = config.getini("norecursedirs")
    for child in sorted(path.iterdir()):
        if config.hook.pytest_ignore_collect(collection_path=child, config=config):
            continue
        if child.is_dir():
            if not any(fnmatch(child.name, pattern) for pattern in skipped):
                yield from _files(config, child)
        elif child.suffix == ".toml":
            yield child
