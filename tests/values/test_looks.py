"""Looks at a gap: how they are written, and how they are counted."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_battery.values.looks import Look, look_number

text = st.text(max_size=8)
moments = st.datetimes(min_value=datetime(2026, 1, 1), max_value=datetime(2030, 1, 1), timezones=st.just(UTC))
looks = st.builds(Look, task=text, subject=text, stack=text, evidence=text, reference=text, at=moments)
# few names, so that gaps and runs come again
colliding = st.builds(
    Look,
    task=st.sampled_from("ab"),
    subject=st.just("s"),
    stack=st.just("none"),
    evidence=st.sampled_from("wxyz"),
    reference=st.sampled_from("qr"),
    at=moments,
)
quickly = settings(max_examples=60, deadline=None, derandomize=True)


@quickly
@given(looks, st.dictionaries(st.text("klm", min_size=1, max_size=3), st.integers() | st.text(max_size=5), max_size=3))
def test_a_look_comes_back_as_it_was_written_with_what_is_not_known(look: Look, unknown: dict[str, object]) -> None:
    line = json.dumps({**json.loads(look.model_dump_json()), **unknown})
    back = Look.model_validate_json(line)
    assert json.loads(back.model_dump_json()) == json.loads(line)
    assert Look.model_validate_json(back.model_dump_json()) == back
    assert back.gap == look.gap


@pytest.mark.parametrize("line", [b"", b"[]", b"{}", b'{"task": 1}', b"not json"])
def test_a_line_that_is_no_look_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="Look"):
        Look.model_validate_json(line)


@quickly
@given(st.lists(colliding, max_size=12), colliding)
def test_the_same_runs_never_count_twice(ledger: list[Look], look: Look) -> None:
    number = look_number(ledger, look)
    assert look_number([*ledger, look], look) == number
    assert look_number([*ledger, look, look], look) == number
    others = {other.evidence for other in ledger if other.gap == look.gap and other.evidence != look.evidence}
    assert 1 <= number <= len(others) + 1


@quickly
@given(st.lists(colliding, max_size=12), colliding)
def test_other_gaps_and_earlier_references_do_not_count(ledger: list[Look], look: Look) -> None:
    assert look_number([other for other in ledger if other.gap != look.gap], look) == 1
    anew = look.model_copy(update={"reference": "measured anew"})
    assert look_number([*ledger, look], anew) == 1


def test_looks_are_numbered_in_the_order_of_the_ledger() -> None:
    at = datetime(2026, 7, 29, tzinfo=UTC)

    def look(evidence: str) -> Look:
        return Look(task="t", subject="s", stack="none", evidence=evidence, reference="r", at=at)

    ledger = [look("first"), look("second"), look("first")]
    assert [look_number(ledger, look(name)) for name in ("first", "second", "third")] == [1, 2, 3]
