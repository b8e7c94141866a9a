"""Identity is made of content: never of dict order, hash seeds or the kind of a mapping."""

from __future__ import annotations

import os
import subprocess
import sys
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_battery.values.calls import Message, Request
from pytest_battery.values.canonical import canonical_json, digest
from pytest_battery.values.fingerprints import PARTS, Fingerprint
from pytest_battery.values.subjects import parse_subject

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=12,
)


def backwards(value: Any) -> Any:
    """The same value, every dict in the opposite order and every list a tuple."""
    if isinstance(value, dict):
        return MappingProxyType({key: backwards(item) for key, item in reversed(value.items())})
    if isinstance(value, list):
        return tuple(map(backwards, value))
    return value


@given(plain)
def test_equal_content_has_one_text(value: Any) -> None:
    assert canonical_json(value) == canonical_json(backwards(value))
    assert digest(value) == digest(backwards(value))


@given(st.text(st.characters()))
def test_any_text_has_a_digest_of_32_hex_digits(text: str) -> None:
    assert len(digest(text)) == 32
    assert int(digest(text), 16) >= 0
    assert digest("\ud800" + text) != digest(text)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"x": [float("-inf")]}])
def test_numbers_that_are_not_finite_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json(value)


@pytest.mark.parametrize("value", [{1, 2}, b"bytes", object()])
def test_what_has_no_json_form_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        canonical_json({"x": value})


@pytest.mark.parametrize(("one", "two"), [(0, None), (0, False), ("0", 0), ("", None), ([], {}), (1, 1.0)])
def test_unset_zero_false_and_empty_are_different(one: Any, two: Any) -> None:
    assert digest({"x": one}) != digest({"x": two})
    assert digest({"x": None}) != digest({})


def test_a_digest_does_not_depend_on_the_hash_seed() -> None:
    # The dict's order is a set's, so it does differ from seed to seed.
    script = (
        "from pytest_battery.values.canonical import digest\n"
        "names = {f'name-{number}' for number in range(20)}\n"
        "print(digest({name: len(name) for name in names}), ','.join(names))"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for seed in ("1", "2")
    ]
    assert found[0][1] != found[1][1]
    assert found[0][0] == found[1][0]


@pytest.mark.parametrize("part", PARTS)
def test_a_fingerprint_names_the_part_that_changed(part: str) -> None:
    old = Fingerprint(prompt="p", case="c", corpus="o", stack="s", model="m")
    assert old.changed(old) == ()
    assert old.changed(old.model_copy(update={part: "other"})) == (part,)


def test_a_request_is_identified_by_model_messages_and_schema() -> None:
    subject = parse_subject("local/m")
    request = Request(subject, (Message("user", "hi"),))
    others = [
        Request(parse_subject("local/m@temperature=0"), request.messages),
        Request(subject, (Message("system", "hi"),)),
        Request(subject, (Message("user", "hi "),)),
        Request(subject, request.messages, {"type": "object"}),
    ]
    assert request.hash() == Request(subject, (Message("user", "hi"),)).hash()
    assert len({request.hash(), *(other.hash() for other in others)}) == 5
