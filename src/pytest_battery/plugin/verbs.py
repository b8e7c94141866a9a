"""Verbs that look and don't measure: a pytest collection, so that conftests, options and selection mean the same."""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import io
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pytest

from pytest_battery.doing.choosing import cells_of
from pytest_battery.doing.garbage import no_garbage_collection
from pytest_battery.doing.planning import Decision
from pytest_battery.edges.store import Problem
from pytest_battery.errors import BatteryError
from pytest_battery.plugin.session import Battery, known_battery, permutation_of
from pytest_battery.values.fingerprints import PARTS
from pytest_battery.values.permutations import Cell, Permutation
from pytest_battery.values.records import Record

__all__ = ["collected", "measured", "rederived", "rescored", "status_of", "summary_of", "why"]

Looked = tuple[Battery, list[tuple[str, Permutation]]]


class _Collected:
    """Keeps what was collected, and what could not be."""

    def __init__(self) -> None:
        self.battery: Battery | None = None
        self.found: list[tuple[str, Permutation]] = []
        self.errors: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.errors.append(f"{report.nodeid}: {report.longreprtext}")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.battery = known_battery(session.config)
        self.found = [
            (item.nodeid, permutation) for item in session.items if (permutation := permutation_of(item)) is not None
        ]


def collected(arguments: Sequence[str], use: Callable[[Battery, list[tuple[str, Permutation]]], int]) -> int:
    """Collect as pytest would with *arguments*, hand what was found to *use*, and return its exit code.

    4 where a task file, an option or a node id is wrong: pytest or we have said why.
    """
    plugin = _Collected()
    alone = ["-n0"] if importlib.util.find_spec("xdist") else []
    # this process has imported us before pytest could; a project may have made errors of warnings
    calm = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = int(pytest.main(["--collect-only", "-q", *arguments, *alone, *calm], plugins=[plugin]))
    if plugin.errors or code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        print("\n".join(plugin.errors) or said.getvalue(), file=sys.stderr)
        return 4
    if plugin.battery is None or not plugin.found:
        print(f"no permutation found in {' '.join(arguments) or 'this directory'}", file=sys.stderr)
        return 4
    try:
        return use(plugin.battery, plugin.found)
    except BatteryError as error:
        print(error, file=sys.stderr)
        return 4


def measured(arguments: Sequence[str], *, quiet: bool) -> int:
    """Run pytest with *arguments*, as anybody would; its exit code.  *quiet*: nothing is printed unless it fails."""
    said = io.StringIO()
    calm = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    with contextlib.redirect_stdout(said) if quiet else contextlib.nullcontext():
        code = int(pytest.main([*arguments, *calm]))
    if quiet and code:
        print(said.getvalue(), file=sys.stderr)
    return code


# -- why --------------------------------------------------------------------------------------------


def why(battery: Battery, found: Sequence[tuple[str, Permutation]]) -> list[dict[str, Any]]:
    """Per permutation and run: what would be done, because of what, and what that costs.  Raises `BatteryError`."""
    return [
        {"nodeid": nodeid, "runs": [_why(battery, decision) for decision in battery.decide(permutation)]}
        for nodeid, permutation in found
    ]


def _why(battery: Battery, decision: Decision) -> dict[str, Any]:
    record = decision.record
    told: dict[str, Any] = {
        "run": decision.lane.run,
        "action": decision.action,
        "why": decision.why,
        "measured_at": record.measured_at.isoformat() if record else None,
        "model_calls": 1 if decision.action == "measure" else 0,
        "usd": _price(decision, record),
    }
    if record is None:
        return told
    prepared = battery.tasks[decision.lane.permutation.task]
    now = battery.models.fingerprint(prepared, decision.lane.permutation)
    told["changed"] = {
        part: {"then": getattr(record.fingerprint, part), "now": getattr(now, part)}
        for part in PARTS
        if part in decision.changed
    }
    if decision.action == "re-score":
        scorer = prepared.asked[decision.lane.permutation.case.id].scorer
        told["changed"]["scorer"] = {"then": record.scorer.sha, "now": scorer}
    if "prompt" in decision.changed:
        told["prompt_diff"] = _prompt_diff(battery, decision, record)
    return told


def _price(decision: Decision, record: Record | None) -> float | None:
    if decision.action != "measure":
        return 0.0
    return record.cost.usd if record else None


def _prompt_diff(battery: Battery, decision: Decision, record: Record) -> list[str] | None:
    """What was asked then against what would be asked now; None where the evidence is not here."""
    lane = decision.lane
    artifacts = battery.store.artifacts(battery.store.path(lane), record.evidence)
    if not artifacts:
        return None
    request: Any = artifacts[-1]["request"]  # of a conversation, the call that holds all that was said
    messages = battery.tasks[lane.permutation.task].asked[lane.permutation.case.id].messages
    then = [
        line
        for message in request["messages"]
        if message["role"] != "assistant"
        for line in [f"[{message['role']}]", *message["content"].split("\n")]
    ]
    now = [line for message in messages for line in [f"[{message.role}]", *message.content.split("\n")]]
    return list(difflib.unified_diff(then, now, "asked then", "would be asked now", lineterm=""))


# -- status -----------------------------------------------------------------------------------------


def status_of(battery: Battery, found: Sequence[tuple[str, Permutation]]) -> dict[str, Any]:
    """Runs per cell by what they need, and every file of the store that is not counted."""
    with no_garbage_collection():
        cells = _states(battery, _decided(battery, found))
        problems, elsewhere = _walked(battery, {(cell["task"], cell["stack"], cell["subject"]) for cell in cells})
    return {
        "store": str(battery.store.root),
        "cells": cells,
        "not_counted": [{"path": str(problem.path), "why": problem.what} for problem in problems],
        "records_of_other_cells": elsewhere,
    }


STATES = ("fresh", "re-score", "stale", "invalid", "missing")


def _decided(battery: Battery, found: Sequence[tuple[str, Permutation]]) -> dict[Permutation, tuple[Decision, ...]]:
    return {permutation: battery.decide(permutation) for _, permutation in found}


def _states(battery: Battery, decided: Mapping[Permutation, Sequence[Decision]]) -> list[dict[str, Any]]:
    """Runs per cell by what they need, in the order in which the cells are declared."""
    cells: dict[Cell, Counter[str]] = {}
    for permutation, decisions in decided.items():
        cells.setdefault(permutation.cell, Counter()).update(map(_state, decisions))
    declared = [cell for prepared in battery.tasks.values() for cell in cells_of(prepared.task, battery.choice)]
    return [
        {"task": cell.task, "subject": cell.subject.key, "stack": cell.stack.key}
        | {state: cells[cell][state] for state in STATES}
        for cell in declared
        if cell in cells
    ]


def _state(decision: Decision) -> str:
    if decision.action == "keep":
        valid = decision.record is None or decision.record.state == "valid"
        return "fresh" if valid else "invalid"
    if decision.action == "re-score":
        return "re-score"
    if decision.stale:
        return "stale"
    return "invalid" if decision.record is not None else "missing"


def _walked(battery: Battery, keys: Collection[tuple[str, str, str]]) -> tuple[list[Problem], int]:
    """What is not counted, and how many records are of other cells than *keys*: task, stack and subject."""
    problems: list[Problem] = []
    elsewhere = 0
    for one in battery.store.walk():
        if isinstance(one, Problem):
            problems.append(one)
        elif (one.record.task, one.record.stack.key, one.record.subject.key) not in keys:
            elsewhere += 1
    return problems, elsewhere


# -- summarise --------------------------------------------------------------------------------------


def summary_of(battery: Battery, found: Sequence[tuple[str, Permutation]]) -> dict[str, Any]:
    """The gap table of everything found, with full precision, and the runs behind it."""
    from pytest_battery.doing.tabling import tabled
    from pytest_battery.saying.gaps import gap_table

    names = dict.fromkeys(permutation.task for _, permutation in found)
    prepared = [battery.tasks[name] for name in names]
    with no_garbage_collection():
        decided = _decided(battery, found)  # each record is read once, for the table and for the counts
        result = tabled(battery.store, battery.models, prepared, battery.choice, decided=decided)
        return {
            "schema": 1,
            "table": gap_table(result.tasks).as_json(),
            "usd": result.usd,
            "unpriced": result.unpriced,
            "status": _states(battery, decided),
        }


# -- replay and rescore -----------------------------------------------------------------------------


def rederived(battery: Battery, found: Sequence[tuple[str, Permutation]]) -> dict[str, Any]:
    """Every record found, derived once more from its evidence."""
    from pytest_battery.doing.rederiving import rederive

    told: dict[str, Any] = {"same": 0, "different": [], "missing": []}
    for nodeid, permutation in found:
        for one in rederive(battery.store, battery.tasks[permutation.task], permutation):
            if one.same:
                told["same"] += 1
                continue
            what = list(one.differences) or [one.missing]
            told["different" if one.differences else "missing"].append(
                {"nodeid": nodeid, "run": one.lane.run, "what": what}
            )
    return told


def rescored(battery: Battery, found: Sequence[tuple[str, Permutation]]) -> int:
    """Grade again whatever wants it; how many runs that were.  Raises `StoreError`."""
    import anyio

    from pytest_battery.doing.measuring import Measuring

    async def work() -> int:
        measuring = Measuring(battery.store, battery.models, jobs=battery.jobs)
        count = 0
        try:
            for _, permutation in found:
                for decision in battery.decide(permutation):
                    if decision.action == "re-score":
                        await measuring.lane(battery.tasks[permutation.task], decision)
                        count += 1
        finally:
            await measuring.aclose()
        return count

    return anyio.run(work)
