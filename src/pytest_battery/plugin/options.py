"""The command line.  Long names always; the short ones only where nobody else owns them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import pytest

__all__ = ["add_long", "add_short", "distributes", "given"]


JOBS = 16


class _Axis(argparse.Action):
    """``--model`` and ``--sweep`` share one list: their order says which sweep belongs to which model."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        kind = "sweep" if "sweep" in (option_string or "") else "model"
        namespace.battery_axes = [*(getattr(namespace, "battery_axes", None) or []), (kind, values)]


_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "model",
        {
            "action": _Axis,
            "dest": "battery_axes",
            "metavar": "SUBJECT",
            "default": None,
            "help": "Measure this subject instead of those the task names, as in local/smollm2-135m@temperature=0. Repeatable.",
        },
    ),
    (
        "sweep",
        {
            "action": _Axis,
            "dest": "battery_axes",
            "metavar": "KNOB=V[,V...]",
            "default": None,
            "help": "Sweep a knob of the --model before it (of the task's subjects where there is none). Repeat to cross several.",
        },
    ),
    (
        "stack",
        {
            "action": "append",
            "dest": "battery_stack",
            "metavar": "NAME",
            "default": [],
            "help": "The harness to run under; plain calls have none.",
        },
    ),
    (
        "runs",
        {
            "type": int,
            "dest": "battery_runs",
            "metavar": "N",
            "default": None,
            "help": "Runs of every permutation, instead of the task's.",
        },
    ),
    (
        "jobs",
        {
            "type": int,
            "dest": "battery_jobs",
            "metavar": "N",
            "default": JOBS,
            "help": f"Runs in flight in a process (default {JOBS}).",
        },
    ),
    ("refresh", {"action": "store_true", "dest": "battery_refresh", "help": "Measure again what is fresh, too."}),
    ("force", {"action": "store_true", "dest": "battery_force", "help": "Delete the selected records first."}),
    (
        "cached",
        {
            "choices": ("show", "hide"),
            "dest": "battery_cached",
            "default": "show",
            "help": "Whether fresh permutations are shown as skipped (default) or left out.",
        },
    ),
)


def add_long(parser: pytest.Parser) -> None:
    group = parser.getgroup("battery", "measuring language models (pytest-battery)")
    for name, attributes in _OPTIONS:
        group.addoption(f"--battery-{name}", **attributes)
    group.addoption(
        "--battery-store",
        dest="battery_store",
        metavar="DIR",
        default="store",
        help="Where records are kept, relative to the root directory (default: store).",
    )
    group.addoption(
        "--battery-live",
        choices=("auto", "on", "off"),
        dest="battery_live",
        default="auto",
        help="The status line under the dots: on a terminal only (auto), always, never.",
    )


def add_short(parser: pytest.Parser) -> None:
    """Add ``--NAME`` beside ``--battery-NAME``; called once every conftest and plugin has added its own."""
    group = parser.getgroup("battery")
    free = _not_owned(parser, [_probe(name, attributes) for name, attributes in _OPTIONS])
    for name, attributes in _OPTIONS:
        if _probe(name, attributes) in free:
            group.addoption(f"--{name}", **{**attributes, "help": f"The same as --battery-{name}."})


def _probe(name: str, attributes: dict[str, Any]) -> str:
    return f"--{name}" if attributes.get("action") == "store_true" else f"--{name}=1"


def _not_owned(parser: pytest.Parser, probes: Sequence[str]) -> set[str]:
    """Those that nobody knows: what is somebody's is known to the parser, or refuses what it is given.

    All at once, since a parser is built for each question; one by one only where one of them refuses.
    """
    try:
        return set(parser.parse_known_and_unknown_args(list(probes))[1])
    except (pytest.UsageError, SystemExit):
        if len(probes) == 1:
            return set()
        return set().union(*(_not_owned(parser, [probe]) for probe in probes))


def given(config: pytest.Config) -> bool:
    """Whether anybody used an option of ours."""
    option = config.option
    return bool(
        option.battery_axes
        or option.battery_stack
        or option.battery_runs is not None
        or option.battery_refresh
        or option.battery_force
        or option.battery_cached != "show"
        or option.battery_store != "store"
        or option.battery_jobs != JOBS
    )


def distributes(config: pytest.Config) -> bool:
    """Whether this process is an xdist controller: its workers run the items, and it talks to people."""
    return (
        not hasattr(config, "workerinput")
        and config.pluginmanager.hasplugin("xdist")
        and config.getoption("dist", "no") != "no"
        and bool(config.getoption("tx", None))
    )
