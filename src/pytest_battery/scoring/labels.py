r"""The scorer ``labels``: an answer that is one of a few words.

    [scorer]
    use = "labels"
    labels = ["COOPERATE", "DEFECT"]      # what the answer may be
    expect = "{{ case.move }}"            # optional: what it should be
    ignore_case = true                    # default: letter case counts

    [scorer.steps.guess]                  # in a task of steps: for each step that is graded
    labels = ["yes", "no"]
    expect = "{{ case.truth }}"

An answer counts where it stands **alone**: the whole of a line or of a sentence, markup and punctuation aside, or all that
follows ``Answer:``, ``Label:``, ``Choice:`` or ``Decision:``.  "I would never COOPERATE. DEFECT." is DEFECT; PULL is not in
DONT_PULL; a reply in which two different labels stand alone, or none, is unparsed.

Metrics: ``parsed``, and with ``expect`` ``correct``, which is false for what is unparsed: it stays in the denominator.  For
steps ``STEP.parsed`` and ``STEP.correct``, and over all of them ``parsed`` and ``correct``.  The label itself is the reason
of ``parsed``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_battery.errors import ScoringError
from pytest_battery.scoring.plain_text import plain_text
from pytest_battery.scoring.scorers import Score, View
from pytest_battery.scoring.templates import Template, did_you_mean, text_template
from pytest_battery.values.canonical import digest
from pytest_battery.values.cases import Case

__all__ = ["UNPARSED", "Labels", "parse_label"]

UNPARSED = "unparsed"
_OPTIONS = ("expect", "ignore_case", "labels", "steps")
_SENTENCES = re.compile(r"\n+|(?<=[.!?;])\s+")
_MARKUP = " \t`*_\"'()[]{}<>#-.,:;!?\u201c\u201d\u2018\u2019\u2013\u2014"
_LED = re.compile(r"(?:final\s+)?(?:answer|label|choice|decision)\W*[:=]\W*(.+)\Z", re.IGNORECASE | re.DOTALL)


def parse_label(text: str, labels: Sequence[str], *, ignore_case: bool = False) -> str | None:
    """The one of *labels* that stands alone in *text*; None where none does, or several that differ."""
    wanted = {_form(label, ignore_case): label for label in labels}
    found = set()
    for piece in _SENTENCES.split(plain_text(text)):
        led = _LED.search(piece)
        for candidate in (piece, led.group(1) if led else ""):
            label = wanted.get(_form(candidate, ignore_case))
            if label is not None:
                found.add(label)
    return found.pop() if len(found) == 1 else None


def _form(text: str, ignore_case: bool) -> str:
    bare = " ".join(text.split()).strip(_MARKUP)
    return bare.casefold() if ignore_case else bare


@dataclass(frozen=True, slots=True)
class _Question:
    """``name`` is empty for the reply of a task without steps."""

    name: str
    labels: tuple[str, ...]
    expect: Template | None
    ignore_case: bool

    def metric(self, what: str) -> str:
        return f"{self.name}.{what}" if self.name else what

    def expected(self, case: Case) -> str | None:
        """Raises `ScoringError` for an expectation that is no label."""
        if self.expect is None:
            return None
        wanted = self.expect.render(case)
        known = {_form(label, self.ignore_case): label for label in self.labels}
        if _form(wanted, self.ignore_case) not in known:
            raise ScoringError(f"expect is {wanted!r} for case {case.id}; the labels are {', '.join(self.labels)}")
        return known[_form(wanted, self.ignore_case)]


class Labels:
    """A `Scorer`; raises `ScoringError` for options that cannot work."""

    name = "labels"

    def __init__(self, options: Mapping[str, Any], task_directory: Path) -> None:
        self._options = dict(options)
        steps = options.get("steps")
        if steps is None:
            self._questions = [_question("", options, _OPTIONS[:3], False)]
            return
        if not isinstance(steps, Mapping) or not steps:
            raise ScoringError("steps is one table a step: [scorer.steps.ID] with labels and expect")
        _refuse(options, ("ignore_case", "steps"), "beside steps")
        every = _flag(options, False)
        self._questions = [_question(name, table, _OPTIONS[:3], every) for name, table in steps.items()]

    def check(self, case: Case) -> None:
        for question in self._questions:
            question.expected(case)

    def score(self, case: Case, view: View) -> Score:
        metrics: dict[str, bool | int | float] = {}
        reasons: dict[str, str] = {}
        for question in self._questions:
            text = view.steps.get(question.name, "") if question.name else view.text
            label = parse_label(text, question.labels, ignore_case=question.ignore_case)
            metrics[question.metric("parsed")] = label is not None
            reasons[question.metric("parsed")] = label or UNPARSED
            wanted = question.expected(case)
            if wanted is not None:
                metrics[question.metric("correct")] = label == wanted
        for what in ("parsed", "correct"):
            whole = [metrics[name] for question in self._questions if (name := question.metric(what)) in metrics]
            if whole:
                metrics[what] = all(whole)
        return Score(metrics, reasons)

    def identity(self) -> Mapping[str, Any]:
        return {"source": _source_digest(), "options": self._options}


def _question(name: str, options: Any, allowed: Sequence[str], ignore_case: bool) -> _Question:
    where = f"steps.{name}" if name else "the scorer labels"
    if not isinstance(options, Mapping):
        raise ScoringError(f"{where} is {options!r}; it is a table with labels and expect")
    _refuse(options, allowed, where)
    labels = options.get("labels")
    if not isinstance(labels, list) or len(labels) < 2 or not all(isinstance(one, str) for one in labels):
        raise ScoringError(f"{where}: labels is {labels!r}; it is a list of two texts or more")
    flag = _flag(options, ignore_case)
    forms = [_form(label, flag) for label in labels]
    if "" in forms or len(set(forms)) < len(forms):
        raise ScoringError(f"{where}: labels are {labels!r}; each is a word of its own, apart from punctuation")
    expect = options.get("expect")
    if expect is not None and not isinstance(expect, str):
        raise ScoringError(f"{where}: expect is {expect!r}; it is a text, as in '{{{{ case.label }}}}'")
    return _Question(name, tuple(labels), None if expect is None else text_template(expect, f"{where}: expect"), flag)


def _flag(options: Mapping[str, Any], default: bool) -> bool:
    flag = options.get("ignore_case", default)
    if not isinstance(flag, bool):
        raise ScoringError(f"ignore_case is {flag!r}; it is true or false")
    return flag


def _refuse(options: Mapping[str, Any], allowed: Sequence[str], where: str) -> None:
    for option in options:
        if option not in allowed:
            near = did_you_mean(option, list(allowed))
            raise ScoringError(f"{where} has no option {option!r}{near}; it has {', '.join(allowed)}")


@functools.cache
def _source_digest() -> str:
    here = Path(__file__).parent
    return digest([(here / f"{name}.py").read_text(encoding="utf-8") for name in ("labels", "plain_text", "templates")])
