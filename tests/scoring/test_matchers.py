from __future__ import annotations

import json
import time
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_battery.errors import ScoringError
from pytest_battery.scoring import Score, Scorer, View
from pytest_battery.scoring.matchers import MAX_REASON, Matchers
from pytest_battery.values.cases import Case

HERE = Path(__file__).parent
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=30)


def score(options: dict[str, Any], text: str, stop_reason: str = "stop", **fields: Any) -> Score:
    scorer, case = Matchers(options, HERE), Case("c1", fields)
    scorer.check(case)
    return scorer.score(case, View(text, stop_reason, HERE))


def matches(options: dict[str, Any], text: str, **fields: Any) -> bool:
    return bool(score(options, text, **fields).metrics["correct"])


def test_is_a_scorer():
    assert isinstance(Matchers({"equals": "x"}, HERE), Scorer)


def test_correct_needs_every_matcher_and_each_is_a_metric():
    found = score({"contains": "a", "regex": "b", "equals": "ab"}, "abc")
    assert found.metrics == {"correct": False, "contains": True, "regex": True, "equals": False}
    assert set(found.reasons) == {"correct", "equals"}
    assert "'abc'" in found.reasons["equals"]


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (r"\d+", "x 12", True),
        (r"YES|NO", "NO", True),
        (r"(a)?b", "b", True),
        (r"^\s*{{ case.team }}\s*$", " billing\r\n", True),
        (r"^\s*{{ case.team }}\s*$", "billing team", False),
        (r"^{{ case.dots }}$", "axb", False),
        (r"^{{ case.dots }}$", "a.b", True),
        (r"^{{ case.n }}$", "11", True),
        (r"^{{ case.n }}$", "711", False),
        (r"^b$", "a\nb", False),
        (r"(?m)^b$", "a\rb\r\nc", True),
        (r"^[{{ case.range }}]$", "b", False),
        (r"^[{{ case.range }}]$", "-", True),
        (r"a{2}", "aa", True),
        (r"{{ '{#' }}", "a {# b", True),
        (["a", "b"], "ba", True),
        (["a", "b"], "a", False),
        ("{{ case.many }}", "x+y z", True),
        ("{{ case.many }}", "xy z", False),
    ],
)
def test_regex(pattern: Any, text: str, expected: bool):
    assert (
        matches({"regex": pattern}, text, team="billing", dots="a.b", range="a-c", n=11, many=["x+y", "z"]) is expected
    )


@pytest.mark.parametrize("text", ["711", "11.0", "-11", "1,111", "$11", "11%", ""])
def test_equals_never_matches_a_suffix(text: str):
    assert not matches({"equals": "{{ case.n }}"}, text, n=11)


def test_equals_ignores_only_the_white_space_around():
    assert matches({"equals": "a b"}, "\n a b\t")
    assert not matches({"equals": "a b"}, "a  b")
    assert matches({"equals": ""}, "  ")


@pytest.mark.parametrize("option", ["equals", "contains", "regex"])
def test_ignore_case(option: str):
    assert matches({option: "éCOLE", "ignore_case": True}, "École")
    assert not matches({option: "éCOLE"}, "École")


def test_both_sides_are_compared_in_one_normal_form():
    for option in ("equals", "contains", "regex"):
        assert matches({option: "caf\u00e9"}, "cafe\u0301")
        assert matches({option: "{{ case.x }}"}, "caf\u00e9", x="cafe\u0301")


@given(value=ANY_TEXT.filter(bool), before=st.text("ab (\\", max_size=3), ignore_case=st.booleans())
def test_any_value_matches_itself_in_every_text_matcher(value: str, before: str, ignore_case: bool):
    if not value.strip("\ufeff"):
        return
    options: dict[str, Any] = {"ignore_case": ignore_case}
    for option in ("regex", "contains"):
        assert matches({option: "{{ case.x }}", **options}, value, x=value)
        assert matches({option: "{{ case.x }}", **options}, f"{before}\n{value}", x=f"\n{value}")
    assert matches({"equals": "{{ case.x }}", **options}, value, x=value)
    assert matches({"regex": r"\A{{ case.x }}\z"}, value, x=value)


@given(value=st.text("ab.*+?()[]{}|^$\\", min_size=1, max_size=8), other=st.text("ab.*+?()[]{}|^$\\", max_size=8))
def test_a_value_in_a_pattern_matches_nothing_else(value: str, other: str):
    assert matches({"regex": r"\A{{ case.x }}\z"}, other, x=value) is (value == other)


@given(text=ANY_TEXT)
def test_no_reply_crashes_a_matcher(text: str):
    options = {"regex": "a", "equals": "a", "contains": "a", "paths": "a/b", "json_schema": {"type": "object"}}
    found = score(options, text)
    assert all(len(reason) <= MAX_REASON and reason.isprintable() for reason in found.reasons.values())


@pytest.mark.parametrize("pattern", [r"(a|aa)+$", r"^(\w+\s?)*$", r"(x+x+)+y"])
def test_no_pattern_is_exponential(pattern: str):
    started = time.process_time()
    matches({"regex": pattern}, "a" * 40_000 + "!b")
    matches({"json_schema": {"pattern": pattern}}, json.dumps("a" * 40_000 + "!b"))
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("stop_reason", "text", "reason"),
    [
        ("stop", "", "no answer: the reply was empty"),
        ("empty", "\n", "no answer: the reply was empty"),
        ("length", "on", "cut at max_tokens (stop reason length)"),
        ("length", "", "no answer: the reply was empty; cut at max_tokens (stop reason length)"),
        ("refusal", "I cannot", "refused"),
        ("filtered", "", "no answer: the reply was empty; blocked by the provider (stop reason filtered)"),
    ],
)
def test_an_answer_that_is_none_says_so(stop_reason: str, text: str, reason: str):
    found = score({"equals": "one"}, text, stop_reason)
    assert found.metrics["correct"] is False
    assert found.reasons["correct"] == reason
    assert found.reasons["equals"].startswith(reason)


def test_a_right_answer_needs_no_reason():
    assert score({"equals": "one"}, "one", "length").reasons == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "nothing to match"),
        ({"ignore_case": True}, "ignore_case changes nothing"),
        ({"regx": "a"}, "did you mean 'regex'"),
        ({"regex": 1}, "1 is a int; regex is a string or a list of strings"),
        ({"regex": ["a", 1]}, "1 is a int"),
        ({"regex": ""}, "any reply would pass"),
        ({"contains": []}, "any reply would pass"),
        ({"equals": ["a"]}, "it is a string"),
        ({"equals": "a", "ignore_case": "yes"}, "true or false"),
        ({"paths": "a", "ignore_case": True}, "ignore_case changes nothing"),
        ({"json_schema": 3}, "json_schema is a int"),
        ({"json_schema": {"const": date(2025, 1, 1)}}, r"json_schema\.const.*date in quotes"),
        ({"json_schema": {"const": float("nan")}}, "nan is not JSON"),
        ({"regex": "\bfoo\b"}, r"U\+0008.*single quotes"),
        ({"regex": "C:\temp"}, r"U\+0009.*\\t.*single quotes"),
        ({"paths": ["src\new.py"]}, r"U\+000A.*single quotes"),
        ({"regex": "{{ case.x"}, "is not a template"),
        ({"regex": "a{#2}"}, "is not a template"),
    ],
)
def test_options_that_can_never_work(options: dict[str, Any], message: str):
    with pytest.raises(ScoringError, match=message):
        Matchers(options, HERE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"regex": "{{ case.tem }}"}, r"case\.tem is not a field of the case \(did you mean 'team'.*fields are .*team"),
        ({"equals": "{{ case.items }}"}, "case.items is not a field"),
        ({"contains": "{{ case['nope'] }}"}, "case.nope is not a field"),
        ({"json_schema": {"const": "{{ case.nope }}"}}, "json_schema.const.*case.nope is not a field"),
        ({"equals": "{{ case.none }}"}, "null cannot be written"),
        ({"equals": "{{ case.list }}"}, "a list cannot be written"),
        ({"regex": "x{{ case.list }}"}, "a list cannot be written"),
        ({"contains": "{{ case.empty }}"}, "empty text"),
        ({"paths": "{{ case.nothing }}"}, "empty list"),
        ({"equals": "{{ case.n / 0 }}"}, "division by zero"),
        ({"regex": r"(?=a)b"}, "look-around is not supported"),
        ({"regex": r"(a)\1"}, "backreference is not supported"),
        ({"regex": r"a\Z"}, r"write \\z"),
        ({"regex": r"(?>a)"}, "linear in the text"),
        ({"regex": r"["}, r"'\[' cannot be used: missing \]"),
        ({"paths": "../src/a.py"}, "stays inside"),
        ({"paths": "/etc/passwd"}, "stays inside"),
        ({"json_schema": {"type": "{{ case.team }}"}}, "not a JSON Schema"),
        ({"json_schema": {"const": "{{ case.n }}", "pattern": "(?=a)"}}, "json_schema.*pattern.*look-around"),
    ],
)
def test_what_cannot_work_with_a_case_is_refused_by_check(options: dict[str, Any], message: str):
    case = Case("c1", {"team": "billing", "n": 1, "none": None, "list": [1], "empty": "", "nothing": []})
    scorer = Matchers(options, HERE)
    with pytest.raises(ScoringError, match=message):
        scorer.check(case)


def test_templates_are_sandboxed():
    scorer = Matchers({"equals": "{{ ''.__class__.__mro__ }}"}, HERE)
    with pytest.raises(ScoringError, match="unsafe"):
        scorer.check(Case("c1"))


def test_fields_named_like_methods_are_fields():
    assert matches({"equals": "{{ case.items }}/{{ case.line }}"}, "a/b", items="a", line="b")


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (1.5, "1.5"), (11, "11"), ("a", "a")])
def test_values_are_written_as_json_writes_them(value: Any, text: str):
    assert matches({"equals": "{{ case.x }}"}, text, x=value)


def test_identity_is_json_and_follows_options_and_schema_content(tmp_path: Path):
    schema = tmp_path / "s.json"
    schema.write_text('{"type": "object"}', encoding="utf-8")
    first = Matchers({"json_schema": "s.json"}, tmp_path).identity()
    assert json.loads(json.dumps(first)) == first
    assert first == Matchers({"json_schema": {"type": "object"}}, HERE).identity()
    schema.write_text('{"type": "array"}', encoding="utf-8")
    assert Matchers({"json_schema": "s.json"}, tmp_path).identity() != first
    assert Matchers({"equals": "a"}, HERE).identity() != Matchers({"equals": "b"}, HERE).identity()
