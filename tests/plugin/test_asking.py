"""Conversations in steps, prompts that ship, and functions that ship."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import Project

STEPS = """\
[task]
title = "Two questions"
kind = "steps"
runs = 1
timeout = 20
subjects = ["fake/big"]
system = { text = "Play." }

[[step]]
id = "move"
prompt = { text = "Your move, {{ case.name }}?" }

[[step]]
id = "sure"
prompt = { text = "Sure?" }

[scorer]
use = "labels"

[scorer.steps.move]
labels = ["COOPERATE", "DEFECT"]
expect = "{{ case.move }}"

[scorer.steps.sure]
labels = ["yes", "no"]

[metrics.correct]
better = "higher"
primary = true

[metrics."sure.parsed"]
better = "higher"

[[case]]
id = "t01"
name = "Ann"
move = "DEFECT"

[[case]]
id = "t02"
name = "Bob"
move = "COOPERATE"
"""

PLAYER = """\
SAID = pathlib.Path(__file__).parent / "said.log"
with SAID.open("a") as log:
    log.write(json.dumps([[m.role, m.content] for m in request.messages]) + "\\n")
if text == "Sure?":
    return "yes"
return "I would never COOPERATE. DEFECT."
"""


def said(project: Project) -> list[Any]:
    return [json.loads(line) for line in (project.path / "said.log").read_text().splitlines()]


@pytest.fixture
def steps(project: Project) -> Project:
    project.fake(PLAYER)
    path = project.path / "benchmarks" / "game.toml"
    path.parent.mkdir()
    path.write_text(STEPS, encoding="utf-8")
    return project


def test_steps_are_one_conversation(steps: Project) -> None:
    assert steps.run("benchmarks", "-k", "t01").ret == 0
    first, second = said(steps)
    assert first == [["system", "Play."], ["user", "Your move, Ann?"]]
    assert second == [*first, ["assistant", "I would never COOPERATE. DEFECT."], ["user", "Sure?"]]


def test_each_step_is_graded_and_the_whole(steps: Project) -> None:
    steps.run("benchmarks")
    one, two = steps.records("game")
    assert one["metrics"] == {
        "correct": True,
        "move.correct": True,
        "move.parsed": True,
        "parsed": True,
        "sure.parsed": True,
    }
    assert two["metrics"]["move.correct"] is False
    assert one["steps"] == {"move": "I would never COOPERATE. DEFECT.", "sure": "yes"}
    assert (one["reply"], one["turns"]) == ("yes", 2)


def test_steps_are_graded_again_and_replayed_from_what_is_kept(steps: Project) -> None:
    steps.run("benchmarks")
    path = steps.path / "benchmarks" / "game.toml"
    path.write_text(STEPS.replace('labels = ["yes", "no"]', 'labels = ["yes", "no"]\nexpect = "no"'), encoding="utf-8")
    assert steps.run("benchmarks").ret == 0
    assert [record["metrics"]["sure.correct"] for record in steps.records("game")] == [False, False]
    assert steps.battery("replay", "benchmarks").ret == 0
    assert len(said(steps)) == 4


def test_an_edited_step_makes_its_records_stale(steps: Project) -> None:
    steps.run("benchmarks")
    path = steps.path / "benchmarks" / "game.toml"
    path.write_text(STEPS.replace('"Sure?"', '"Sure? "'), encoding="utf-8")
    result = steps.run("benchmarks", "--collect-only", "-q")
    assert result.ret == 0
    result = steps.battery("why", "benchmarks/game.toml", "-k", "t01")
    result.stdout.fnmatch_lines(["*stale: prompt changed*", "*-Sure?", "*+Sure? "])


def test_a_conversation_ends_at_an_empty_reply(steps: Project) -> None:
    steps.fake('return "" if text != "Sure?" else "yes"')
    assert steps.run("benchmarks", "-k", "t01").ret == 0
    (record,) = steps.records("game")
    assert (record["turns"], record["stop_reason"], record["steps"]) == (1, "empty", {"move": ""})
    assert record["metrics"]["sure.parsed"] is False


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('kind = "steps"', 'kind = "call"\nprompt = { text = "x" }', '*step.0 stands in a task of kind = "call"*'),
        ('id = "sure"', 'id = "move"', "*step.1.id is 'move' twice"),
        ('prompt = { text = "Sure?" }', "", "*step.1.prompt is missing"),
        ('system = { text = "Play." }', 'append = "x"', '*task.append has no meaning with kind = "steps"*'),
        ('expect = "{{ case.move }}"', 'expect = "{{ case.moves }}"', "*case.moves is not a field of the case*"),
    ],
)
def test_steps_that_cannot_be_asked_are_told_before_any_call(steps: Project, old: str, new: str, fault: str) -> None:
    path = steps.path / "benchmarks" / "game.toml"
    path.write_text(STEPS.replace(old, new), encoding="utf-8")
    result = steps.run("benchmarks")
    assert result.ret == 4
    result.stderr.fnmatch_lines([fault])


# -- prompts that ship ----------------------------------------------------------------------------


def shipped(project: Project, source: str, prompt: str) -> None:
    package = project.path / "shop"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "prompts.py").write_text(source, encoding="utf-8")
    project.task(cases=2, replace={'prompt = { text = "ECHO:{{ case.word }}" }': f"prompt = {{ {prompt} }}"})


def test_a_prompt_is_read_where_it_ships(project: Project) -> None:
    shipped(project, 'ASK = "ECHO:{word}"\n', 'production = "shop.prompts:ASK", style = "format"')
    assert project.run("benchmarks", "-k", "big", process=True).ret == 0
    assert [word for _, word in project.calls] == ["w", "wx"]
    (project.path / "shop" / "prompts.py").write_text('ASK = "Please ECHO:{word}"\n', encoding="utf-8")
    result = project.run("benchmarks", "-k", "big", process=True)
    result.stdout.fnmatch_lines(["*2 to measure (2 of them stale)*"])


def test_a_prompt_is_read_below_a_heading(project: Project) -> None:
    (project.path / "PROMPTS.md").write_text(
        "# Other\nno\n## Ask\nECHO:{{ case.word }}\n```\n# no heading\n```\n# End\n"
    )
    project.task(cases=1, replace={'text = "ECHO:{{ case.word }}"': 'production = "PROMPTS.md#Ask"'})
    assert project.run("benchmarks", "-k", "big").ret == 0
    assert project.calls[0][1] == "w\n```\n# no heading\n```"


@pytest.mark.parametrize(
    ("named", "fault"),
    [
        (
            "shop.prompts:ASKED",
            "*task.prompt.production is 'shop.prompts:ASKED', and shop.prompts has no ASKED; it has ASK, NUMBER",
        ),
        ("shop.prompts:NUMBER", "*production is 'shop.prompts:NUMBER', and that is a int; it should be a str"),
        (
            "shop.nowhere:ASK",
            "*production names the module shop.nowhere, which cannot be imported: ModuleNotFoundError*",
        ),
        ("shop.prompts", "*production is 'shop.prompts'; write package.module:ATTRIBUTE, or file.md#Heading"),
        ("absent.md#Ask", "*production names absent.md, and there is no such file below *"),
        ("../x.md#Ask", "*production is '../x.md#Ask', which leaves the project at *"),
    ],
)
def test_a_prompt_that_does_not_ship_is_told(project: Project, named: str, fault: str) -> None:
    shipped(project, 'ASK = "x"\nNUMBER = 1\n', f'production = "{named}"')
    result = project.run("benchmarks", process=True)
    assert result.ret == 4
    result.stderr.fnmatch_lines([fault])


DRIVER = """\
async def triage(case, model):
    first = await model.complete("ECHO:" + case["word"])
    return first.text + {more}
"""
DRIVEN = {'prompt = { text = "ECHO:{{ case.word }}" }': 'driver = "shop.drivers:triage"'}


def driver(project: Project, source: str) -> None:
    package = project.path / "shop"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "drivers.py").write_text(source, encoding="utf-8")


def test_a_production_function_is_run_and_its_calls_are_kept(project: Project) -> None:
    driver(project, DRIVER.format(more='""'))
    project.task(cases=2, replace=DRIVEN)
    assert project.run("benchmarks", "-k", "big", process=True).ret == 0
    assert [record["metrics"]["correct"] for record in project.records()] == [True, True]
    assert project.battery("replay", "benchmarks", "-k", "big").ret == 0
    driver(project, DRIVER.format(more='"!"'))
    result = project.run("benchmarks", "-k", "big", process=True)
    result.stdout.fnmatch_lines(["*2 to measure (2 of them stale)*"])
    assert [record["metrics"]["correct"] for record in project.records()] == [False, False]


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (
            "async def triage(case, model):\n    return 1\n",
            "*driver-raised (task): TypeError: the driver returned int*",
        ),
        ("async def triage(case, model):\n    raise KeyError('x')\n", "*driver-raised (task): KeyError: 'x'*"),
        ("async def triage(case, model):\n    return 'x'\n", "*no-call (task)*"),
    ],
)
def test_a_driver_that_fails_is_no_measurement(project: Project, source: str, line: str) -> None:
    driver(project, source)
    project.task(cases=1, replace=DRIVEN)
    result = project.run("benchmarks", "-k", "big", process=True)
    assert result.ret == 1
    result.stdout.fnmatch_lines([line])


def test_a_driver_that_is_no_coroutine_is_told(project: Project) -> None:
    driver(project, "def triage(case, model): ...\n")
    project.task(cases=1, replace=DRIVEN)
    result = project.run("benchmarks", process=True)
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*task.driver is 'shop.drivers:triage', which should be an async function*"])


def test_sample_measures_and_says_how_the_answers_are_distributed(steps: Project) -> None:
    result = steps.battery("sample", "benchmarks/game.toml::t01", "-N", "4")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "benchmarks/game.toml::t01*: 4 of 4 runs",
            "  move: 4 of 4 parsed, two runs agree in 100%",
            "       4  100%  DEFECT",
            "  sure: 4 of 4 parsed*",
        ]
    )
    again = steps.battery("sample", "benchmarks/game.toml::t01", "-N", "4", "--json")
    (told,) = json.loads(again.stdout.str())
    assert told["steps"][0]["counts"] == {"DEFECT": 4}
    assert len(said(steps)) == 8


def test_compare_says_how_far_answers_agree_step_by_step(steps: Project) -> None:
    path = steps.path / "benchmarks" / "game.toml"
    path.write_text(STEPS.replace('["fake/big"]', '["fake/big", "fake/other"]'), encoding="utf-8")
    steps.run("benchmarks")
    result = steps.battery("compare", "fake/big", "fake/other", "benchmarks")
    result.stdout.fnmatch_lines(
        [
            "game move: fake/other/none vs fake/big/none, 2 cases: modal answers agree in 100%, runs in 100%; delta 0.00; parsed 100% vs 100%"
        ]
    )
