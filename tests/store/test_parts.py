"""Equal parts of records are one object, and a record is the same whether they were known or not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_battery.edges.store import Store
from pytest_battery.edges.store.parts import Parts
from pytest_battery.edges.store.reading import parse_record
from pytest_battery.edges.store.writing import record_bytes, unsealed
from pytest_battery.values.permutations import Lane
from pytest_battery.values.records import Record

Make = Callable[..., Any]
SHARED = ("environment", "knobs", "stack", "subject")


def as_bytes(record: Record) -> bytes:
    """As it is written, without the seal."""
    return unsealed(record_bytes(record.model_dump(mode="json", by_alias=True)))[0]


def test_records_of_a_cell_share_what_they_have_in_common(store: Store, lane: Make, record: Make) -> None:
    for run in (1, 2, 3):
        store.put(lane(run=run), record(lane(run=run), reply=f"answer {run}"))
    first, second, third = (store.read_lane(lane(run=run)) for run in (1, 2, 3))
    assert isinstance(second, Record)
    assert [one.reply for one in (first, second, third)] == ["answer 1", "answer 2", "answer 3"]
    for name in SHARED:
        assert getattr(second, name) is getattr(third, name)
        assert getattr(second, name) == getattr(record(lane()), name)


@given(
    reply=st.text(max_size=30) | st.none(),
    metrics=st.dictionaries(st.text("ab", min_size=1), st.booleans() | st.floats(0, 1), max_size=3),
    wall=st.integers(0, 10**6),
)
@settings(deadline=None, derandomize=True)
def test_a_record_is_the_same_whether_its_parts_are_known_or_not(
    lane: Make, record: Make, reply: str | None, metrics: dict[str, Any], wall: int
) -> None:
    content = as_bytes(record(lane(), reply=reply, metrics=metrics, wall_ms=wall, new_key=[1]))
    parts = Parts()
    assert parts.parse(content) is None
    whole = Record.model_validate_json(content)
    parts.learn(content, whole)
    known = parts.parse(content)
    assert known == whole
    assert type(known) is Record
    assert known.model_fields_set == whole.model_fields_set
    assert as_bytes(known) == content
    assert as_bytes(known.model_copy(update={"wall_ms": 7})) == as_bytes(whole.model_copy(update={"wall_ms": 7}))


@pytest.mark.parametrize("name", SHARED)
def test_a_part_that_differs_is_read_from_its_own_file(lane: Make, record: Make, name: str) -> None:
    content = as_bytes(record(lane()))
    parse_record(Path("a.json"), content)
    document = json.loads(content)
    changed = {
        "environment": {"plugin": "9", "python": "3.99"},
        "knobs": {"requested": {"top_k": "1"}, "observed": {}},
        "stack": {"key": "other"},
        "subject": {"key": "x/y", "ref": "x/y"},
    }[name]
    found = parse_record(Path("b.json"), record_bytes({**document, name: changed}))
    assert isinstance(found, Record)
    assert getattr(found, name).model_dump(exclude_unset=True) == changed


def test_a_part_that_is_no_part_is_no_record_even_among_known_ones(lane: Make, record: Make) -> None:
    content = as_bytes(record(lane()))
    parse_record(Path("a.json"), content)
    broken = parse_record(Path("b.json"), record_bytes({**json.loads(content), "subject": 3}))
    assert not isinstance(broken, Record)
    assert "subject" in broken.what


def test_a_record_written_in_another_form_is_read_as_well(lane: Lane, record: Make) -> None:
    document = json.loads(as_bytes(record(lane())))
    for indent in (None, 1, 4):
        found = parse_record(Path("a.json"), json.dumps(document, indent=indent).encode())
        assert isinstance(found, Record)
        assert as_bytes(found) == unsealed(record_bytes(document))[0]
