"""An answer that is one of a few words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_battery.errors import ScoringError
from pytest_battery.scoring.labels import Labels, parse_label
from pytest_battery.scoring.scorers import View
from pytest_battery.values.cases import Case

MOVES = ("COOPERATE", "DEFECT")
PULLS = ("PULL", "DONT_PULL")


@pytest.mark.parametrize(
    ("text", "labels", "label"),
    [
        ("I would never COOPERATE. DEFECT.", MOVES, "DEFECT"),
        ("DONT_PULL", PULLS, "DONT_PULL"),
        ("PULL", PULLS, "PULL"),
        ("I would not PULL", PULLS, None),
        ("I think I should COOPERATE", MOVES, None),
        ("COOPERATE\nbecause it pays", MOVES, "COOPERATE"),
        ("**DEFECT**", MOVES, "DEFECT"),
        ("`DEFECT`.", MOVES, "DEFECT"),
        ("My reasoning is long.\n\nAnswer: COOPERATE", MOVES, "COOPERATE"),
        ("Final answer: **DEFECT**.", MOVES, "DEFECT"),
        ("COOPERATE. DEFECT.", MOVES, None),
        ("COOPERATE.\nCOOPERATE.", MOVES, "COOPERATE"),
        ("cooperate", MOVES, None),
        ("", MOVES, None),
        ("COOPERATE or DEFECT?", MOVES, None),
        ("COOPERATES", MOVES, None),
        ("not sure\r\nDEFECT\r\n", MOVES, "DEFECT"),
        ("on hold", ("hold", "on hold"), "on hold"),
    ],
)
def test_a_label_counts_where_it_stands_alone(text: str, labels: tuple[str, ...], label: str | None) -> None:
    assert parse_label(text, labels) == label
    assert parse_label(text, tuple(reversed(labels))) == label


@given(st.sampled_from(PULLS), st.text(st.characters(whitelist_categories=["Ll", "Zs"]), max_size=30))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_what_is_said_before_a_label_of_its_own_line_does_not_matter(label: str, before: str) -> None:
    assert parse_label(f"{before}\n{label}\n", PULLS) == label


def view(text: str, steps: dict[str, str] | None = None) -> View:
    return View(text, "stop", Path("."), steps=steps or {})


def test_an_unparsed_answer_stays_in_the_denominator() -> None:
    scorer = Labels({"labels": list(MOVES), "expect": "{{ case.move }}"}, Path("."))
    case = Case("a", {"move": "DEFECT"})
    assert scorer.score(case, view("DEFECT")).metrics == {"parsed": True, "correct": True}
    assert scorer.score(case, view("COOPERATE")).metrics == {"parsed": True, "correct": False}
    unparsed = scorer.score(case, view("Hard to say."))
    assert unparsed.metrics == {"parsed": False, "correct": False}
    assert unparsed.reasons == {"parsed": "unparsed"}
    assert unparsed.unjudged == {}


def test_steps_are_graded_each_and_whole() -> None:
    options = {
        "steps": {
            "move": {"labels": list(MOVES), "expect": "{{ case.move }}"},
            "sure": {"labels": ["yes", "no"], "ignore_case": True},
        }
    }
    scorer = Labels(options, Path("."))
    score = scorer.score(Case("a", {"move": "DEFECT"}), view("?", {"move": "DEFECT", "sure": "Yes."}))
    assert score.metrics == {
        "move.parsed": True,
        "move.correct": True,
        "sure.parsed": True,
        "parsed": True,
        "correct": True,
    }
    assert score.reasons == {"move.parsed": "DEFECT", "sure.parsed": "yes"}
    missing = scorer.score(Case("a", {"move": "DEFECT"}), view("", {"move": "DEFECT"}))
    assert (missing.metrics["sure.parsed"], missing.metrics["parsed"]) == (False, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "labels is None; it is a list of two texts or more"),
        ({"labels": ["a"]}, r"labels is \['a'\]"),
        ({"labels": ["a", "a."]}, "each is a word of its own"),
        ({"labels": ["Yes", "yes"], "ignore_case": True}, "each is a word of its own"),
        ({"labels": ["a", "b"], "expected": "a"}, r"has no option 'expected' \(did you mean 'expect'\?\)"),
        ({"labels": ["a", "b"], "expect": 1}, "expect is 1; it is a text"),
        ({"labels": ["a", "b"], "ignore_case": 1}, "ignore_case is 1; it is true or false"),
        ({"steps": {}}, "steps is one table a step"),
        ({"steps": {"x": 1}}, "steps.x is 1; it is a table"),
        ({"steps": {"x": {"labels": ["a", "b"]}}, "labels": ["a", "b"]}, "beside steps has no option 'labels'"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScoringError, match=message):
        Labels(options, Path("."))


def test_an_expectation_that_is_no_label_is_refused_before_any_call() -> None:
    scorer = Labels({"labels": list(MOVES), "expect": "{{ case.move }}"}, Path("."))
    with pytest.raises(ScoringError, match="expect is 'DEFECTS' for case a; the labels are COOPERATE, DEFECT"):
        scorer.check(Case("a", {"move": "DEFECTS"}))
