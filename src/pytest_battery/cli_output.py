"""What the verbs of `battery` print."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_battery.doing.checkups import Checkup

__all__ = [
    "print_agreements",
    "print_checks",
    "print_checkups",
    "print_json",
    "print_knobs",
    "print_local_knobs",
    "print_plan",
    "print_rederived",
    "print_sampled",
    "print_status",
    "print_table",
    "print_why",
]


def print_json(document: Any) -> None:
    print(json.dumps(document, indent=2, sort_keys=True, allow_nan=False))


def print_why(told: list[dict[str, Any]]) -> None:
    from pytest_battery.saying.rendering.inert import inert

    for permutation in told:
        print(permutation["nodeid"])
        for run in permutation["runs"]:
            measured = f" (measured {run['measured_at'][:16].replace('T', ' ')} UTC)" if run["measured_at"] else ""
            print(f"  run {run['run']}: {run['action']}: {inert(run['why'])}{measured}; {_cost(run)}")
            for part, change in run.get("changed", {}).items():
                print(f"    {part}: {change['then'] or '-'} -> {change['now'] or '-'}")
            diff = run.get("prompt_diff", ())
            if diff is None:
                print("    (the evidence of what was asked then is not here)")
            for line in diff or ():
                print(f"    {inert(line)}")


def _cost(run: dict[str, Any]) -> str:
    if not run["model_calls"]:
        return "costs nothing"
    return "costs a run" if run["usd"] is None else f"costs a run, ${run['usd']:.4f} last time"


def print_status(told: dict[str, Any], states: tuple[str, ...]) -> None:
    print(f"{told['store']}: runs of each cell")
    width = max(len(f"{cell['task']}  {cell['subject']}/{cell['stack']}") for cell in told["cells"])
    print(f"{'':{width}}  " + "  ".join(f"{state:>8}" for state in states))
    for cell in told["cells"]:
        name = f"{cell['task']}  {cell['subject']}/{cell['stack']}"
        print(f"{name:{width}}  " + "  ".join(f"{cell[state] or '-':>8}" for state in states))
    if told["records_of_other_cells"]:
        print(f"{told['records_of_other_cells']} records of cells not asked for here")
    for problem in told["not_counted"]:
        print(f"not counted: {problem['path']}: {problem['why']}")


def print_table(table: Any, lines: list[str]) -> None:
    from pytest_battery.saying.rendering.inert import encodable, inert
    from pytest_battery.saying.rendering.text import render

    encoding = sys.stdout.encoding or "utf-8"
    for text in lines:
        print(encodable(inert(text), encoding))
    for line in render(table, width=shutil.get_terminal_size().columns, encoding=encoding):
        print(line.text)


def print_plan(planned: list[Any]) -> None:
    from pytest_battery.saying.rendering.inert import encodable, inert
    from pytest_battery.saying.rendering.wording import bound_text, detectable_text, needs_text, verdict

    encoding = sys.stdout.encoding or "utf-8"
    print(
        f"gaps of primary metrics that do not hold yet: {len(planned)}"
        + (", the cheapest verdict first" if planned else "")
    )
    for number, one in enumerate(planned, start=1):
        row = one.row
        head = f"{number}. {row.task}: {row.metric}: {row.cell.label} vs {row.against}: {verdict(row).text}"
        below = [needs_text(row), detectable_text(row), bound_text(row), one.fault]
        if row.needs is None and row.gap is not None:
            below.insert(0, f"say which gap you care about: [metrics.{row.metric}] care = 0.1")
        for text in (head, *(f"    {text}" for text in below if text)):
            print(encodable(inert(text), encoding))


def print_checks(checks: Any) -> None:
    from pytest_battery.saying.rendering.inert import encodable, inert

    encoding = sys.stdout.encoding or "utf-8"
    print(
        "halves of each cell's own runs compared: how often a gap was established that is not there (at most 5% expected)"
    )
    for check in checks:
        found = check.reason or f"{check.stars} of {check.splits} ({check.rate:.1%}), {check.cases} cases"
        print(encodable(inert(f"{check.task}: {check.metric}: {check.cell.label}: {found}"), encoding))


def print_rederived(told: dict[str, Any]) -> None:
    from pytest_battery.saying.rendering.inert import encodable, inert

    encoding = sys.stdout.encoding or "utf-8"
    for kind in ("different", "missing"):
        for run in told[kind]:
            for what in run["what"]:
                print(encodable(inert(f"{run['nodeid']} run {run['run']}: {what}"), encoding))
    print(
        f"{told['same']} the same, {len(told['different'])} different, {len(told['missing'])} without what it takes to tell"
    )


def print_agreements(agreements: Any) -> None:
    from pytest_battery.saying.rendering.inert import encodable, inert

    encoding = sys.stdout.encoding or "utf-8"
    for one in agreements:
        step = f" {one.step}" if one.step else ""
        text = (
            f"{one.task}{step}: {one.cell} vs {one.against}, {one.cases} cases: modal answers agree in {one.modal:.0%}, runs in "
            f"{one.pairwise:.0%}; delta {one.delta:.2f}; parsed {one.parsed[0]:.0%} vs {one.parsed[1]:.0%}"
        )
        print(encodable(inert(text), encoding))


def print_sampled(told: list[dict[str, Any]]) -> None:
    from pytest_battery.saying.rendering.inert import encodable, inert

    encoding = sys.stdout.encoding or "utf-8"
    for permutation in told:
        print(encodable(inert(f"{permutation['nodeid']}: {permutation['runs']} of {permutation['of']} runs"), encoding))
        for step in permutation["steps"]:
            name = f"  {step['step']}: " if step["step"] else "  "
            pairs = "" if step["pairwise"] is None else f", two runs agree in {step['pairwise']:.0%}"
            print(encodable(inert(f"{name}{step['parsed']} of {step['runs']} parsed{pairs}"), encoding))
            for answer, count in step["counts"].items():
                shown = answer if len(answer) <= 60 else answer[:57] + "..."
                print(encodable(inert(f"    {count:>4}  {count / step['runs']:>4.0%}  {shown}"), encoding))


def print_knobs(reference: str, api: str, dialect: str | None, rows: Any) -> None:
    spoken = f"{api}, {dialect}" if dialect else api
    family = rows[0].family if rows else "no family is known"
    print(f"{reference} ({spoken}; {family})")
    width = max((len(row.knob) for row in rows), default=0)
    for row in rows:
        what = f"refused: {row.note}" if row.type == "refused" else row.allowed
        print(f"  {row.knob:{width}}  {what}")
        below = [f"on the wire: {row.field}"] if row.field else []
        below += [f"not with {', '.join(row.excludes)}"] if row.excludes else []
        below += [f"only with {', '.join(row.requires)}"] if row.requires else []
        below += [row.note] if row.note and row.type != "refused" else []
        below.append(f"source: {row.source}, {row.date}")
        for text in below:
            print(f"  {'':{width}}    {text}")


def print_local_knobs(as_json: bool) -> None:
    from pytest_battery.edges.models.local_wire import KNOBS

    rows = {name: allowed.replace("{context}", "") for name, (_, allowed) in KNOBS.items()}
    if as_json:
        print_json([{"knob": name, "allowed": " ".join(allowed.split())} for name, allowed in rows.items()])
        return
    for name, allowed in rows.items():
        print(f"  {name:18}  {' '.join(allowed.split())}")


def print_checkups(found: Sequence[Checkup]) -> None:
    about = ""
    width = max(len(one.name) for one in found)
    for one in found:
        if one.about != about:
            about = one.about
            print(about)
        print(f"  {'works' if one.works else '-':5}  {one.name:{width}}  {one.what}")
        if one.mend:
            print(f"         {'':{width}}  {one.mend}")
