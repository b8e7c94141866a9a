"""Sweeps: one knob, several values, crossed with subjects and with each other."""

from __future__ import annotations

import pytest

from pytest_battery.errors import SubjectError
from pytest_battery.values.subjects import cross, parse_subject, parse_sweep


def keys(subjects: list[str], sweeps: list[str]) -> list[str]:
    found = cross([parse_subject(text) for text in subjects], [parse_sweep(text) for text in sweeps])
    return [subject.key for subject in found]


def test_a_sweep_keeps_the_order_its_values_are_given_in() -> None:
    assert parse_sweep("thinking=low,off").values == ("low", "off")
    assert keys(["local/m"], ["top_p=0.9,0.1"]) == ["local/m@top_p=0.9", "local/m@top_p=0.1"]


def test_values_and_names_are_canonical() -> None:
    sweep = parse_sweep(" maxTokens = 1e3 , 0.70 ")
    assert (sweep.knob, sweep.values) == ("max_tokens", ("1000", "0.7"))


def test_two_sweeps_cross_and_the_last_one_turns_fastest() -> None:
    assert keys(["local/m"], ["thinking=off,low", "seed=1,2"]) == [
        "local/m:off@seed=1",
        "local/m:off@seed=2",
        "local/m:low@seed=1",
        "local/m:low@seed=2",
    ]


def test_a_swept_knob_replaces_the_fixed_one_and_leaves_the_others() -> None:
    assert keys(["local/m:high@seed=9,top_p=1"], ["seed=1,2", "thinking=off"]) == [
        "local/m:off@seed=1,top_p=1",
        "local/m:off@seed=2,top_p=1",
    ]


def test_subjects_that_become_equal_are_measured_once() -> None:
    assert keys(["local/m@seed=1", "local/m@seed=2", "local/n"], ["seed=3"]) == ["local/m@seed=3", "local/n@seed=3"]


def test_without_sweeps_subjects_stay_as_they_are() -> None:
    assert keys(["local/b", "local/a"], []) == ["local/b", "local/a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("thinking", "--sweep thinking: write KNOB=VALUE[,VALUE...], as in --sweep thinking=off,low"),
        ("=1,2", "write KNOB=VALUE[,VALUE...]"),
        ("seed=", "write KNOB=VALUE[,VALUE...]"),
        ("seed=1,,2", "write KNOB=VALUE[,VALUE...]"),
        ("seed=1,2,1", "--sweep seed=1,2,1: a value is given twice"),
        ("top_p=0.7,0.70", "a value is given twice"),
        ("thinking=off,much", "thinking=much: the levels are off, minimal, low"),
        ("Seed=1", "'Seed' is not the name of a knob"),
        ("seed=a=b", "seed=a=b: a value is written with letters"),
    ],
)
def test_a_sweep_that_cannot_be_read_is_told_why(text: str, message: str) -> None:
    with pytest.raises(SubjectError) as caught:
        parse_sweep(text)
    assert message in str(caught.value)
