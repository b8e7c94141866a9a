"""A clock that jumps back: between two sessions, and in the midst of one."""

from __future__ import annotations

from datetime import datetime

from .conftest import Project

BACKWARDS = """
import datetime
from pytest_battery.doing import measuring, planning, recording
from pytest_battery.plugin import session

class Backwards(datetime.datetime):
    hours = 0

    @classmethod
    def now(cls, tz=None):
        Backwards.hours += 1
        return datetime.datetime(2026, 1, 1, tzinfo=tz) - datetime.timedelta(hours=Backwards.hours)

measuring.datetime = planning.datetime = recording.datetime = session.datetime = Backwards
"""


def backwards(project: Project, jumping: bool) -> None:
    project.fake()
    if jumping:
        with (project.path / "conftest.py").open("a") as conftest:
            conftest.write(BACKWARDS)


def test_a_clock_that_runs_backwards_loses_and_repeats_nothing(project: Project) -> None:
    project.task(cases=6, runs=2)
    backwards(project, jumping=True)
    result = project.run("benchmarks", process=True)
    assert result.ret == 0
    assert len(project.calls) == 24
    records = project.records()
    moments = [datetime.fromisoformat(record["measured_at"]) for record in records]
    assert len(set(moments)) == 24
    assert max(moments).year == 2025
    assert all(0 <= record["wall_ms"] < 60_000 for record in records)
    again = project.run("benchmarks", process=True)
    again.assert_outcomes(skipped=12)
    assert len(project.calls) == 24


def test_what_was_measured_in_the_future_stays_fresh(project: Project) -> None:
    """The clock was right and jumps back, a year before the records."""
    project.task(cases=3)
    project.run("benchmarks", process=True).assert_outcomes(passed=6)
    backwards(project, jumping=True)
    project.run("benchmarks", process=True).assert_outcomes(skipped=6)
    project.task(cases=4)
    project.run("benchmarks", process=True).assert_outcomes(skipped=6, passed=2)
    refreshed = project.run("benchmarks", "--refresh", process=True)
    refreshed.assert_outcomes(passed=8)
    assert all(record["measured_at"] < "2026-01-01" for record in project.records())
