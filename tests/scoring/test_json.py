from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_battery.errors import ScoringError
from pytest_battery.scoring import View
from pytest_battery.scoring.json_text import NoJsonError, find_json
from pytest_battery.scoring.matchers import Matchers
from pytest_battery.scoring.plain_text import plain_text
from pytest_battery.values.cases import Case

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10).filter(lambda text: plain_text(text) == text)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
CONTAINERS = st.lists(VALUES, max_size=3) | st.dictionaries(TEXT, VALUES, max_size=3)


@given(value=VALUES, ascii_only=st.booleans(), indent=st.none() | st.just(2))
def test_json_alone(value: Any, ascii_only: bool, indent: int | None):
    assert find_json(f"\ufeff\n{json.dumps(value, ensure_ascii=ascii_only, indent=indent)} \r\n") == value


@given(value=VALUES, mark=st.sampled_from(["", "json", "JSON", " json"]), fence=st.sampled_from(["```", "~~~~"]))
def test_json_in_a_fence(value: Any, mark: str, fence: str):
    written = json.dumps(value, indent=1)
    assert find_json(f"Here {{it}} is:\n{fence}{mark}\n{written}\n{fence}\nDone [1].") == value


@given(value=CONTAINERS, before=st.text("ab {[.\n", max_size=8), after=st.sampled_from(["", ".", "\nDone.", " } ok ]"]))
def test_json_with_text_around(value: Any, before: str, after: str):
    before = before.rstrip("{[\n ")  # a brace right before it makes it part of something else
    assert find_json(f"{before}{json.dumps(value)}{after}") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('```json\n{"a": 1}\n```\nor\n```json\n{"a": 2}\n```', {"a": 2}),
        ('```json\n{"a": 1}\n```\nrun\n```\npip install x\n```', {"a": 1}),
        ('```json\n{"a": 1}\n```\nrun\n```python\n{"a": 2}\n```', {"a": 1}),
        ('```\n{"a": 1}\n```\nrun\n```\nls\n```', {"a": 1}),
        ('{"a": 1} first\n```json\n{"a": 2}\n```\nthen {"a": 3}', {"a": 2}),
        ('```json\n{"a": 1}', {"a": 1}),
        ('```json {"a": 1}```', {"a": 1}),
        ('one {"a": 1} two {"a": {"b": [2]}} end', {"a": {"b": [2]}}),
        ('{x} {"a": 1}', {"a": 1}),
        ('see [1] {"a": 1}', {"a": 1}),
        ("```python\nx = {}\n```", {}),
        ('"yes"', "yes"),
        ("42", 42),
        ('"e\\u0301 \\ud800"', "\u00e9 \ufffd"),
    ],
)
def test_which_json_counts(text: str, value: Any):
    assert find_json(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no JSON"),
        ("yes", "no JSON"),
        ("it is 42", "no JSON"),
        ('{"a": 1', "not closed"),
        ('{"a": {"b": 1}, "c": "x', "not closed"),
        ('{"a": {"b": 1}, "c": ', "not closed"),
        ("{'a': 1}", "no JSON"),
        ('{"a": {"b": 1},}', "no JSON"),
        ('```json\n{"a": 1}\n```\n```json\n{"a": }\n```', "not JSON"),
        ('```json\n{"a": 1}\n{"a": 2}\n```', "more than one"),
        ('{"a": 1, "b": 2, "a": 1}', "the key 'a' twice"),
        ('{"a": NaN}', "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("[1e999]", "too large"),
        (f"[{'9' * 5000}]", "too large"),
        ("[" * 200_000, "nested too deeply"),
    ],
)
def test_what_is_no_json(text: str, message: str):
    with pytest.raises(NoJsonError, match=message):
        find_json(text)


def test_a_hostile_text_takes_no_time():
    started = time.process_time()
    for text in (
        "{x" * 300_000,
        '{"a"' * 200_000,
        "[1] {x" * 200_000,
        "```\n" * 200_000,
        '{"a":1,' + '"b":[1],' * 100_000,
    ):
        with contextlib.suppress(NoJsonError):
            find_json(text)
    assert time.process_time() - started < 10


def graded(schema: Any, text: str, directory: Path = Path(), **fields: Any) -> tuple[bool, str]:
    scorer, case = Matchers({"json_schema": schema}, directory), Case("c1", fields)
    scorer.check(case)
    found = scorer.score(case, View(text, "stop", directory))
    return bool(found.metrics["json_schema"]), found.reasons.get("json_schema", "")


LABEL = {"properties": {"label": {"const": "{{ case.expect }}"}}, "required": ["label"]}


def test_a_template_becomes_the_value():
    assert graded(LABEL, '{"label": "positive"}', expect="positive") == (True, "")
    assert graded(LABEL, '{"label": "x"}', expect="positive") == (False, "$.label is 'x', expected 'positive'")
    assert graded(LABEL, '{"label": 3}', expect=3)[0]
    assert not graded(LABEL, '{"label": "3"}', expect=3)[0]
    assert not graded(LABEL, '{"label": true}', expect=1)[0]
    assert graded({"enum": "{{ case.labels }}"}, '"b"', labels=["a", "b"])[0]
    assert graded(LABEL, '["positive"]', expect="positive") == (True, "")  # only objects have properties
    assert graded({"const": "n={{ case.n }}"}, '"n=3"', n=3)[0]
    assert graded({"minimum": "{{ case.n + 1 }}"}, "4", n=3)[0]


@given(value=VALUES)
def test_any_value_is_its_own_const(value: Any):
    assert graded({"const": "{{ case.x }}"}, json.dumps(value), x=value)[0]


def test_a_value_in_a_pattern_is_escaped():
    assert graded({"pattern": "^{{ case.x }}$"}, '"a.b"', x="a.b")[0]
    assert not graded({"pattern": "^{{ case.x }}$"}, '"axb"', x="a.b")[0]
    assert not graded({"pattern": "{{ case.x }}"}, '"axb"', x="a.b")[0]


def test_references_stay_inside():
    inside = {"$defs": {"label": {"enum": ["a"]}}, "$ref": "#/$defs/label"}
    assert graded(inside, '"a"')[0]
    assert not graded(inside, '"b"')[0]
    data = {"const": {"$ref": "https://host.example/s.json", "pattern": "("}}
    assert graded(data, json.dumps(data["const"]))[0]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"$ref": "https://host.example/s.json"}, "nothing is fetched"),
        ({"$ref": "other.json"}, "nothing is fetched"),
        ({"$ref": "#/$defs/x"}, "leads nowhere"),
        ({"type": "objct"}, r"json_schema\.type: not a JSON Schema"),
        ({"properties": {"a": {"minimum": "3"}}}, r"json_schema\.properties\.a\.minimum"),
        ({"patternProperties": {"a": {}}}, "patternProperties is not supported"),
        ({"pattern": "(?=a)"}, r"json_schema\.pattern: .*look-around"),
        ({"pattern": "\bfoo"}, "single quotes"),
        ("missing.json", "cannot be read"),
        ("/etc/s.json", "not a path below"),
        ("../s.json", "not a path below"),
        ("a\\s.json", "not a path below"),
        ("C:s.json", "not a path below"),
        ("s.toml", "does not end in .json"),
        ("broken.json", "is not JSON"),
        ("list.json", "a schema is an object"),
        ("latin.json", "not UTF-8"),
    ],
)
def test_schemas_that_cannot_be_used(schema: Any, message: str, tmp_path: Path):
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    (tmp_path / "latin.json").write_bytes(b'{"const": "\xe9"}')
    with pytest.raises(ScoringError, match=message):
        Matchers({"json_schema": schema}, tmp_path)


def test_a_schema_file_may_have_a_bom_and_templates(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "s.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(LABEL).encode())
    assert graded("sub/s.json", '{"label": "a"}', tmp_path, expect="a")[0]


def test_a_reply_no_schema_can_judge_is_wrong_not_an_error():
    nested = {"$defs": {"n": {"items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"}
    assert not graded(nested, "[" * 400 + "]" * 400)[0]
    assert not graded({"multipleOf": 0.5}, f"1{'0' * 400}")[0]
    passed, reason = graded(LABEL, "I think it is positive", expect="positive")
    assert not passed
    assert reason == "there is no JSON in the reply: 'I think it is positive'"
