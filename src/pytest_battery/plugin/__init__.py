"""The pytest plugin.  Imported in every pytest run of a machine: nothing here but pytest and the standard library
is imported until a task file is found."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

from pytest_battery.plugin import hookspecs, options
from pytest_battery.plugin.fixtures import battery_store, case, model, permutation, stack, subject

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "battery_store",
    "case",
    "model",
    "permutation",
    "pytest_addhooks",
    "pytest_addoption",
    "pytest_collect_file",
    "pytest_configure",
    "pytest_generate_tests",
    "pytest_ignore_collect",
    "pytest_load_initial_conftests",
    "pytest_report_header",
    "stack",
    "subject",
]


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add_long(parser)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> Generator[None, None, None]:
    yield
    options.name_gates(args, short="gate" in options.add_short(parser))


def pytest_configure(config: pytest.Config) -> None:
    for marker in (
        "battery(path, watch=()): the task file this Python test asks for; watch names files whose content counts too",
        "subject(model, **knobs): the subject of an item; select with -m \"subject(thinking='off')\"",
        "stack(name): the stack of an item",
    ):
        config.addinivalue_line("markers", marker)
    if options.given(config):
        from pytest_battery.plugin.session import check_options

        check_options(config)
    if options.distributes(config):
        from pytest_battery.plugin.dist import Controller

        config.pluginmanager.register(Controller(config), "battery-controller")
    if config.option.battery_gate is not None and not hasattr(config, "workerinput"):
        from pytest_battery.plugin.gate import Gate

        config.pluginmanager.register(Gate(config), "battery-gate")


def pytest_report_header(config: pytest.Config) -> str | None:
    """One line, where there is a store or an option of ours was given."""
    if not options.given(config) and not _is_store(config.rootpath / config.option.battery_store):
        return None
    return f"battery: store {config.option.battery_store}, {config.option.battery_jobs} runs in flight at most"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The store holds records, not tests; walking it would cost more than reading it.  A directory of that name that
    is no store of ours is left to pytest."""
    store: str = config.option.battery_store
    if not store.endswith(collection_path.name) or collection_path != config.rootpath / store:
        return None
    return True if _is_store(collection_path) else None


def _is_store(path: Path) -> bool:
    ignore = path / ".gitignore"
    return ignore.is_file() and "*.evidence/" in ignore.read_text(encoding="utf-8", errors="replace")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix == ".toml":
        from pytest_battery.plugin.collect import task_file

        return task_file(file_path, parent)
    return None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("battery")
    if marker is not None or "permutation" in metafunc.fixturenames:
        from pytest_battery.plugin.collect import parametrize

        parametrize(metafunc, marker)
