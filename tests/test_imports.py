"""What an import costs: this package is imported in every pytest run of a machine."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded(statement: str) -> set[str]:
    """The modules that *statement* adds to those of a bare interpreter."""
    script = f"import sys; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def foreign(modules: set[str]) -> set[str]:
    """The top-level names among *modules* that are not of the standard library."""
    return {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names)


def test_importing_the_package_loads_nothing_but_the_standard_library() -> None:
    modules = loaded("import pytest_battery")
    assert foreign(modules) == {"pytest_battery"}
    assert {name for name in modules if name.startswith("pytest_battery")} == {"pytest_battery"}


def test_importing_the_plugin_adds_nothing_but_its_hooks_options_and_fixtures() -> None:
    added = loaded("import pytest_battery.plugin") - loaded("import pytest")
    assert foreign(added) == {"pytest_battery"}
    assert {name for name in added if name.startswith("pytest_battery")} == {
        "pytest_battery",
        "pytest_battery.plugin",
        "pytest_battery.plugin.fixtures",
        "pytest_battery.plugin.hookspecs",
        "pytest_battery.plugin.options",
    }


def test_what_only_agents_need_is_not_loaded_without_them() -> None:
    found = loaded("import pytest_battery.plugin.session, pytest_battery.plugin.run, pytest_battery.plugin.collect")
    only = ("pytest_battery.edges.sandboxes", "pytest_battery.edges.corpora", "pytest_battery.edges.agents.drivers")
    assert not [name for name in found if name.startswith(only)]


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import pytest_battery.values.subjects", {"pytest", "pydantic", "numpy", "httpx"}),
        ("from pytest_battery import Store, FakeModel, Record", {"pytest", "_pytest", "numpy", "scipy", "httpx", "jinja2"}),
        ("import pytest_battery.edges.taskfiles", {"pytest", "_pytest", "numpy", "scipy", "httpx"}),
        ("import pytest_battery.doing.measuring", {"pytest", "_pytest", "numpy", "scipy"}),
        (
            "import pytest_battery.plugin.session, pytest_battery.plugin.run, pytest_battery.doing.designs",
            {"numpy", "scipy", "aiohttp", "httpx"},
        ),
    ],
)  # fmt: skip
def test_the_parts_load_only_what_they_need(statement: str, unwanted: set[str]) -> None:
    assert not foreign(loaded(statement)) & unwanted
