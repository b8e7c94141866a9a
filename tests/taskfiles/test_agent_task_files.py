"""Tasks of kind = "agent": what they say beyond their prompt, and what they may not say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_battery.edges.taskfiles import load_task
from pytest_battery.errors import TaskFileError
from pytest_battery.values.tasks import AgentTask, Reference

TASK = """\
[task]
title = "Mend it"
kind = "agent"
agent = "loop"
runs = 2
timeout = 60
corpus = { repo = "shop", pin = "v1" }
tools = ["read", "bash"]
env = { LANG_OF_SHOP = "de", B = "" }
max_turns = 9
stacks = ["bare", "shipped"]
hidden = ["suite", "answers.json"]
append = "Be brief."
system = { text = "You mend." }
prompt = { text = "{{ case.text }}" }

[scorer]
use = "matchers"
equals = "x"

[metrics.correct]
better = "higher"

[verdict]
reference = { stack = "bare" }

[[case]]
id = "a"
text = "x"
"""


def load(project: Any, *edits: tuple[str, str]) -> Any:
    text = TASK
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    project.write({"t.toml": text, "shop/a.py": "x"})
    return load_task(project.root / "t.toml", project.root)


def faults(project: Any, *edits: tuple[str, str]) -> list[str]:
    with pytest.raises(TaskFileError) as caught:
        load(project, *edits)
    return list(caught.value.faults)


def test_all_that_a_task_of_an_agent_says_is_read(project: Any) -> None:
    task = load(project)
    assert task.agent == AgentTask(
        agent="loop",
        repo=project.root / "shop",
        pin="v1",
        tools=("read", "bash"),
        env=(("B", ""), ("LANG_OF_SHOP", "de")),
        max_turns=9,
        sandboxed=True,
        stacks=("bare", "shipped"),
        hidden=(project.root / "suite", project.root / "answers.json"),
    )
    assert task.append == "Be brief."
    assert task.system is not None
    assert task.reference == Reference(None, "bare")


def test_what_is_left_out_is_the_agents_own(project: Any) -> None:
    lines = [
        line
        for line in TASK.splitlines()
        if line.split(" =")[0] in ("corpus", "tools", "env", "max_turns", "stacks", "hidden")
    ]
    task = load(project, *((f"{line}\n", "") for line in lines))
    assert task.agent == AgentTask("loop")
    assert task.agent.stacks == ("bare",)


def test_the_word_none_takes_the_sandbox_away(project: Any) -> None:
    assert not load(project, ("runs = 2", 'runs = 2\nsandbox = "none"')).agent.sandboxed


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("runs = 2", "runs = 2\nsandbox = false", "6: task.sandbox should be 'none'; found a boolean, False"),
        ("runs = 2", 'runs = 2\nsandbox = "off"', "6: task.sandbox should be 'none'; found a string, 'off'"),
        ("max_turns = 9", "max_turn = 9", "10: task.max_turn is not known here; did you mean 'max_turns'? known keys: title"),
        ("pin =", "tag =", "7: task.corpus.tag is not known here; known keys: repo, pin"),
        ("pin =", "pinn =", "7: task.corpus.pinn is not known here; did you mean 'pin'? known keys: repo, pin"),
        ('repo = "shop", ', "", "7: task.corpus.repo is missing"),
        ('pin = "v1"', 'pin = ""', "7: task.corpus.pin is empty"),
        ('pin = "v1"', "pin = 1", "7: task.corpus.pin should be a string; found an integer, 1"),
        ('"shop"', '"/srv/shop"', "7: task.corpus.repo '/srv/shop' is absolute"),
        ('"shop"', '"../shop"', "7: task.corpus.repo is '../shop', which leaves the project"),
        ('"shop"', '"gone"', "7: task.corpus.repo names gone, and there is no such thing"),
        ('["read", "bash"]', '["read", "read"]', "8: task.tools names 'read' twice"),
        ('["read", "bash"]', '"read"', "8: task.tools should be an array; found a string, 'read'"),
        ('B = ""', "B = 1", "9: task.env.B should be a string; found an integer, 1"),
        ('B = ""', '"a b" = "x"', "9: task.env names 'a b', which is no name of a variable"),
        ('B = ""', 'B = "a\\u0000b"', "9: task.env sets B to a text with a NUL character"),
        ("max_turns = 9", "max_turns = 0", "10: task.max_turns should be greater than or equal to 1"),
        ('["bare", "shipped"]', "[]", "11: task.stacks is empty"),
        ('["bare", "shipped"]', '["bare", "bare"]', "11: task.stacks names 'bare' twice"),
        ('["bare", "shipped"]', '["bare", "a b"]', "11: task.stacks.1 'a b' is not an id"),
        ('"suite"', '"../suite"', "12: task.hidden.0 is '../suite', which leaves the project"),
        ('stack = "bare"', 'stack = "none"', "25: verdict.reference.stack is 'none', and the task is measured under bare, shipped"),
        ('stack = "bare"', "stack = 1", "25: verdict.reference.stack should be a string; found an integer, 1"),
        ('agent = "loop"\n', "", '1: task.agent is missing: write agent = "loop"'),
        ("runs = 2", 'runs = 2\ndriver = "a:b"', '6: task.driver has no meaning with kind = "agent"'),
        ('prompt = { text = "{{ case.text }}" }\n', "", "1: task.prompt is missing"),
        ('[[case]]', '[[step]]\nid = "s"\nprompt = { text = "x" }\n\n[[case]]', '27: step.0 stands in a task of kind = "agent"'),
    ],
)  # fmt: skip
def test_each_fault_is_told_with_its_line(project: Any, old: str, new: str, fault: str) -> None:
    told = faults(project, (old, new))
    assert any(one.startswith(f"t.toml:{fault}") for one in told), told


@pytest.mark.parametrize(
    "name",
    ["GIT_DIR", "git_dir", "PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "NODE_PATH", "NODE_OPTIONS", "BASH_ENV", "HOME", "IFS", "CLASSPATH"],
)  # fmt: skip
def test_what_is_the_sandboxs_own_is_not_set_by_a_task(project: Any, name: str) -> None:
    assert faults(project, ("B =", f"{name} =")) == [f"t.toml:9: task.env sets {name}, which is the sandbox's own"]


@pytest.mark.parametrize("name", ["API_KEY", "OPENAI_API_KEY", "github_token", "DB_PASSWORD", "CLIENT_SECRET"])
def test_no_credential_is_given_to_an_agent(project: Any, name: str) -> None:
    (fault,) = faults(project, ("B =", f"{name} ="))
    assert fault.startswith(f"t.toml:9: task.env sets {name}: no credential goes into a sandbox")


@pytest.mark.parametrize("name", ["PATHOLOGY", "ENVIRONMENT", "LDAP", "KEYBOARD", "DIGIT_ONE"])
def test_a_name_that_only_looks_like_one_is_allowed(project: Any, name: str) -> None:
    assert (name, "") in load(project, ("B =", f"{name} =")).agent.env


def test_all_faults_are_in_one_message(project: Any) -> None:
    told = faults(
        project,
        ("runs = 2", "runs = 0"),
        ('"shop"', '"gone"'),
        ('"suite"', '"../suite"'),
        ('B = ""', 'GIT_DIR = ""'),
        ('stack = "bare"', 'stack = "bear"'),
    )
    assert [fault.split(" ")[:2] for fault in told] == [
        ["t.toml:5:", "task.runs"],
        ["t.toml:7:", "task.corpus.repo"],
        ["t.toml:9:", "task.env"],
        ["t.toml:12:", "task.hidden.0"],
        ["t.toml:25:", "verdict.reference.stack"],
    ]


def test_the_corpus_cannot_be_reached_through_a_link_out_of_the_project(project: Any, tmp_path: Path) -> None:
    inner = type(project)(tmp_path / "inner")
    project.write({"outside/a.py": "x"})
    inner.root.mkdir()
    (inner.root / "repo").symlink_to(tmp_path / "outside")
    (fault,) = faults(inner, ('"shop"', '"repo"'))
    assert fault == f"t.toml:7: task.corpus.repo is 'repo', which leaves the project at {inner.root}"


@pytest.mark.parametrize(
    "key",
    [
        'agent = "loop"',
        'corpus = { repo = "shop" }',
        'tools = ["read"]',
        "env = {}",
        "max_turns = 1",
        'sandbox = "none"',
        'stacks = ["bare"]',
        'hidden = ["x"]',
    ],
)
def test_keys_of_an_agent_stand_in_no_other_task(project: Any, key: str) -> None:
    project.write({"t.toml": project.task({"runs = 2": f"runs = 2\n{key}"}), "shop/a": ""})
    with pytest.raises(TaskFileError) as caught:
        load_task(project.root / "t.toml", project.root)
    assert caught.value.faults == (
        f't.toml:5: task.{key.split(" ")[0]} belongs to kind = "agent", and this is a task of kind = "call"',
    )
