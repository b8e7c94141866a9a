"""Real agents as items, against a scripted model: bare and with one brick, cached, replayed, and every way to fail apart.

They are installed with `battery agents install pi codex claude-code`; what is not here is skipped, saying so.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_battery.doing import driven
from pytest_battery.edges.agents.installing import WHERE, installed
from pytest_battery.edges.sandboxes import ability
from pytest_battery.errors import AgentError

from ..relay.scripted import Scripted, Turn, scripted
from .conftest import Project

LOADED = (driven,)
ABILITY = ability()
HERE = Path(os.environ.get("BATTERY_AGENTS") or Path(__file__).parents[2] / WHERE)

PROVIDERS = {"pi": "chat", "codex": "resp", "claude-code": "anth", "loop": "chat"}
APIS = {"chat": "openai-chat", "resp": "openai-responses", "anth": "anthropic"}
MARK = "MARKED-BY-THE-BRICK"

TASK = """\
[task]
title = "What does the file say?"
kind = "agent"
agent = "{agent}"
runs = {runs}
timeout = 60
subjects = ["{provider}/battery-1@max_tokens=4096"]
stacks = {stacks}
corpus = {{ repo = "corpus" }}
prompt = {{ text = "What does {{{{ case.file }}}} say?" }}
{more}
[scorer]
use = "matchers"
contains = "hello"

[metrics.correct]
better = "higher"

[[case]]
id = "a"
file = "hello.txt"
{second}
"""


@pytest.fixture(autouse=True)
def _isolated() -> None:
    if not ABILITY.works:
        pytest.skip(f"no sandbox here: {ABILITY.why}: {ABILITY.mend}")


def knows(body: Mapping[str, Any]) -> str:
    """The right answer, for who was given the brick."""
    return "It says: hello from the workspace." if MARK in json.dumps(body) else "No idea."


def held(body: Mapping[str, Any]) -> str:
    """What the probe printed is in the agent's next request; `hello` only where everything held."""
    said = json.dumps(body)
    return (
        "hello" if said.count("held ") >= 8 and "probed" in said and "BROKEN" not in said else f"broken: {said[-3000:]}"
    )


SCENARIOS: Mapping[str, Sequence[Turn]] = {
    "probe": [Turn("Let me look.", run="bash probe.sh 2>&1"), Turn(answer=held)],
    "brick": [Turn("Let me look.", run="cat hello.txt"), Turn(answer=knows)],
    "plain": [Turn(answer=knows)],  # the built-in agent is offered no tools of an API
}


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted(**SCENARIOS) as running:
        yield running


def setup(
    project: Project,
    server: Scripted,
    agent: str,
    scenario: str,
    *,
    runs: int = 1,
    cases: int = 1,
    stacks: str = '["bare"]',
    more: str = "",
) -> None:
    if agent != "loop":
        try:
            installed(agent, HERE)
        except AgentError as error:
            pytest.skip(str(error))
        (project.path / ".battery").mkdir(exist_ok=True)
        (project.path / WHERE).symlink_to(HERE)
    corpus = project.path / "benchmarks" / "corpus"
    corpus.mkdir(parents=True)
    (corpus / "hello.txt").write_text("hello from the workspace\n")
    (project.path / "brick.md").write_text(f"{MARK}: answer with what the file says.\n")
    (project.path / "conftest.py").unlink()
    base = {name: server.at(scenario) + ("" if name == "anth" else "/v1") for name in APIS}
    manifest = "".join(
        f'[providers.{name}]\napi = "{api}"\nbase_url = "{base[name]}"\nprice = {{ input = 1.0, output = 5.0 }}\n\n'
        for name, api in APIS.items()
    )
    manifest += f'[stacks.marked]\nagent = "{agent}"\nbricks = [{{ context = "brick.md" }}]\n'
    (project.path / "battery.toml").write_text(manifest)
    second = '\n[[case]]\nid = "b"\nfile = "hello.txt"\n' if cases == 2 else ""
    text = TASK.format(agent=agent, runs=runs, provider=PROVIDERS[agent], stacks=stacks, more=more, second=second)
    (project.path / "benchmarks" / "look.toml").write_text(text)


@pytest.mark.parametrize("agent", ["loop", "pi", "codex", "claude-code"])
def test_what_a_brick_changes_is_established(project: Project, server: Scripted, agent: str) -> None:
    """2 cases x 5 runs, bare and with the brick; a second session is all cached; a replay asks nobody."""
    setup(project, server, agent, "plain" if agent == "loop" else "brick", runs=5, cases=2, stacks='["bare", "marked"]')
    result = project.run("benchmarks", process=True)
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines([f"{PROVIDERS[agent]}/battery-1/marked *+1.00 *", "*established \u2605 better*"])
    records = project.records("look")
    assert len(records) == 20
    assert {record["state"] for record in records} == {"valid"}
    assert {record["metrics"]["correct"] for record in records if record["stack"]["key"] == "bare"} == {False}
    assert {record["metrics"]["correct"] for record in records if record["stack"]["key"] == "marked"} == {True}
    for record in records:
        assert record["turns"] == (1 if agent == "loop" else 2)
        assert record["knobs"] == {"requested": {"max_tokens": "4096"}, "observed": {"max_tokens": 4096}}
        assert record["cost"]["usd"] > 0
        assert record["environment"]["agent"].startswith(f"{agent} ")
        assert record["response_model"] == "battery-1"
    kept = sorted((project.path / "store").rglob("*.evidence"))
    assert len(kept) == 20
    for place in kept:
        calls = [json.loads(line) for line in (place / "calls.jsonl").read_text().splitlines()]
        assert all(call["observed"]["max_tokens"] == 4096 for call in calls)
        assert (place / "diff.patch").read_bytes() == b""
    asked = len(server.asked)
    project.run("benchmarks", process=True).assert_outcomes(skipped=4)
    assert project.battery("replay", "benchmarks").ret == 0
    project.run("benchmarks", "--record-mode=replay", "--refresh", process=True).assert_outcomes(passed=4)
    assert len(server.asked) == asked
    assert [record["metrics"] for record in project.records("look")] == [record["metrics"] for record in records]


@pytest.mark.parametrize("agent", ["pi", "codex", "claude-code"])
def test_nothing_an_agents_tool_tries_gets_out(project: Project, server: Scripted, agent: str) -> None:
    """The probe of tests/sandboxes, run by each agent's own shell tool."""
    setup(project, server, agent, "probe")
    corpus = project.path / "benchmarks" / "corpus"
    (corpus / "probe.sh").write_bytes((Path(__file__).parents[1] / "sandboxes" / "probe.sh").read_bytes())
    project.run("benchmarks", process=True).assert_outcomes(passed=1)
    (record,) = project.records("look")
    assert record["reply"] == "hello"


@pytest.mark.parametrize("agent", ["pi", "codex", "claude-code"])
@pytest.mark.parametrize(
    ("scenario", "kind"),
    [("e401", "agent-failed"), ("e500", "agent-failed"), ("wrong-model", "violation"), ("no-usage", "no-reply")],
)
def test_what_is_no_measurement_is_none_whatever_the_agents_exit_code(
    project: Project, server: Scripted, agent: str, scenario: str, kind: str
) -> None:
    setup(project, server, agent, scenario)
    result = project.run("benchmarks", process=True)
    assert result.ret == 1
    (record,) = project.records("look")
    assert record["state"] == "invalid"
    assert record["error"]["class"] in (kind, "violation"), record["error"]


def test_an_agent_that_never_ends_is_ended_by_the_budget(project: Project, server: Scripted) -> None:
    """Each call costs $0.0014 and more, and the model asks for a tool for ever."""
    setup(project, server, "pi", "loop")
    path = project.path / "benchmarks" / "look.toml"
    path.write_text(path.read_text().replace("timeout = 60", "timeout = 60\nexpect = { input = 1000, output = 100 }"))
    result = project.run("benchmarks", "--budget", "0.03", process=True)
    assert result.ret != 0
    (record,) = project.records("look")
    assert (record["state"], record["error"]["class"]) == ("invalid", "limit")
    assert "what the budget had left" in record["error"]["message"]
    assert 0.029 < record["cost"]["usd"] < 0.033


@pytest.mark.parametrize("agent", ["pi", "codex"])
def test_an_agent_that_hangs_is_ended_and_what_it_was_answered_is_kept(
    project: Project, server: Scripted, agent: str
) -> None:
    setup(project, server, agent, "hang-stream")
    path = project.path / "benchmarks" / "look.toml"
    path.write_text(path.read_text().replace("timeout = 60", "timeout = 3"))
    assert project.run("benchmarks", process=True).ret == 1
    (record,) = project.records("look")
    assert record["error"]["class"] in ("timeout", "limit", "agent-failed", "violation")
    (place,) = (project.path / "store").rglob("*.evidence")
    assert len((place / "calls.jsonl").read_text().splitlines()) >= 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({'stacks = ["bare"]': 'stacks = ["shipped"]'}, "*look.toml:8: task.stacks: battery.toml: there is no stack 'shipped'; known: marked, bare"),
        ({'subjects = ["chat/': 'subjects = ["resp/', '"pi"': '"codex"', "resp/battery-1": "chat/battery-1"}, "*asks by the API openai-responses, and the provider chat speaks openai-chat*"),
        ({"timeout = 60": 'timeout = 60\nsandbox = "none"'}, '*pi runs in a sandbox only: take sandbox = "none" away*'),
        ({"timeout = 60": 'timeout = 60\ntools = ["browse"]'}, "*browse*"),
    ],
)  # fmt: skip
def test_what_an_agent_cannot_do_is_told_before_anything_is_asked(
    project: Project, server: Scripted, change: dict[str, str], message: str
) -> None:
    setup(project, server, "pi", "ok")
    path = project.path / "benchmarks" / "look.toml"
    text = path.read_text()
    for old, new in change.items():
        text = text.replace(old, new)
    path.write_text(text)
    result = project.run("benchmarks", "--no-sandbox", process=True)
    assert result.ret == 4
    result.stderr.fnmatch_lines([message])
    assert server.asked == []


def test_an_agent_that_is_not_here_says_how_it_would_be(project: Project, server: Scripted) -> None:
    setup(project, server, "pi", "ok")
    (project.path / WHERE).unlink()
    result = project.run("benchmarks", process=True)
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*pi is not installed in *.battery/agents: run `battery agents install pi`*"])
    (project.path / "brick.md").unlink()
    path = project.path / "benchmarks" / "look.toml"
    path.write_text(path.read_text().replace('["bare"]', '["marked"]'))
    result = project.run("benchmarks", process=True)
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*brick.md, and there is no such file or directory*"])


def test_calls_of_agents_take_turns_with_the_providers_limit(project: Project, server: Scripted) -> None:
    setup(project, server, "pi", "brick", runs=3)
    path = project.path / "battery.toml"
    path.write_text(path.read_text().replace('api = "openai-chat"\n', 'api = "openai-chat"\nmax_in_flight = 1\n'))
    project.run("benchmarks", process=True).assert_outcomes(passed=1)
    assert len(project.records("look")) == 3
