"""A battery in parts, and the parts made one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_battery.doing import merging

from .conftest import Project

LOADED = (merging,)


def shards(project: Project, count: int, *extra: str, plugins: tuple[str, ...] = ()) -> list[pytest.RunResult]:
    return [
        project.run("benchmarks", f"--shard={part}/{count}", f"--battery-store=part{part}", *extra, plugins=plugins)
        for part in range(1, count + 1)
    ]


@pytest.mark.parametrize("extra", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_the_parts_are_the_whole_and_all_arms_of_a_case_are_together(project: Project, extra: tuple[str, ...]) -> None:
    project.task(cases=12)
    results = shards(project, 3, *extra, plugins=("xdist",) if extra else ())
    assert {result.ret for result in results} == {0}
    assert len(project.calls) == 24
    parts = [
        {(path.parent.name, path.name) for path in (project.path / f"part{part}").glob("echo/*/*/*.json")}
        for part in (1, 2, 3)
    ]
    assert sum(map(len, parts)) == 24
    for part in parts:
        assert {name for arm, name in part if arm == "fake--big"} == {
            name for arm, name in part if arm == "fake--small"
        }


def test_merged_parts_are_the_store_of_an_unsharded_session(project: Project) -> None:
    project.task(cases=12)
    shards(project, 3)
    result = project.battery("merge", "part1", "part2", "part3")
    result.stdout.fnmatch_lines(["24 records added, 0 there already"])
    whole = project.run("benchmarks", "--gate")
    assert len(project.calls) == 24
    whole.stdout.fnmatch_lines(["*0 to measure*", "gate passed: *"])
    assert (project.path / "store" / "echo").rglob("calls.jsonl")
    assert project.battery("replay", "benchmarks").ret == 0
    again = project.battery("merge", "part1", "part2")
    again.stdout.fnmatch_lines(["0 records added, * there already"])


def test_two_measurements_under_one_key_are_refused_and_nothing_is_copied(project: Project) -> None:
    project.task(cases=2)
    project.run("benchmarks", "--battery-store=one")
    project.run("benchmarks", "--battery-store=two")
    result = project.battery("merge", "one", "two", "--into", "both")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["echo/none/fake--big/t01-1.json: * and * are two measurements", "nothing was merged*"])
    assert not (project.path / "both").exists()


def test_what_is_no_record_is_named_and_left(project: Project) -> None:
    project.task(cases=2)
    project.run("benchmarks", "--battery-store=one")
    (project.path / "one" / "notes.txt").write_text("mine", encoding="utf-8")
    result = project.battery("merge", "one", "--json")
    told = json.loads(result.stdout.str())
    assert told["added"] == 4
    assert told["not_counted"] == [f"{Path('one') / 'notes.txt'}: is not ours"]


def test_a_store_that_is_not_there_is_told(project: Project) -> None:
    result = project.battery("merge", "absent")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["absent: there is no such directory"])


def test_an_empty_part_is_no_error(project: Project) -> None:
    project.task(cases=1)
    assert {result.ret for result in shards(project, 4)} == {0}
    assert len(project.calls) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shard", "0/3"], "*--shard 0/3: write I/N, with I from 1 to N*"),
        (["--shard", "4/3"], "*--shard 4/3: write I/N*"),
        (["--shard", "half"], "*--shard half: write I/N*"),
        (["--shard", "1/2", "--gate"], "*--shard with --gate: a part cannot be judged; merge the parts*"),
    ],
)
def test_a_part_that_is_none_is_refused(project: Project, options: list[str], message: str) -> None:
    project.task()
    result = project.run("benchmarks", *options)
    assert result.ret == 4
    result.stderr.fnmatch_lines([message])
