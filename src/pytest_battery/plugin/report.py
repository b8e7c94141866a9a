"""Say what happened: a header, the plan, letters, and one section at the end."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from pytest_battery.doing.planning import Plan
from pytest_battery.errors import BatteryError
from pytest_battery.plugin.gate import JUDGED
from pytest_battery.plugin.outcomes import Outcome
from pytest_battery.plugin.run import PLAN
from pytest_battery.plugin.session import Battery
from pytest_battery.plugin.tables import place_line, shown_table
from pytest_battery.saying.rendering.amounts import money
from pytest_battery.saying.rendering.inert import encodable, inert
from pytest_battery.values.permutations import Cell

if TYPE_CHECKING:
    from pytest_battery.doing.projecting import Projected
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
        self.unsaid: list[str] = []
        self._hidden_taken = False

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
        price = _price(plan)
        if self.config.option.battery_force:
            head += f"; deleted first (--force): {_count(self.battery.deleted, 'record')}"
        if self.config.option.battery_refresh:
            head += "; what is fresh is measured again (--refresh)"
        lines = [head, *([price] if price else [])]
        lines += [f"  {inert(warning)}" for warning in plan.warnings]
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
        if how == "over-budget":
            return "skipped", "b", ("OVER BUDGET", {"yellow": True})
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
        self.counts["replayed"] += outcome.replayed
        self.counts["re-scored"] += outcome.rescored
        self.counts["invalid"] += outcome.invalid
        self.paid += outcome.usd
        self.counts["over budget"] += outcome.how == "over-budget"
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
        if self.counts["over budget"] and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.INTERRUPTED
            self.cut_short = (
                f"cut short by the budget: {_count(self.counts['over budget'], 'permutation')} not measured whole"
            )

        self._write_files()

    def _write_files(self) -> None:
        """What was asked for beside the terminal's section, whether a terminal is there or not."""
        option = self.config.option
        if option.battery_md is None and option.battery_json is None:
            return
        from pytest_battery.plugin.files import write_json, write_markdown

        self._take_hidden()
        names = {task for task, _, _ in self.touched}
        try:
            shown = shown_table(self.config, self.battery, names, self._is_touched)
        except BatteryError as error:
            self.unsaid.append(str(error))
            return
        judged = self.config.stash.get(JUDGED, ())
        lines = [*self._head(shown.result), *self._notes(shown.result)]
        for write, path in ((write_markdown, option.battery_md), (write_json, option.battery_json)):
            if path is None:
                continue
            try:
                write(self.config.invocation_params.dir / path, shown, judged, lines)
            except OSError as error:
                self.unsaid.append(f"{path}: cannot be written: {error.strerror}")

    def pytest_keyboard_interrupt(self) -> None:
        self.cut_short = "cut short by Ctrl-C: what had finished is kept"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        self._take_hidden()
        for text in self.unsaid:
            terminalreporter.line(encodable(inert(text), _encoding()), red=True)
        judged = self.config.stash.get(JUDGED, ())
        if not (self.touched or judged) or terminalreporter.verbosity < -1:
            return
        from pytest_battery.saying.rendering.text import render

        encoding = _encoding()
        try:
            shown = shown_table(self.config, self.battery, {task for task, _, _ in self.touched}, self._is_touched)
        except BatteryError as error:
            terminalreporter.section("battery")
            terminalreporter.line(encodable(inert(f"no table: {error}"), encoding), red=True)
            return
        result = shown.result
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
        for text in [*self._notes(result), *([shown.unsaid] if shown.unsaid else [])]:
            terminalreporter.line(encodable(inert(text), encoding), yellow=True)

    def _take_hidden(self) -> None:
        """Count what --cached=hide left out, once."""
        if self._hidden_taken:
            return
        self._hidden_taken = True
        for permutation in self.battery.hidden:
            self.counts["kept"] += permutation.runs
            self.touched.add((permutation.task, permutation.subject.key, permutation.stack.key))

    def _is_touched(self, cell: Cell) -> bool:
        return (cell.task, cell.subject.key, cell.stack.key) in self.touched

    def _head(self, result: Tabled) -> list[str]:
        cells = [records.cell for task in result.tasks for records in task.cells if records.shown]
        subjects = {cell.subject.key for cell in cells}
        stacks = {cell.stack.key for cell in cells}
        shape = ", ".join(
            [
                _count(len(result.tasks), "task"),
                _count(result.cases, "case"),
                f"{_count(len(subjects), 'subject')} x {_count(len(stacks), 'stack')}",
            ]
        )
        counts = self.counts
        sums = (
            f"paid {money(self.paid)} now - {money(result.usd)} ever for what is shown - {counts['kept']} kept, "
            f"{counts['measured']} measured, {counts['re-scored']} re-scored, {counts['invalid']} invalid"
        )
        plan = self.config.stash.get(PLAN, None)
        if plan is not None and plan.saved:
            sums += f" - {money(plan.saved)} saved by what was fresh"
        if plan is not None and plan.projected is not None and plan.projected.high:
            sums += f" - {_planned(plan.projected, self.paid)}"
        if self.battery.mode == "replay":
            sums += f", {counts['replayed']} replayed from what was recorded"
        looks = self.config.option.battery_looks
        lines = [shape, sums]
        if result.other is not None:
            lines.append(place_line("reference", result.other, datetime.now(UTC)))
        if looks:
            lines.append(
                f"--looks {looks}: each look is judged at {5 / looks:.3g}%, so that {looks} of them stay at 5%"
            )
        return lines

    def _notes(self, result: Tabled) -> list[str]:
        notes = []
        if self.cut_short:
            notes.append(self.cut_short)
        if result.stops:
            kinds = ", ".join(f"{number} {_STOPS.get(kind, kind)}" for kind, number in sorted(result.stops.items()))
            notes.append(f"replies that are no whole answer, graded as they are: {kinds}")
        if result.unpriced:
            notes.append(f"cost unknown for {_count(result.unpriced, 'run')}: the sums leave them out")
        if result.edited:
            from pytest_battery.saying.notes import listed  # numpy comes with it; the table has it by now

            changed = _count(len(result.edited), "record")
            notes.append(f"changed by hand since measured: {changed}: {listed(result.edited)}")
        for key, models in sorted(result.models.items()):
            if len(models) > 1:
                notes.append(f"{key} was answered by more than one model: {', '.join(sorted(models))}")
        cells = {Cell(task.name, row.cell.subject, row.cell.stack) for task in result.tasks for row in task.cells}
        for problem in [
            stray for cell in sorted(cells, key=lambda cell: cell.label) for stray in self.battery.store.strays(cell)
        ]:
            notes.append(f"not counted: {problem.path}: {problem.what}")
        return notes


def _span(projected: Projected) -> str:
    low, likely, high = map(money, (projected.low, projected.likely, projected.high))
    return likely if low == high else f"{low} to {high}, probably {likely}"


def _planned(projected: Projected, paid: float) -> str:
    """What was planned, to stand beside what was paid."""
    planned = f"planned {_span(projected)}"
    if paid > projected.high * (1 + 1e-9):
        return f"{planned}: {paid / projected.high - 1:.0%} more than that was paid"
    return planned


def _price(plan: Plan) -> str:
    """What the plan costs, and from what that is known; empty where it is free."""
    projected = plan.projected
    if projected is None or not (projected.high or not projected.is_whole):
        return ""
    parts = []
    if projected.high or projected.bases:
        bases = ", ".join(f"{runs} by {basis}" for basis, runs in sorted(projected.bases.items()))
        spread = _span(projected)
        parts.append(f"{spread} (runs: {bases})")
    for what, counts in (("no price is known", projected.unpriced), ("nothing tells the tokens", projected.unknown)):
        parts += [f"{what} of {key}" for key in counts]
    return f"  price: {'; '.join(parts)}"


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


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
