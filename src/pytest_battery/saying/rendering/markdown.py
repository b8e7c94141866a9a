"""The gap table as Markdown, for a comment on a pull request: what is established first, the rest folded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pytest_battery.saying.gaps import GapTable, Row
from pytest_battery.saying.gating import Judgement
from pytest_battery.saying.rendering.inert import inert
from pytest_battery.saying.rendering.wording import (
    bound_text,
    detectable_text,
    gap_text,
    interval_text,
    n_text,
    needs_text,
    p_text,
    value_text,
    verdict,
)

__all__ = ["escaped", "render_markdown"]

_ACTIVE = re.compile(r"[&<>|@`*_\[\]()#!~\\{}$^:]|(?<=www)\.|^[-+=]|(?<=\d)[.](?=\s)")
_HEAD = ("task", "subject/stack", "value", "gap", "interval", "n", "p (Holm)", "verdict")


def escaped(text: str) -> str:
    """*text* on one line that reads as itself: no markup, no mention, no link, no fence, no HTML."""
    flat = " ".join(inert(text).split())
    return _ACTIVE.sub(lambda found: f"&#{ord(found.group())};", flat)


def render_markdown(table: GapTable, *, judgements: Sequence[Judgement] = (), lines: Sequence[str] = ()) -> str:
    """The whole comment.  *lines* are facts that stand below the verdicts, in plain text."""
    rows = [row for row in table.shown if not row.is_reference]
    firm = [row for row in rows if row.gap is not None and row.gap.holds]
    rest = [row for row in rows if row not in firm]
    failed = [judgement for judgement in judgements if judgement.outcome == "failed"]
    parts = [f"### {_headline(firm, rest, judgements, failed)}", ""]
    if failed:
        parts += [*(f"- **{escaped(one.name)}**: {escaped(one.message)}" for one in failed), ""]
    if firm:
        parts += [*_table(firm, table), ""]
    if rest:
        parts += [
            f"<details><summary>{_not_established(rest)}</summary>",
            "",
            *_table(rest, table),
            "",
            "</details>",
            "",
        ]
    if table.m:
        parts += [f"Holm over {table.m} gap{'' if table.m == 1 else 's'}. ★ holds after Holm; ☆ only on its own.", ""]
    parts += [f"- {escaped(line)}" for line in lines]
    return "\n".join(parts).rstrip() + "\n"


def _headline(
    firm: Sequence[Row], rest: Sequence[Row], judgements: Sequence[Judgement], failed: Sequence[Judgement]
) -> str:
    worse = sum(row.gap is not None and row.gap.direction == "worse" for row in firm)
    counts = [f"{worse} established worse", f"{len(firm) - worse} established better", _not_established(rest)]
    head = f"battery: {', '.join(counts)}"
    if not judgements:
        return head
    return f"{head} (gate {f'failed: {len(failed)} of {len(judgements)}' if failed else 'passed'})"


def _not_established(rows: Sequence[Row]) -> str:
    without = sum(row.gap is None for row in rows)
    text = f"{len(rows) - without} inconclusive"
    return f"{text}, {without} without a gap" if without else text


def _table(rows: Sequence[Row], table: GapTable) -> Iterator[str]:
    head = [f"{100 * (1 - table.alpha):.3g}% {name}" if name == "interval" else name for name in _HEAD]
    yield f"| {' | '.join(head)} |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |"
    for row in rows:
        said = "; ".join(
            filter(None, [verdict(row).text, bound_text(row), detectable_text(row), needs_text(row), *row.notes])
        )
        against = f" vs {row.against}" if row.against else ""
        cells = (
            f"{row.task}: {row.metric}",
            row.cell.label + against,
            value_text(row),
            gap_text(row),
            interval_text(row),
            n_text(row),
            p_text(row.gap.p_holm if row.gap else None),
            said,
        )
        yield f"| {' | '.join(map(escaped, cells))} |"
