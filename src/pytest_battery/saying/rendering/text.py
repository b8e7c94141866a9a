"""The gap table for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_battery.saying.gaps import GapTable, Row
from pytest_battery.saying.rendering.fitting import columns, left, right, shortened, wrapped
from pytest_battery.saying.rendering.inert import encodable, inert
from pytest_battery.saying.rendering.wording import (
    Verdict,
    detectable_text,
    gap_text,
    interval_text,
    n_text,
    needs_text,
    p_text,
    value_text,
    verdict,
)
from pytest_battery.values.subjects import Subject

__all__ = ["Ink", "Line", "render"]

Ink = Literal["green", "red", "yellow", "bold", "dim"]

_REFERENCE = "reference"
_GUTTER = "  "
_INDENT = "    "
_NARROWEST = 60
_LEAST_TASK, _LEAST_LABEL, _LEAST_LABEL_NARROW = 10, 20, 13


@dataclass(frozen=True, slots=True)
class Line:
    """One line, at most as wide as asked, and the colour or weight that repeats what its words say."""

    text: str
    ink: Ink | None = None


@dataclass(frozen=True, slots=True)
class _Entry:
    """A row as printed, safe and encodable."""

    task: str
    label: str
    numerals: tuple[str, ...]
    verdict: Verdict
    notes: tuple[str, ...]
    ink: Ink | None


def render(table: GapTable, *, width: int = 80, encoding: str = "utf-8") -> list[Line]:
    """The table's shown rows in at most *width* columns (60 at least), in characters that *encoding* has.

    Numbers are never shortened.  Where everything fits a row is a line; names give way first, with an ellipsis in the
    middle.  Where that is not enough the task becomes a heading and the verdict a line of its own, and last the
    numbers follow below the name.  Nothing is printed for a table without rows.
    """
    rows = table.shown
    if not rows:
        return []
    width = max(width, _NARROWEST)

    def safe(text: str) -> str:
        return encodable(inert(text), encoding)

    common = _common_knobs(rows)
    entries = [_entry(row, rows, common[row.task], safe) for row in rows]
    lines: list[Line] = []
    for said in _said_once(common):
        lines += [Line(text, "dim") for text in wrapped(safe(said), width, _INDENT, first="")]
    ellipsis = safe("…")
    names = ("value", "gap", f"{100 * (1 - table.alpha):.3g}% interval", "n", "p (Holm)")
    lines += (
        _wide(entries, names, width, ellipsis)
        or _narrow(entries, names, width, ellipsis)
        or _stacked(entries, names, width)
    )
    lines += [Line(text, "dim") for text in wrapped(safe(_legend(table)), width)]
    return lines


def _entry(row: Row, rows: Sequence[Row], common: Sequence[tuple[str, str]], safe: Callable[[str], str]) -> _Entry:
    metrics = {other.metric for other in rows if other.task == row.task}
    task = f"{row.task}: {row.metric}" if len(metrics) > 1 else row.task
    said = verdict(row)
    notes = filter(None, (*row.notes, detectable_text(row), needs_text(row)))
    middle = ("", _REFERENCE) if row.is_reference and row.value is not None else (gap_text(row), interval_text(row))
    p_holm = "" if row.is_reference and row.value is not None else p_text(row.gap.p_holm if row.gap else None)
    return _Entry(
        task=safe(task),
        label=safe(_label(row, common)),
        numerals=tuple(map(safe, (value_text(row), *middle, n_text(row), p_holm))),
        verdict=Verdict(safe(said.words), safe(said.rest)),
        notes=tuple(map(safe, notes)),
        ink=_ink(row),
    )


def _ink(row: Row) -> Ink | None:
    if row.reason:
        return "yellow"
    if row.gap is None or row.gap.direction is None:
        return None
    return "green" if row.gap.direction == "better" else "red"


def _wide(entries: Sequence[_Entry], names: Sequence[str], width: int, ellipsis: str) -> list[Line]:
    """A line per row; empty where names would have to give way too far."""
    widths = _numeral_widths(entries, names)
    words = max(len("verdict"), *(columns(entry.verdict.words) for entry in entries))
    room = width - sum(widths) - words - len(_GUTTER) * (len(widths) + 2)
    tasks, labels = {entry.task for entry in entries}, {entry.label for entry in entries}
    task_natural = max(len("task"), *map(columns, tasks))
    label_natural = max(len("subject/stack"), *map(columns, labels))
    task_width, label_width = min(task_natural, _LEAST_TASK), min(label_natural, _LEAST_LABEL)
    if room < task_width + label_width:
        return []
    task_width = min(task_natural, max(task_width, room // 3, room - label_natural), room - label_width)
    label_width = min(label_natural, room - task_width)
    if not (_stay_distinct(tasks, task_width, ellipsis) and _stay_distinct(labels, label_width, ellipsis)):
        return []
    verdict_width = width - task_width - label_width - sum(widths) - len(_GUTTER) * (len(widths) + 2)

    def line(task: str, label: str, numerals: Sequence[str], verdict: str) -> str:
        task = left(shortened(task, task_width, ellipsis), task_width)
        label = left(shortened(label, label_width, ellipsis), label_width)
        return _GUTTER.join((task, label, *map(right, numerals, widths), verdict)).rstrip()

    lines = [Line(line("task", "subject/stack", names, "verdict"), "bold")]
    for entry in entries:
        fits = columns(entry.verdict.text) <= verdict_width
        said = entry.verdict.text if fits else entry.verdict.words
        lines.append(Line(line(entry.task, entry.label, entry.numerals, said), entry.ink))
        lines += _below(entry, "" if fits else entry.verdict.alone, width)
    return lines


def _narrow(entries: Sequence[_Entry], names: Sequence[str], width: int, ellipsis: str) -> list[Line]:
    """The task as a heading, the verdict below the row; empty where names would have to give way too far."""
    widths = _numeral_widths(entries, names)
    labels = {entry.label for entry in entries}
    room = width - sum(widths) - len(_GUTTER) * len(widths)
    label_width = min(max(len("subject/stack"), *map(columns, labels)), room)
    if label_width < _LEAST_LABEL_NARROW or not _stay_distinct(labels, label_width, ellipsis):
        return []

    def line(label: str, numerals: Sequence[str]) -> str:
        name = left(shortened(label, label_width, ellipsis), label_width)
        return _GUTTER.join((name, *map(right, numerals, widths))).rstrip()

    lines = [Line(line("subject/stack", names), "bold")]
    for heading, entry in _headed(entries):
        lines += [Line(text, "bold") for text in wrapped(heading, width)]
        lines.append(Line(line(entry.label, entry.numerals), entry.ink))
        lines += _below(entry, entry.verdict.text, width)
    return lines


def _stacked(entries: Sequence[_Entry], names: Sequence[str], width: int) -> list[Line]:
    """Everything below the name, nothing shortened."""
    lines: list[Line] = []
    for heading, entry in _headed(entries):
        lines += [Line(text, "bold") for text in wrapped(heading, width)]
        lines += [Line(text, entry.ink) for text in wrapped(entry.label, width)]
        named = zip(names, entry.numerals, strict=True)
        numerals = [text if text == _REFERENCE else f"{name} {text}" for name, text in named if text]
        lines += [Line(text, entry.ink) for text in wrapped(numerals, width, _INDENT)]
        lines += _below(entry, entry.verdict.text, width)
    return lines


def _below(entry: _Entry, said: str, width: int) -> Iterator[Line]:
    for text in wrapped(said, width, _INDENT):
        yield Line(text, entry.ink)
    for note in entry.notes:
        for text in wrapped(note, width, _INDENT):
            yield Line(text, "dim")


def _headed(entries: Sequence[_Entry]) -> Iterator[tuple[str, _Entry]]:
    """Every entry with its task where that is another than before, else with an empty heading."""
    before = None
    for entry in entries:
        yield ("" if entry.task == before else entry.task), entry
        before = entry.task


def _numeral_widths(entries: Sequence[_Entry], names: Sequence[str]) -> list[int]:
    return [max(len(name), *(columns(entry.numerals[place]) for entry in entries)) for place, name in enumerate(names)]


def _stay_distinct(names: set[str], width: int, ellipsis: str) -> bool:
    return len({shortened(name, width, ellipsis) for name in names}) == len(names)


def _knobs(subject: Subject) -> list[tuple[str, str]]:
    level = [("thinking", subject.level)] if subject.level else []
    return sorted([*level, *subject.knobs])


def _common_knobs(rows: Sequence[Row]) -> dict[str, list[tuple[str, str]]]:
    """By task, the knobs that all its subjects share: said once, they need not stand in every label."""
    by_task: dict[str, list[Subject]] = {}
    for row in rows:
        by_task.setdefault(row.task, []).append(row.cell.subject)
    return {
        task: [knob for knob in _knobs(subjects[0]) if all(knob in _knobs(subject) for subject in subjects)]
        for task, subjects in by_task.items()
    }


def _said_once(common: Mapping[str, Sequence[tuple[str, str]]]) -> Iterator[str]:
    """What every subject shares, then what those of some tasks share beyond it."""
    everywhere = [knob for knob in next(iter(common.values())) if all(knob in knobs for knobs in common.values())]
    if everywhere:
        yield f"every subject: {_listed(everywhere)}"
    tasks: dict[str, list[str]] = {}
    for task, knobs in common.items():
        if rest := [knob for knob in knobs if knob not in everywhere]:
            tasks.setdefault(_listed(rest), []).append(task)
    for knobs_text, names in tasks.items():
        yield f"in {', '.join(names)}: {knobs_text}"


def _listed(knobs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in knobs)


def _label(row: Row, common: Sequence[tuple[str, str]]) -> str:
    subject = row.cell.subject
    own = [knob for knob in _knobs(subject) if knob not in common]
    level = "".join(f":{value}" for name, value in own if name == "thinking")
    knobs = ",".join(f"{name}={value}" for name, value in own if name != "thinking")
    label = f"{subject.ref}{level}{'@' + knobs if knobs else ''}/{row.cell.stack.key}"
    if row.origin:
        return f"{label} in {row.origin}"
    return f"{label} (control: {row.control})" if row.control else label


def _legend(table: GapTable) -> str:
    if not table.m and not table.left_out:
        return ""
    if not table.m:
        gaps = "1 gap" if table.left_out == 1 else f"{table.left_out} gaps"
        return f"{gaps} could not be computed"
    hidden = sum(row.gap is not None for row in table.rows) - sum(row.gap is not None for row in table.shown)
    parts = [f"Holm over {table.m} gap{'' if table.m == 1 else 's'}"]
    parts += [f"{hidden} of them not shown"] if hidden else []
    parts += [f"{table.left_out} more could not be computed"] if table.left_out else []
    return (
        f"{', '.join(parts)}; ★ holds after Holm, ☆ only its own {100 * (1 - table.alpha):.3g}% interval excludes zero"
    )
