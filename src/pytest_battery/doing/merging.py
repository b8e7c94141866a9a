"""Stores of several machines, made one."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_battery.edges.store import Problem, Store
from pytest_battery.errors import StoreError

__all__ = ["Merged", "merge"]

_NAMED = 10


@dataclass(slots=True)
class Merged:
    """``added`` records were copied, ``same`` were there already; ``problems`` are files that are no records."""

    added: int = 0
    same: int = 0
    problems: list[Problem] = field(default_factory=list)


def merge(into: Store, stores: Sequence[Store]) -> Merged:
    """Copy the records of *stores*, and their evidence, *into* one.

    Two measurements under one key are a conflict: nothing is copied at all.  Raises `StoreError` naming them, and for a
    store that is none.
    """
    result = Merged()
    chosen: dict[Path, Path] = {}
    conflicts: list[str] = []
    for store in stores:
        if not store.root.is_dir():
            raise StoreError(f"{store.root}: there is no such directory")
        for one in store.walk():
            if isinstance(one, Problem):
                result.problems.append(one)
                continue
            place = one.path.relative_to(store.root)
            target = into.root / place
            other = chosen.get(place) or (target if target.exists() else None)
            if other is None:
                chosen[place] = one.path
            elif other.read_bytes() == one.path.read_bytes():
                result.same += 1
            else:
                conflicts.append(f"{place}: {other} and {one.path} are two measurements")
    if conflicts:
        more = len(conflicts) - _NAMED
        shown = [*conflicts[:_NAMED], *([f"and {more} more"] if more > 0 else [])]
        raise StoreError("\n".join([*shown, "nothing was merged: keep one of each, or merge into another store"]))
    into.prepare()
    for place, source in chosen.items():
        target = into.root / place
        target.parent.mkdir(parents=True, exist_ok=True)
        evidence = into.evidence_directory(source)
        if evidence.is_dir():
            shutil.copytree(evidence, into.evidence_directory(target), dirs_exist_ok=True)
        into.put_bytes(target, source.read_bytes())
        result.added += 1
    known = {look.model_dump_json() for look in into.looks()[0]}
    for store in stores:
        fresh = [look for look in store.looks()[0] if look.model_dump_json() not in known]
        known |= {look.model_dump_json() for look in fresh}
        if fresh:
            into.append_looks(fresh)
    return result
