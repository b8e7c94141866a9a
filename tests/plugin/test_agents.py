"""Agents as items: the built-in one in a sandbox over a fresh corpus, recorded, cached, replayed, and refused where it can't be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_battery.doing import agents
from pytest_battery.edges.sandboxes import ability

from .conftest import Project

LOADED = (agents,)
ABILITY = ability()

TASK = """\
[task]
title = "What does the file say?"
kind = "agent"
agent = "loop"
runs = 1
timeout = 30
subjects = ["fake/small"]
tools = ["bash", "read"]
corpus = { repo = "corpus" }
prompt = { text = "What does {{ case.file }} say?" }

[scorer]
use = "matchers"
contains = "{{ case.says }}"

[metrics.correct]
better = "higher"

[[case]]
id = "a"
file = "hello.txt"
says = "hello from the corpus"
"""

MODEL = """\
import json, pathlib
from pytest_battery import FakeModel

CALLS = pathlib.Path(__file__).parent / "calls.log"

def answer(request):
    last = request.messages[-1].content
    with CALLS.open("a") as log:
        log.write(json.dumps(last) + "\\n")
    if last.startswith("Result of bash:"):
        return "It says: " + last.split("\\n", 1)[1]
    return "```tool\\n" + json.dumps({"tool": "bash", "command": %r}) + "\\n```"

def pytest_battery_models():
    return {"fake": FakeModel(answer)}
"""


@pytest.fixture
def battery(project: Project) -> Project:
    if not ABILITY.works:
        pytest.skip(f"no sandbox here: {ABILITY.why}: {ABILITY.mend}")
    return look(project)


def look(
    project: Project, command: str = "cat hello.txt; echo made > new.txt", replace: Mapping[str, str] | None = None
) -> Project:
    text = TASK
    for old, new in (replace or {}).items():
        assert old in text
        text = text.replace(old, new)
    corpus = project.path / "benchmarks" / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    (corpus / "hello.txt").write_text("hello from the corpus\n")
    (project.path / "benchmarks" / "look.toml").write_text(text)
    (project.path / "conftest.py").write_text(MODEL % command)
    for cached in project.path.glob("__pycache__/conftest*"):
        cached.unlink()
    return project


def evidence(project: Project) -> Path:
    (found,) = (project.path / "store").rglob("*.evidence")
    return found


def record(project: Project) -> dict[str, Any]:
    (found,) = project.records("look")
    return found


def calls(project: Project) -> int:
    log = project.path / "calls.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_an_agent_works_in_a_fresh_corpus_and_everything_it_did_is_kept(battery: Project) -> None:
    result = battery.run("benchmarks", process=True)
    result.assert_outcomes(passed=1)
    found = record(battery)
    assert found["metrics"]["correct"] is True
    assert (found["turns"], found["stop_reason"], found["reply"]) == (2, "stop", "It says: hello from the corpus")
    assert (found["stack"]["key"], found["environment"]["agent"]) == ("bare", "loop 1")
    assert found["fingerprint"]["corpus"]
    kept = evidence(battery)
    assert b"+++ b/new.txt" in (kept / "diff.patch").read_bytes()
    corpus = json.loads((kept / "corpus.json").read_text())
    assert (corpus["commit"], corpus["notes"], len(corpus["tree"])) == (None, [], 40)
    events = [json.loads(line) for line in (kept / "events.jsonl").read_text().splitlines()]
    assert [event["type"] for event in events] == ["reply", "tool", "reply"]
    assert not (battery.path / "benchmarks" / "corpus" / "new.txt").exists()


def test_a_second_session_is_all_cached_and_a_replay_needs_no_model(battery: Project) -> None:
    battery.run("benchmarks", process=True)
    battery.run("benchmarks", process=True).assert_outcomes(skipped=1)
    assert calls(battery) == 2
    assert battery.battery("replay", "benchmarks").ret == 0
    result = battery.run("benchmarks", "--record-mode=replay", "--refresh", process=True)
    result.assert_outcomes(passed=1)
    assert calls(battery) == 2
    assert record(battery)["metrics"]["correct"] is True


def test_a_changed_corpus_is_measured_again_and_says_why(battery: Project) -> None:
    battery.run("benchmarks", process=True)
    (battery.path / "benchmarks" / "corpus" / "other.txt").write_text("more\n")
    why = battery.battery("why", "benchmarks/look.toml")
    why.stdout.fnmatch_lines(["*run 1: measure: stale: corpus changed*"])
    battery.run("benchmarks", process=True).assert_outcomes(passed=1)
    assert calls(battery) == 4


def test_what_the_agent_is_given_besides_is_in_the_fingerprint(battery: Project) -> None:
    battery.run("benchmarks", process=True)
    for line in (
        'tools = ["bash"]',
        'tools = ["bash", "read"]\nmax_turns = 9',
        'tools = ["bash", "read"]\nenv = { A = "1" }',
    ):
        look(battery, replace={'tools = ["bash", "read"]': line})
        battery.battery("why", "benchmarks/look.toml").stdout.fnmatch_lines(["*stale: prompt changed*"])


def test_an_agent_sees_nothing_of_the_project(battery: Project) -> None:
    look(battery, f"cat {battery.path}/benchmarks/look.toml {battery.path}/conftest.py; ls / {Path.home()}")
    battery.run("benchmarks", process=True)
    said = (evidence(battery) / "events.jsonl").read_text()
    assert said.count("No such file or directory") >= 3
    assert "FakeModel" not in said


def test_workers_run_agents_too(battery: Project) -> None:
    result = battery.run("benchmarks", "-n", "2", "--runs", "3", plugins=["xdist"], process=True)
    result.assert_outcomes(passed=1)
    assert len(battery.records("look")) == 3


def test_an_agent_that_never_answers_has_run_out_of_turns(battery: Project) -> None:
    look(battery, replace={'tools = ["bash", "read"]': 'tools = ["read"]\nmax_turns = 3'})
    battery.run("benchmarks", process=True).assert_outcomes(passed=1)
    found = record(battery)
    assert (found["stop_reason"], found["turns"], found["reply"]) == ("turns", 3, "")
    assert found["metrics"]["correct"] is False


def test_an_agent_that_hangs_is_ended_with_its_tools(battery: Project) -> None:
    look(battery, "sleep 600", replace={"timeout = 30": "timeout = 1"})
    result = battery.run("benchmarks", process=True)
    assert result.ret == 1
    assert record(battery)["error"]["class"] == "timeout"
    assert "no reply within 1 s" in record(battery)["error"]["message"]


def test_a_hook_puts_more_into_the_workspace(battery: Project) -> None:
    with (battery.path / "conftest.py").open("a") as conftest:
        conftest.write(
            "\ndef pytest_battery_provision(permutation, path):\n"
            "    (path / 'hello.txt').write_text('hello from ' + permutation.case.id)\n"
        )
    battery.run("benchmarks", process=True)
    assert record(battery)["reply"] == "It says: hello from a"


def test_without_a_sandbox_it_takes_the_task_and_the_command_line(project: Project) -> None:
    look(project, replace={'agent = "loop"': 'agent = "loop"\nsandbox = "none"'})
    refused = project.run("benchmarks", process=True)
    assert refused.ret == 4
    refused.stderr.fnmatch_lines(['*look.toml: the task says sandbox = "none"*say --no-sandbox too*'])
    assert calls(project) == 0
    project.run("benchmarks", "--no-sandbox", process=True).assert_outcomes(passed=1)
    assert record(project)["metrics"]["correct"] is True


def test_an_agent_that_touches_a_persons_files_is_void(project: Project) -> None:
    corpus = project.path / "benchmarks" / "corpus"
    look(
        project,
        f"cat hello.txt; echo spoiled > {corpus}/hello.txt",
        replace={'agent = "loop"': 'agent = "loop"\nsandbox = "none"'},
    )
    result = project.run("benchmarks", "--no-sandbox", process=True)
    assert result.ret == 1
    found = record(project)
    assert (found["state"], found["error"]["class"]) == ("invalid", "repository-touched")
    assert "hello.txt is changed" in found["error"]["message"]


@pytest.mark.parametrize(
    ("replace", "message"),
    [
        ({'agent = "loop"\n': ""}, '*look.toml:*: task.agent is missing: write agent = "loop"*'),
        ({'"bash", "read"': '"bash", "browse"'}, "*look.toml:8: task.tools: there is no tool 'browse'; there are read, *"),
        ({'repo = "corpus"': 'repo = "nowhere"'}, "*look.toml:9: task.corpus.repo names nowhere, and there is no such thing"),
        ({'repo = "corpus"': 'repo = "../../elsewhere"'}, "*look.toml:9: task.corpus.repo is '../../elsewhere', which leaves the project*"),
        ({'repo = "corpus"': 'repo = "corpus", pin = "v9"'}, "*look.toml:9: task.corpus: *v9*"),
        ({'kind = "agent"': 'kind = "call"'}, '*task.agent belongs to kind = "agent", and this is a task of kind = "call"'),
        ({"timeout = 30": 'timeout = 30\nenv = { API_KEY = "x" }'}, "*task.env sets API_KEY: no credential goes into a sandbox*"),
        ({"timeout = 30": 'timeout = 30\nenv = { PATH = "x" }'}, "*task.env sets PATH, which is the sandbox's own"),
        ({"timeout = 30": "timeout = 30\nmax_turns = 0"}, "*task.max_turns should be greater than or equal to 1*"),
        ({'prompt = { text = "What does {{ case.file }} say?" }\n': ""}, "*task.prompt is missing: write prompt = *"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_told_before_anything_is(project: Project, replace: dict[str, str], message: str) -> None:
    look(project, replace=replace)
    result = project.run("benchmarks", process=True)
    assert result.ret == 4
    result.stderr.fnmatch_lines([message])
    assert calls(project) == 0


def test_where_nothing_can_be_isolated_no_agent_runs(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    look(project)
    empty = project.path / "empty"
    empty.mkdir()
    (empty / "git").symlink_to("/usr/bin/git")
    monkeypatch.setenv("PATH", str(empty))
    result = project.run("benchmarks", process=True)
    assert result.ret == 4
    result.stderr.fnmatch_lines(
        ["*agents cannot be isolated here: bubblewrap is not installed: apt-get install bubblewrap*"]
    )
    assert calls(project) == 0
