"""The public names: few, sorted, and each where it says it is."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import pytest_battery

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(pytest_battery.__path__, "pytest_battery.")
    if not module.name.endswith("__main__")
)


def test_the_public_names_are_sorted_and_can_be_imported() -> None:
    assert pytest_battery.__all__ == sorted(pytest_battery.__all__)
    for name in pytest_battery.__all__:
        assert getattr(pytest_battery, name).__name__ == name
    assert dir(pytest_battery) == sorted([*pytest_battery.__all__, "__version__"])


def test_the_names_that_are_loaded_late_are_the_public_names() -> None:
    assert set(pytest_battery._HOMES) == set(pytest_battery.__all__)


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(pytest_battery.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    imported = {
        alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert imported == {name: f"pytest_battery.{home}" for name, home in pytest_battery._HOMES.items()}


def test_a_star_import_gives_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from pytest_battery import *", names)
    assert set(names) - {"__builtins__"} == set(pytest_battery.__all__)


@pytest.mark.parametrize("name", ["Nothing", "__path", "errors_"])
def test_a_name_that_is_not_public_is_refused(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'pytest_battery' has no attribute '{name}'"):
        getattr(pytest_battery, name)


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_what_it_offers(module: str) -> None:
    tree = ast.parse(Path(importlib.util.find_spec(module).origin).read_text(encoding="utf-8"))  # type: ignore[union-attr, arg-type]
    assert ast.get_docstring(tree), "says nothing of itself"
    offered = next(
        (
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
        ),
        [],
    )
    defined = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            defined.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            defined.update(target.id for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.ImportFrom):
            defined.update(alias.asname or alias.name for alias in node.names)
    if module != "pytest_battery":
        assert set(offered) <= defined, f"{set(offered) - defined} is not here"
