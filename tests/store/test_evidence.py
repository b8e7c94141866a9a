"""Evidence: the calls behind a record, and whether they are its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_battery.edges.store import Evidence, Store

Make = Callable[..., Any]
CALLS = Evidence(
    [{"text": "caf\u00e9\u2028\ud800"}, {"text": None}], {"requested": {"a": "1"}, "observed": [{}]}, "whole"
)


def put(store: Store, lane: Make, record: Make, evidence: Evidence, **more: Any) -> Path:
    return store.put(lane(), record(lane(), evidence=evidence.digest(), **more), evidence)


def test_evidence_lies_beside_the_record(store: Store, lane: Make, record: Make) -> None:
    path = put(store, lane, record, CALLS)
    directory = store.evidence_directory(path)
    assert directory == path.with_name("a-1.evidence")
    calls = (directory / "calls.jsonl").read_bytes().decode("utf-8")
    assert [json.loads(line) for line in calls.split("\n")[:-1]] == CALLS.artifacts
    assert calls.endswith("}\n")
    assert json.loads((directory / "request-knobs.json").read_bytes()) == CALLS.knobs
    assert store.artifacts(path, CALLS.digest()) == CALLS.artifacts


def test_evidence_of_another_measurement_is_noticed(store: Store, lane: Make, record: Make) -> None:
    path = put(store, lane, record, CALLS)
    other = Evidence([{"text": "another"}], {})
    assert store.artifacts(path, other.digest()) is None
    calls = store.evidence_directory(path) / "calls.jsonl"
    calls.write_bytes(calls.read_bytes()[:-5])
    assert store.artifacts(path, CALLS.digest()) is None
    assert store.artifacts(path, None) is None


def test_evidence_that_is_not_here_is_none(store: Store, lane: Make, record: Make) -> None:
    path = store.put(lane(), record(lane()))
    assert store.artifacts(path, "x") is None


def test_new_evidence_replaces_the_old_whole(store: Store, lane: Make, record: Make) -> None:
    path = put(store, lane, record, CALLS)
    put(store, lane, record, Evidence([], {}))
    directory = store.evidence_directory(path)
    assert sorted(file.name for file in directory.iterdir()) == ["calls.jsonl", "request-knobs.json"]
    assert sorted(file.name for file in path.parent.iterdir()) == ["a-1.evidence", "a-1.json"]


def test_a_rewrite_of_the_record_leaves_the_evidence(store: Store, lane: Make, record: Make) -> None:
    path = put(store, lane, record, CALLS)
    store.put(lane(), record(lane(), metrics={"correct": True}))
    assert store.artifacts(path, CALLS.digest()) == CALLS.artifacts


def test_the_whole_reply_is_that_of_the_record(store: Store, lane: Make, record: Make) -> None:
    put(store, lane, record, CALLS)
    short = record(lane(), reply="short")
    cut = record(lane(), reply="wh", reply_cut=True, evidence=CALLS.digest())
    assert store.whole_reply(lane(), short) == "short"
    assert store.whole_reply(lane(), record(lane())) is None
    assert store.whole_reply(lane(), cut) == "whole"


def test_the_reply_of_another_measurement_is_never_graded_for_it(store: Store, lane: Make, record: Make) -> None:
    # Records travel by git, evidence does not: what lies here may belong to what was measured here before.
    put(store, lane, record, CALLS)
    pulled = record(lane(), reply="wh", reply_cut=True, evidence=Evidence([], {}).digest())
    assert store.whole_reply(lane(), pulled) is None
    (store.path(lane()).with_suffix(".evidence") / "reply.txt").unlink()
    assert store.whole_reply(lane(), record(lane(), reply_cut=True, evidence=CALLS.digest())) is None
