"""A disk that refuses, at every system call and for every reason: what stood there before is intact."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest

from pytest_battery.edges.store import Evidence, Problem, Store
from pytest_battery.errors import StoreWriteError
from pytest_battery.values.permutations import Lane
from pytest_battery.values.records import Record

REASONS = {"ENOSPC": errno.ENOSPC, "EROFS": errno.EROFS, "EIO": errno.EIO, "EDQUOT": errno.EDQUOT}
CALLS = ("open", "write", "fsync", "replace", "mkdir", "rename")


class Failing:
    """The *number*-th call of one function of `os` fails, the others go through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, number: int, reason: int) -> None:
        self._real: Callable[..., Any] = getattr(os, name)
        self._number, self._reason = number, reason
        self.calls = 0
        monkeypatch.setattr(os, name, self)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        if self.calls == self._number:
            raise OSError(self._reason, os.strerror(self._reason))
        return self._real(*arguments, **named)


@pytest.mark.parametrize("reason", list(REASONS))
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_refusal_leaves_the_earlier_record_and_its_evidence(
    store: Store,
    lane: Callable[..., Lane],
    record: Callable[..., Record],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    number: int,
    reason: str,
) -> None:
    old_evidence = Evidence([{"call": "old"}], {})
    old = record(lane(), wall_ms=1, evidence=old_evidence.digest())
    path = store.put(lane(), old, old_evidence)
    new_evidence = Evidence([{"call": "new"}], {})
    new = record(lane(), wall_ms=2, evidence=new_evidence.digest())
    said = ""
    with monkeypatch.context() as patched:
        failing = Failing(patched, name, number, REASONS[reason])
        try:
            store.put(lane(), new, new_evidence)
        except StoreWriteError as error:
            said = str(error)
    assert store.read_lane(lane()) == (old if said else new)
    if said:
        assert os.strerror(REASONS[reason]) in said
        assert path.name in said
    else:
        assert failing.calls < number or name == "open"  # what is only tidied away may stay
        assert store.artifacts(path, new.evidence) == [{"call": "new"}]
    assert {one.kind for one in store.walk() if isinstance(one, Problem)} <= {"leftover"}
    store.put(lane(), new, new_evidence)  # once the disk takes it again
    assert store.read_lane(lane()) == new
    assert store.artifacts(path, new.evidence) == [{"call": "new"}]
