"""Nothing is spent unseen: the plan has a price, and the budget holds."""

from __future__ import annotations

import pytest

from pytest_battery.doing import projecting

from .conftest import Project

LOADED = (projecting,)

ONE = {'subjects = ["fake/small", "fake/big"]': 'subjects = ["fake/big"]'}
EXPECT = {**ONE, "timeout = 20": "timeout = 20\nexpect = { input = 1000, output = 100 }"}
# $1 a million tokens in and out: a call of 1,000 and 100 tokens costs $0.0011
PAID = "return Reply(word, usage=Usage(input=1000, cache_read=0, cache_write=0, output=100), cost=Cost(usd=0.0011), model='big')"
PRICED = "answer, rates=(1.0, 1.0)"


def paid(project: Project, handler: str = PRICED, body: str = PAID) -> None:
    project.fake(body, handler=handler)
    conftest = project.path / "conftest.py"
    conftest.write_text(
        conftest.read_text().replace("Reply, Usage", "Reply, Usage\nfrom pytest_battery.values.usage import Cost")
    )


def test_a_plan_without_records_has_the_price_the_task_expects(project: Project) -> None:
    paid(project)
    project.task(cases=4, replace=EXPECT)
    result = project.run("benchmarks")
    result.stdout.fnmatch_lines(["  price: $0.0044 (runs: 4 by what the task expects)"])
    result.stdout.fnmatch_lines(["paid $0.0044 now - $0.0044 ever * - planned $0.0044"])


def test_a_plan_goes_by_its_own_records_then_by_the_tasks(project: Project) -> None:
    paid(project)
    project.task(cases=2, replace=EXPECT)
    project.run("benchmarks")
    project.task(cases=4, replace=ONE)
    result = project.run("benchmarks", "--refresh")
    result.stdout.fnmatch_lines(["  price: * (runs: 2 by its own records, 2 by the task's other records)"])
    kept = project.run("benchmarks")
    kept.stdout.fnmatch_lines(["paid $0.00 now - $0.0044 ever * - $0.0044 saved by what was fresh"])


def test_what_is_free_has_no_price_line(project: Project) -> None:
    project.task(cases=2)
    project.run("benchmarks").stdout.no_fnmatch_line("*price:*")


@pytest.mark.parametrize(
    ("handler", "replace", "message"),
    [
        ("answer, rates=None", EXPECT, "*fake/big: no price is known for 4 runs; declare one in battery.toml*"),
        (PRICED, ONE, "*echo with fake/big: nothing tells how much 4 runs use; measure one without --budget, or say*"),
        (PRICED, EXPECT, "*the plan probably costs $0.0044 ($0.0044 to $0.0044), more than --budget 0.004*"),
    ],
)
def test_what_may_pass_the_budget_is_refused_and_nothing_is_spent(
    project: Project, handler: str, replace: dict[str, str], message: str
) -> None:
    paid(project, handler)
    project.task(cases=4, replace=replace)
    result = project.run("benchmarks", "--budget", "0.004")
    assert result.ret == 4
    result.stderr.fnmatch_lines([message, "*nothing was asked or spent*"])
    assert project.calls == []


@pytest.mark.parametrize("distributed", [False, True], ids=["one process", "xdist"])
def test_a_call_dearer_than_planned_stops_at_the_budget(project: Project, distributed: bool) -> None:
    """Eight calls are planned at $0.0011 and cost $0.0022: four of them fit, and what they answered is kept."""
    paid(project, body=PAID.replace("0.0011", "0.0022"))
    project.task(cases=8, replace=EXPECT)
    extra, plugins = (["-n", "2"], ["xdist"]) if distributed else ([], [])
    result = project.run("benchmarks", "--budget", "0.0088", "--jobs", "1", *extra, plugins=plugins)
    assert result.ret == 2
    assert len(project.calls) in (4, 5)  # one more may have been admitted beside another that turned out dearer
    assert len(project.records()) == len(project.calls)
    result.stdout.fnmatch_lines(["paid $* now * - planned $0.0088*"])
    result.stdout.fnmatch_lines(["cut short by the budget: * not measured whole"])


def test_what_was_paid_stands_beside_what_was_planned(project: Project) -> None:
    """Two runs are known to cost $0.0011 and two $0.0022; the next are planned from these, and cost twice as much."""
    paid(project)
    project.task(cases=2, replace=EXPECT)
    project.run("benchmarks")
    paid(project, body=PAID.replace("0.0011", "0.0022"))
    project.run("benchmarks", "--refresh", "-k", "t02")
    paid(project, body=PAID.replace("0.0011", "0.0055"))
    result = project.run("benchmarks", "--refresh")
    result.stdout.fnmatch_lines(["paid $0.01 now * - planned $0.0033: 233% more than that was paid"])


def test_over_budget_has_a_letter_and_a_reason(project: Project) -> None:
    paid(project, body=PAID.replace("0.0011", "1"))
    project.task(cases=3, replace=EXPECT)
    result = project.run("benchmarks", "--budget", "1", "--jobs", "1", "-rs")
    assert result.ret == 2
    result.stdout.fnmatch_lines(["benchmarks/echo.toml .bb*"])
    result.stdout.fnmatch_lines(
        [
            "OVER BUDGET [[]1] benchmarks/echo.toml:*: over budget: 1 of 1 runs not started: $0.0011 more would pass the budget of $1.00*"
        ]
    )


def test_what_the_budget_stopped_is_measured_next_time(project: Project) -> None:
    paid(project, body=PAID.replace("0.0011", "1"))
    project.task(cases=3, replace=EXPECT)
    project.run("benchmarks", "--budget", "1", "--jobs", "1")
    assert project.run("benchmarks").ret == 0
    assert len(project.calls) == 3


def test_a_free_battery_needs_no_budget(project: Project) -> None:
    project.task(cases=3)
    assert project.run("benchmarks", "--budget", "0").ret == 0


@pytest.mark.parametrize("amount", ["-1", "nan", "inf"])
def test_an_amount_that_is_none_is_refused(project: Project, amount: str) -> None:
    project.task()
    result = project.run("benchmarks", f"--budget={amount}")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--budget *: an amount of USD, from 0 on*"])
