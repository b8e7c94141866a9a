"""A sound task file becomes the task it says."""

from __future__ import annotations

from typing import Any

from pytest_battery.values.subjects import parse_subject
from pytest_battery.values.tasks import Metric, Reference, Template

WHOLE = """\
[task]
title = "Which team?"
kind = "call"
runs = 5
timeout = 2.5
tags = ["quick"]
cases = "c.jsonl"
subjects = ["local/b@temperature=0.70", "local/a"]
prompt = { file = "p.md" }
append = "Be brief."
system = { text = "You route." }
output = { json_schema = { type = "object" } }

[scorer]
use = "matchers"
contains = "x"
ignore_case = true

[metrics.contains]
better = "higher"

[metrics.correct]
better = "lower"
primary = true
aggregate = "mean"
care = 0.05

[verdict]
reference = { subject = "local/a", stack = "none" }
"""


def test_every_key_arrives(project: Any) -> None:
    task = project.prepare(WHOLE, {"c.jsonl": '{"id": "a", "text": "x"}\n', "p.md": "Where?\n"}).task
    assert (task.name, task.title, task.kind, task.runs, task.timeout) == ("t", "Which team?", "call", 5, 2.5)
    assert (task.tags, task.prompt, task.append) == (("quick",), Template("Where?\n"), "Be brief.")
    assert task.system == Template("You route.")
    assert [subject.key for subject in task.subjects] == ["local/b@temperature=0.7", "local/a"]
    assert task.output_schema == {"type": "object"}
    assert (task.scorer.use, task.scorer.options) == ("matchers", {"contains": "x", "ignore_case": True})
    assert task.metrics == (Metric("contains", "higher"), Metric("correct", "lower", True, "mean", 0.05))
    assert task.primary.name == "correct"
    assert task.reference == Reference(parse_subject("local/a"), "none")
    assert (task.cases[0].source, task.cases[0].line) == ("c.jsonl", 1)


def test_what_is_left_out_has_one_meaning(project: Any) -> None:
    task = project.prepare(project.task()).task
    assert (task.tags, task.subjects, task.append, task.system, task.output_schema) == ((), (), None, None, None)
    assert task.reference == Reference()
    assert task.primary == Metric("correct", "higher", primary=False, aggregate="median", care=None)


def test_a_python_task_has_no_prompt(project: Any) -> None:
    prepared = project.prepare(
        project.task({'kind = "call"': 'kind = "python"', 'prompt = { text = "{{ case.text }}" }': ""})
    )
    assert (prepared.task.kind, prepared.asked["a"].messages) == ("python", ())


def test_names_with_dots_are_names(project: Any) -> None:
    prepared = project.prepare(
        project.task({"[metrics.correct]": '[metrics."top.1"]', "equals =": "contains ="}).replace(
            '"matchers"', '"matchers"'
        )
    )
    assert [metric.name for metric in prepared.task.metrics] == ["top.1"]
    edits = {"[metrics.correct]": '[metrics."top.1"]', '"higher"': '"up"'}
    assert project.faults(project.task(edits)) == [
        "t.toml:13: metrics.top.1.better should be 'higher' or 'lower'; found a string, 'up'"
    ]
