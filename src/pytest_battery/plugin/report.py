"""Say what happened: a header, the plan, letters, and one section at the end."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from pytest_battery.doing.planning import Plan
from pytest_battery.plugin.gate import JUDGED
from pytest_battery.plugin.outcomes import Outcome
from pytest_battery.plugin.run import PLAN
from pytest_battery.plugin.session import Battery
from pytest_battery.saying.rendering.inert import encodable, inert
from pytest_battery.values.permutations import Cell

if TYPE_CHECKING:
    from pytest_battery.doing.tabling import Tabled

__all__ = ["Reporter"]


class Reporter:
    """Registered in the process that talks to people: the only one, or the xdist controller."""

    def __init__(self, config: pytest.Config, battery: Battery) -> None:
        self.config, self.battery = config, battery
        self.counts: Counter[str] = Counter()
        self.paid = 0.0
        self.touched: set[tuple[str, str, str]] = set()
        self.cut_short = ""

    # -- the plan ----------------------------------------------------------------------------------

    def pytest_report_collectionfinish(self, config: pytest.Config, items: list[pytest.Item]) -> list[str]:
        plan = config.stash.get(PLAN, None)
        if plan is None or not plan.permutations or config.option.verbose < 0:
            return []
        return self._plan_lines(plan)

    def show_plan(self, plan: Plan) -> None:
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and terminal.verbosity >= 0 and plan.permutations:
            terminal.ensure_newline()
            for line in self._plan_lines(plan):
                terminal.write_line(line)

    def _plan_lines(self, plan: Plan) -> list[str]:
        head = (
            f"battery plan: {_count(plan.permutations, 'permutation')}: runs: {plan.kept} kept, {plan.rescored} to "
            f"re-score, {plan.measured} to measure ({plan.stale} of them stale)"
        )
        if self.config.option.battery_force:
            head += f"; deleted first (--force): {_count(self.battery.deleted, 'record')}"
        if self.config.option.battery_refresh:
            head += "; what is fresh is measured again (--refresh)"
        lines = [head]
        if self.config.option.verbose > 0:
            lines += [f"  {number} {inert(why)}" for why, number in sorted(plan.reasons.items())]
        return [encodable(line, _encoding()) for line in lines]

    # -- letters -----------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self, report: pytest.CollectReport | pytest.TestReport
    ) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        plain = getattr(report, "battery", None)
        if plain is None:
            return None
        how, value = plain["how"], plain["value"]
        if how == "cached":
            return "skipped", "c", (f"CACHED {value}", {"cyan": True})
        if how == "invalid":
            return "error", "i", ("INVALID", {"red": True})
        if report.outcome != "passed":
            return None
        return "passed", ".", (f"{how.upper()} {value}", {"green": True})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        plain = getattr(report, "battery", None)
        if plain is None:
            return
        outcome = Outcome.from_plain(plain)
        self.counts["permutations"] += 1
        self.counts["kept"] += outcome.kept
        self.counts["measured"] += outcome.measured
        self.counts["re-scored"] += outcome.rescored
        self.counts["invalid"] += outcome.invalid
        self.paid += outcome.usd
        self.touched.add((outcome.task, outcome.subject, outcome.stack))
        if outcome.python is not None and outcome.task not in self.battery.tasks:
            from pathlib import Path

            path, function, source = outcome.python
            self.battery.load_python(Path(path), function, source)

    # -- the end -----------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.battery.tasks:
            session.exitstatus = pytest.ExitCode.OK  # all hidden, or nothing selected: not an error

    def pytest_keyboard_interrupt(self) -> None:
        self.cut_short = "cut short by Ctrl-C: what had finished is kept"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for permutation in self.battery.hidden:
            self.counts["kept"] += permutation.runs
            self.touched.add((permutation.task, permutation.subject.key, permutation.stack.key))
        judged = self.config.stash.get(JUDGED, ())
        if not (self.touched or judged) or terminalreporter.verbosity < -1:
            return
        # numpy comes with these; the first call need not wait for it
        from pytest_battery.plugin.tables import shown_table
        from pytest_battery.saying.rendering.text import render

        shown = shown_table(self.config, self.battery, {task for task, _, _ in self.touched}, self._is_touched)
        result, encoding = shown.result, _encoding()
        width = terminalreporter._tw.fullwidth
        terminalreporter.section("battery")
        for text in self._head(result):
            terminalreporter.line(encodable(text, encoding))
        for line in render(shown.table, width=width, encoding=encoding):
            ink = {"light" if line.ink == "dim" else line.ink: True} if line.ink else {}
            terminalreporter.line(line.text, **ink)
        for judgement in judged:
            passed = judgement.outcome == "passed"
            text = f"gate {judgement.outcome}: {judgement.name}: {judgement.message}"
            terminalreporter.line(encodable(inert(text), encoding), green=passed, red=not passed)
        for text in self._notes(result):
            terminalreporter.line(encodable(inert(text), encoding), yellow=True)

    def _is_touched(self, cell: Cell) -> bool:
        return (cell.task, cell.subject.key, cell.stack.key) in self.touched

    def _head(self, result: Tabled) -> list[str]:
        subjects = {subject for _, subject, _ in self.touched}
        stacks = {stack for _, _, stack in self.touched}
        shape = ", ".join(
            [
                _count(len(result.tasks), "task"),
                _count(result.cases, "case"),
                f"{_count(len(subjects), 'subject')} x {_count(len(stacks), 'stack')}",
            ]
        )
        counts = self.counts
        sums = (
            f"paid {_money(self.paid)} now - {_money(result.usd)} ever for what is shown - {counts['kept']} kept, "
            f"{counts['measured']} measured, {counts['re-scored']} re-scored, {counts['invalid']} invalid"
        )
        return [shape, sums]

    def _notes(self, result: Tabled) -> list[str]:
        notes = []
        if self.cut_short:
            notes.append(self.cut_short)
        if result.stops:
            kinds = ", ".join(f"{number} {_STOPS.get(kind, kind)}" for kind, number in sorted(result.stops.items()))
            notes.append(f"replies that are no whole answer, graded as they are: {kinds}")
        if result.unpriced:
            notes.append(f"cost unknown for {_count(result.unpriced, 'run')}: the sums leave them out")
        for key, models in sorted(result.models.items()):
            if len(models) > 1:
                notes.append(f"{key} was answered by more than one model: {', '.join(sorted(models))}")
        cells = {Cell(task.name, row.cell.subject, row.cell.stack) for task in result.tasks for row in task.cells}
        for problem in [
            stray for cell in sorted(cells, key=lambda cell: cell.label) for stray in self.battery.store.strays(cell)
        ]:
            notes.append(f"not counted: {problem.path}: {problem.what}")
        return notes


_STOPS = {
    "length": "cut at max_tokens",
    "empty": "empty",
    "refusal": "refused",
    "filtered": "filtered by the provider",
    "tool-calls": "ended in a tool call",
    "other": "ended for another reason",
}


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def _money(usd: float) -> str:
    return f"${usd:.2f}" if usd == 0 or usd >= 0.01 else f"${usd:.4f}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
