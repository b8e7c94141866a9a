"""Replay: the same runs from their evidence, without a provider; and what happens where the evidence does not have it."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from pytest_battery.doing import rederiving, replaying

from .conftest import Project

LOADED = (rederiving, replaying)

TALK = """\
import pytest

@pytest.mark.battery("benchmarks/talk.toml")
async def test_talk(case, model):
    first = await model.complete("ECHO:" + case["word"])
    again = await model.complete("ECHO:" + case["word"])
    return {result}
"""
PYTHON = {'kind = "call"': 'kind = "python"', 'prompt = { text = "ECHO:{{ case.word }}" }\n': ""}
COUNTING = 'count = len(CALLS.read_text().splitlines()); return f"{word}{count}"'


def files(project: Project) -> dict[str, bytes]:
    store = project.path / "store"
    return {
        str(path.relative_to(store)): path.read_bytes() for path in store.rglob("*.json*") if path.name != "looks.jsonl"
    }


def table(result: pytest.RunResult) -> list[str]:
    lines = result.outlines
    return [
        line for line in lines[lines.index(next(line for line in lines if " battery " in line)) :] if "echo" in line
    ]


def talk(project: Project, result: str) -> Path:
    """The Python test, and no bytecode of an earlier one: two edits in one second look the same to the import system."""
    test = project.path / "test_talk.py"
    test.write_text(TALK.format(result=result), encoding="utf-8")
    for cached in project.path.glob("__pycache__/test_talk*"):
        cached.unlink()
    return test


@pytest.fixture
def no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: socket.socket, address: Any) -> None:
        raise AssertionError(f"a replay opened a connection to {address}")

    for name in ("connect", "connect_ex", "bind", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)


def test_a_replay_gives_the_same_bytes_without_a_model(project: Project, no_socket: None) -> None:
    project.fake(COUNTING)
    project.task(cases=4, runs=3)
    live = project.run("benchmarks")
    before, calls = files(project), len(project.calls)
    project.fake("raise AssertionError")
    replayed = project.run("benchmarks", "--refresh", "--record-mode", "replay")
    assert replayed.ret == 0
    replayed.stdout.fnmatch_lines(["paid $0.00 now * 24 replayed from what was recorded"])
    assert files(project) == before
    assert table(replayed) == table(live)
    assert len(project.calls) == calls


def test_repeats_never_share_an_answer(project: Project) -> None:
    project.fake(COUNTING)
    project.task("talk", cases=1, runs=3, replace=PYTHON)
    test = talk(project, 'first.text + "," + again.text')
    project.run(str(test))
    before = [record["reply"] for record in project.records("talk.test_talk")]
    talk(project, 'again.text + "," + first.text')
    project.fake("raise AssertionError")
    assert project.run(str(test), "--record-mode", "replay").ret == 0
    after = [record["reply"] for record in project.records("talk.test_talk")]
    assert len(set(before)) == 6
    assert after == [",".join(reversed(reply.split(","))) for reply in before]


def test_a_call_that_was_not_recorded_names_the_first_difference(project: Project) -> None:
    project.task(cases=1, replace={'subjects = ["fake/small", "fake/big"]': 'subjects = ["fake/big"]'})
    project.run("benchmarks")
    before = files(project)
    path = project.path / "benchmarks" / "echo.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("ECHO:", "ECHO :"), encoding="utf-8")
    result = project.run("benchmarks", "--record-mode", "replay")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*no measurement in 1 of 1 runs: not-recorded (task): echo::t01[[]fake/big-none] run 1: call 1 is not in its "
            "recording: messages[[]0].content differs at character 5: recorded 'ECHO:w', asked 'ECHO :w'*"
        ]
    )
    assert files(project) == before


def test_a_call_asked_once_more_than_recorded_is_refused(project: Project) -> None:
    project.task("talk", cases=1, replace=PYTHON)
    test = talk(project, "again.text")
    project.run(str(test))
    more = 'again.text + (await model.complete("ECHO:" + case["word"])).text'
    talk(project, more)
    result = project.run(str(test), "--record-mode", "replay")
    result.stdout.fnmatch_lines(["*this was asked 2 times, and is asked once more*"])


def test_a_run_without_evidence_is_told(project: Project) -> None:
    project.task(cases=1)
    project.run("benchmarks", "--record-mode", "none")
    assert list((project.path / "store").rglob("calls.jsonl")) == []
    result = project.run("benchmarks", "--record-mode", "replay", "--refresh")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*run 1: no evidence of this run is here*measure it live*"])


def test_a_missing_record_cannot_be_replayed(project: Project) -> None:
    project.task(cases=1)
    assert project.run("benchmarks", "--record-mode", "replay").ret == 1
    assert project.calls == []
    assert project.records() == []


def test_the_verb_derives_every_record_again(project: Project) -> None:
    project.task(cases=3)
    project.run("benchmarks")
    assert project.battery("replay", "benchmarks").ret == 0
    path = next((project.path / "store" / "echo").glob("none/*big/t02-1.json"))
    record = json.loads(path.read_bytes())
    path.write_text(
        json.dumps(record | {"metrics": {"correct": False, "equals": True}, "reply": "other"}), encoding="utf-8"
    )
    result = project.battery("replay", "benchmarks")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "benchmarks/echo.toml::t02[[]fake/big-none] run 1: reply:  differs at character 1: recorded 'other', asked 'wx'",
            "benchmarks/echo.toml::t02[[]fake/big-none] run 1: metrics.correct differs: recorded False, asked True",
            "5 the same, 1 different, 0 without what it takes to tell",
        ]
    )


def test_rescore_grades_again_what_the_scorer_changed_for(project: Project) -> None:
    project.task(cases=3)
    project.run("benchmarks")
    path = project.path / "benchmarks" / "echo.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("equals =", 'contains = "w" # '), encoding="utf-8")
    assert project.battery("replay", "benchmarks").ret == 1
    result = project.battery("rescore", "benchmarks")
    result.stdout.fnmatch_lines(["graded again: 6 runs"])
    assert project.battery("replay", "benchmarks").ret == 0
    assert len(project.calls) == 6


def test_replaying_survives_xdist(project: Project) -> None:
    project.task(cases=6)
    project.run("benchmarks")
    before = files(project)
    project.fake("raise AssertionError")
    result = project.run("benchmarks", "--refresh", "--record-mode", "replay", "-n", "2", plugins=["xdist"])
    assert result.ret == 0
    assert files(project) == before
    assert Path(project.path / "store").exists()
