"""The command line.  Long names always; the short ones only where nobody else owns them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import pytest

__all__ = ["add_long", "add_short", "distributes", "given", "name_gates"]


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


class _Gate(argparse.Action):
    """``--gate`` is ``on``, ``--gate=strict`` is ``strict``; what else was given is told once options are checked."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        namespace.battery_gate = "on" if values is None else values


def name_gates(arguments: list[str], short: bool) -> None:
    """Write a bare ``--gate`` as ``--gate=on``: the path behind it is not its value.  *short*: whether that is ours."""
    for index, argument in enumerate(arguments):
        if argument == "--":
            return
        if argument == "--battery-gate" or (short and argument == "--gate"):
            arguments[index] = f"{argument}=on"


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
    (
        "no-sandbox",
        {
            "action": "store_true",
            "dest": "battery_no_sandbox",
            "help": 'Let agents of tasks that say sandbox = "none" run without one.',
        },
    ),
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
    (
        "budget",
        {
            "type": float,
            "dest": "battery_budget",
            "metavar": "USD",
            "default": None,
            "help": "Spend at most this, over all workers and sessions on this store; what has no price is refused.",
        },
    ),
    (
        "on",
        {
            "dest": "battery_on",
            "metavar": "dask=ADDRESS",
            "default": None,
            "help": "Let the workers of a Dask cluster ask (dask=tcp://host:8786); their answers come home and are kept here.",
        },
    ),
    (
        "shard",
        {
            "dest": "battery_shard",
            "metavar": "I/N",
            "default": None,
            "help": "Measure one part of N, all arms of a case in the same part; then `battery merge` the stores.",
        },
    ),
    (
        "record-mode",
        {
            "choices": ("live", "replay", "none"),
            "dest": "battery_record_mode",
            "default": "live",
            "help": "live: ask and keep every call (default). replay: answer from the calls that were kept, opening no socket. none: ask and keep no call.",
        },
    ),
    (
        "against",
        {
            "dest": "battery_against",
            "metavar": "REV|PATH",
            "default": None,
            "help": "Compare every cell with its own records in the store of another git revision (origin/main), or in another store.",
        },
    ),
    (
        "gate",
        {
            "action": _Gate,
            "nargs": "?",
            "dest": "battery_gate",
            "metavar": "strict",
            "default": None,
            "help": "Fail on an established gap for the worse, and on a battery that is not whole; --gate=strict fails what is inconclusive, too.",
        },
    ),
    (
        "gate-margin",
        {
            "type": float,
            "dest": "battery_gate_margin",
            "metavar": "LOSS",
            "default": None,
            "help": "With --gate: fail also unless the 95%% interval excludes a loss greater than this, in the metric's own unit.",
        },
    ),
    (
        "looks",
        {
            "type": int,
            "dest": "battery_looks",
            "metavar": "K",
            "default": None,
            "help": "How often you plan to look at these gaps while records are added: each look is judged at 5%%/K.",
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
        "--battery-md",
        dest="battery_md",
        metavar="FILE",
        default=None,
        help="Write the verdicts as Markdown, for a comment on a pull request.",
    )
    group.addoption(
        "--battery-json",
        dest="battery_json",
        metavar="FILE",
        default=None,
        help="Write the gap table with full precision, and the gate's judgements, as JSON.",
    )
    group.addoption(
        "--battery-live",
        choices=("auto", "on", "off"),
        dest="battery_live",
        default="auto",
        help="The status line under the dots: on a terminal only (auto), always, never.",
    )


def add_short(parser: pytest.Parser) -> frozenset[str]:
    """Add ``--NAME`` beside ``--battery-NAME``; called once every conftest and plugin has added its own.

    Returns the names that were free.
    """
    group = parser.getgroup("battery")
    free = _not_owned(parser, [_probe(name, attributes) for name, attributes in _OPTIONS])
    for name, attributes in _OPTIONS:
        if _probe(name, attributes) in free:
            group.addoption(f"--{name}", **{**attributes, "help": f"The same as --battery-{name}."})
    return frozenset(name for name, attributes in _OPTIONS if _probe(name, attributes) in free)


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
        or option.battery_record_mode != "live"
        or option.battery_budget is not None
        or option.battery_shard is not None
        or option.battery_on is not None
        or option.battery_against is not None
        or option.battery_gate is not None
        or option.battery_gate_margin is not None
        or option.battery_looks is not None
    )


def distributes(config: pytest.Config) -> bool:
    """Whether this process is an xdist controller: its workers run the items, and it talks to people."""
    return (
        not hasattr(config, "workerinput")
        and config.pluginmanager.hasplugin("xdist")
        and config.getoption("dist", "no") != "no"
        and bool(config.getoption("tx", None))
    )
