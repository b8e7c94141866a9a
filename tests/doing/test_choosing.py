"""Which cells are measured, in which order, and what they are compared with."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_battery.doing.choosing import Choice, cells_of, permutations_of, read_choice, reference_of
from pytest_battery.errors import OptionError, SubjectError
from pytest_battery.values.subjects import parse_subject
from pytest_battery.values.tasks import Task


def task(bench: Any, subjects: str = "[]", reference: str = "", more: str = "") -> Task:
    verdict = f"[verdict]\nreference = {reference}\n" if reference else ""
    return bench.prepared({"runs = 2": f"runs = 2\nsubjects = {subjects}"}, more + verdict).task  # type: ignore[no-any-return]


def keys(choice: Choice, of: Task) -> list[str]:
    return [cell.subject.key for cell in cells_of(of, choice)]


def test_without_options_the_task_decides(bench: Any) -> None:
    of = task(bench, "['fake/b', 'fake/a']")
    assert keys(read_choice([]), of) == ["fake/b", "fake/a"]
    assert {permutation.runs for permutation in permutations_of(of, read_choice([]))} == {2}


def test_models_of_the_command_line_replace_the_tasks_own(bench: Any) -> None:
    choice = read_choice([("model", "fake/z"), ("model", "fake/y"), ("model", "fake/z")], runs=7)
    of = task(bench, "['fake/a']")
    assert keys(choice, of) == ["fake/z", "fake/y"]
    assert {permutation.runs for permutation in permutations_of(of, choice)} == {7}


def test_a_sweep_binds_to_the_model_before_it(bench: Any) -> None:
    axes = [("model", "fake/a"), ("sweep", "seed=1,2"), ("model", "fake/b:high"), ("sweep", "thinking=off,low")]
    assert keys(read_choice(axes), task(bench)) == [
        "fake/a@seed=1",
        "fake/a@seed=2",
        "fake/b:off",
        "fake/b:low",
    ]


def test_without_a_model_a_sweep_is_over_the_tasks_subjects(bench: Any) -> None:
    choice = read_choice([("sweep", "seed=1,2")])
    assert keys(choice, task(bench, "['fake/a@seed=9', 'fake/b']")) == [
        "fake/a@seed=1",
        "fake/a@seed=2",
        "fake/b@seed=1",
        "fake/b@seed=2",
    ]


@pytest.mark.parametrize(
    ("axes", "more", "error", "message"),
    [
        ([("model", "small")], {}, SubjectError, "'small' is not a model reference"),
        ([("sweep", "seed")], {}, SubjectError, "--sweep seed: write KNOB=VALUE"),
        ([("model", "a/b"), ("sweep", "seed=1"), ("sweep", "seed=2")], {}, OptionError, "--sweep seed=2: seed is swept twice; put all its values into one --sweep"),
        ([("sweep", "seed=1,2"), ("model", "a/b")], {}, OptionError, "--sweep seed=...: stands before the first --model; put it after the model it sweeps"),
        ([], {"runs": 0}, OptionError, "--runs 0: at least one run is needed"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_honoured_are_told(
    axes: list[tuple[str, str]], more: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        read_choice(axes, **more)
    assert message in str(caught.value)


def test_a_plain_call_has_no_stack_but_none(bench: Any) -> None:
    of = task(bench, "['fake/a']")
    assert cells_of(of, read_choice([], ["none"])) == cells_of(of, read_choice([]))
    with pytest.raises(OptionError, match=r"--stack bare: t is asked without an agent, and its only stack is none"):
        cells_of(of, read_choice([], ["bare"]))


def test_a_task_that_nobody_names_a_subject_for_is_told(bench: Any) -> None:
    with pytest.raises(
        OptionError, match=r"t\.toml: no subject: name some with --model, or in the task as subjects = "
    ):
        cells_of(task(bench), read_choice([]))


def test_the_arms_of_a_case_stand_together(bench: Any) -> None:
    of = task(bench, "['fake/a', 'fake/b']", more='[[case]]\nid = "b"\nword = ""\nexpected = "x"\n')
    found = [permutation.id for permutation in permutations_of(of, read_choice([]))]
    assert found == ["a[fake/a-none]", "a[fake/b-none]", "b[fake/a-none]", "b[fake/b-none]"]


@pytest.mark.parametrize(
    ("subjects", "written", "reference"),
    [
        ("['fake/a', 'fake/b']", "", "fake/a"),
        ("['fake/a', 'fake/b']", "{ subject = 'fake/b' }", "fake/b"),
        ("['fake/a', 'fake/b']", "{ stack = 'none' }", "fake/a"),
        ("['fake/a@seed=1', 'fake/a@seed=2']", "{ subject = 'fake/a' }", "fake/a@seed=1"),
        ("['fake/a:off@seed=1', 'fake/a:low@seed=2']", "{ subject = 'fake/a:low' }", "fake/a:low@seed=2"),
        ("['fake/a@seed=1,top_p=1', 'fake/a@seed=2,top_p=1']", "{ subject = 'fake/a@seed=2' }", "fake/a@seed=2,top_p=1"),
        ("['fake/a']", "{ subject = 'fake/gone' }", "fake/gone"),
        ("['fake/a@seed=1']", "{ subject = 'fake/a@seed=2' }", "fake/a@seed=2"),
    ],
)  # fmt: skip
def test_the_reference_is_the_one_named_or_the_first(bench: Any, subjects: str, written: str, reference: str) -> None:
    of = task(bench, subjects, written)
    assert reference_of(of, cells_of(of, Choice())).subject == parse_subject(reference)
