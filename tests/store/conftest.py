"""Lanes and records, made in a line, and scripts run as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_battery.edges.store import Store
from pytest_battery.values.cases import Case
from pytest_battery.values.fingerprints import Fingerprint
from pytest_battery.values.permutations import Cell, Lane, Permutation
from pytest_battery.values.records import Environment, Record, ScorerSeen, StackSeen, SubjectSeen
from pytest_battery.values.subjects import parse_subject


def _lane(case: str = "a", run: int = 1, subject: str = "fake/m", task: str = "t") -> Lane:
    return Lane(Permutation(Cell(task, parse_subject(subject)), Case(case), runs=max(3, run)), run)


def _record(lane: Lane, **more: Any) -> Record:
    subject = lane.permutation.subject
    fields: dict[str, Any] = {
        "task": lane.permutation.task,
        "case": lane.permutation.case.id,
        "run": lane.run,
        "subject": SubjectSeen(key=subject.key, ref=subject.ref, level=subject.level, knobs=dict(subject.knobs)),
        "stack": StackSeen(key="none"),
        "fingerprint": Fingerprint(prompt="p", case="c"),
        "scorer": ScorerSeen(name="matchers", sha="s"),
        "measured_at": datetime(2026, 7, 29, 12, 30, tzinfo=UTC),
        "wall_ms": 12,
        "state": "valid",
        "environment": Environment(plugin="0.1.0", python="3.11.7"),
    }
    return Record(**{**fields, **more})


@pytest.fixture(scope="session")
def lane() -> Callable[..., Lane]:
    """``lane(case, run, subject, task)``: run 1 of case a of fake/m in the task t."""
    return _lane


@pytest.fixture(scope="session")
def record() -> Callable[..., Record]:
    """``record(lane, field=value, ...)``"""
    return _record


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., list[str]]:
    """``script(text, argument, ...)``: the lines it printed; it runs in a process of its own and must end well.

    It finds `_lane` and `_record` by importing ``conftest``.
    """

    def run(text: str, *arguments: object) -> list[str]:
        path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        file = tmp_path / "script.py"
        file.write_text(textwrap.dedent(text))
        done = subprocess.run(
            [sys.executable, file, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run
