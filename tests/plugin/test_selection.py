"""pytest's own ways to choose and to say, on items that are measurements."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest


@pytest.fixture
def four(project):
    project.task(cases=2, replace={'"fake/small", "fake/big"': '"fake/small:off@max_tokens=5", "fake/big:low"'})
    return project


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        (("-k", "t01"), 2),
        (("-k", "t01 and big"), 1),
        (("-k", "max_tokens:5"), 2),
        (("-m", "quick"), 4),
        (("-m", "not quick"), 0),
        (("-m", "subject(thinking='off')"), 2),
        (("-m", "subject(model='fake/big') and stack(name='none')"), 2),
        (("-m", "subject(max_tokens=5)"), 2),
        (("benchmarks/echo.toml::t02",), 2),
        (("benchmarks/echo.toml::t02[fake/big:low-none]",), 1),
        (("--deselect", "benchmarks/echo.toml::t02"), 2),
    ],
)
def test_selection_chooses_exactly_what_is_paid_for(four, arguments, passed):
    result = four.run(*arguments)
    result.assert_outcomes(passed=passed, deselected=4 - passed if "::" not in arguments[0] else 0)
    assert result.ret == 0
    assert len(four.calls) == passed


def test_collect_only_asks_nothing_and_shows_the_prompt(four):
    result = four.run("--collect-only", "-v")
    assert result.ret == 0
    assert not four.calls
    assert not (four.path / "store").exists()
    result.stdout.fnmatch_lines(["*<TaskFile echo.toml>*", "*ECHO:w*"])


def test_locations_point_into_the_task_file(four):
    text = (four.path / "benchmarks/echo.toml").read_text().splitlines()
    items, _ = four.pytester.inline_genitems("-p", "no:randomly", "-p", "no:asyncio")
    item = next(item for item in items if item.name.startswith("t02"))
    path, line, _ = item.location
    assert path.endswith("echo.toml")
    assert text[line] == "[[case]]"
    assert text[line + 1] == 'id = "t02"'


def test_x_stops_and_keeps_what_had_finished(project):
    project.fake("if word == 'w': raise CallError('refused', 'infrastructure', 'no')")
    project.task(cases=3)
    result = project.run("-x")
    assert result.ret == 1
    result.assert_outcomes(errors=1)
    assert all(record["state"] in ("valid", "invalid") for record in project.records())


def test_last_failed_runs_exactly_what_was_invalid(project):
    project.fake("if word == 'wx': raise CallError('refused', 'infrastructure', 'no')")
    project.task(cases=4)
    project.run(plugins=["cacheprovider", "stepwise"]).assert_outcomes(passed=6, errors=2)
    project.fake()
    again = project.run("--lf", "--force", plugins=["cacheprovider", "stepwise"])
    again.assert_outcomes(passed=2)
    assert len(project.calls) == 10


def test_failed_first_puts_the_invalid_ones_in_front(project):
    project.fake("if word == 'wxx': raise CallError('refused', 'infrastructure', 'no')")
    project.task(cases=4)
    project.run(plugins=["cacheprovider"])
    project.fake()
    result = project.run("--ff", "-v", plugins=["cacheprovider"])
    lines = [line for line in result.outlines if "echo.toml::" in line]
    assert "t03[fake/small" in lines[0]
    assert "t03[fake/big" in lines[1]
    result.assert_outcomes(passed=2, skipped=6)


def test_stepwise_goes_on_where_it_stopped(project):
    project.fake("if word == 'wx': raise CallError('refused', 'infrastructure', 'no')")
    project.task(cases=3)
    stopped = project.run("--sw", plugins=["cacheprovider", "stepwise"])
    assert stopped.ret != 0
    stopped.assert_outcomes(passed=2, errors=1)
    project.fake()
    again = project.run("--sw", "-v", plugins=["cacheprovider", "stepwise"])
    again.stdout.fnmatch_lines(["*t02?fake/small-none? MEASURED*"])
    assert again.ret == 0


def test_durations_are_listed(four):
    result = four.run("--durations=0", "-vv")
    result.stdout.fnmatch_lines(["*slowest durations*", "*s call *benchmarks/echo.toml::t0*"])


def test_junit_xml_counts_and_stays_well_formed_whatever_a_model_says(project):
    project.fake("if word == 'wx': raise CallError('odd', 'subject', 'a\\x00b\\x1b[31m\\ufffe\\ud800')")
    project.task(cases=2)
    project.run("--junitxml=r.xml")
    suite = ElementTree.parse(project.path / "r.xml").getroot().find("testsuite")
    assert suite.attrib["tests"] == "4"
    assert suite.attrib["failures"] == "2"
    assert {case.attrib["classname"] for case in suite.iter("testcase")} == {"benchmarks.echo.toml"}
    project.fake()
    project.run("--junitxml=r.xml")
    project.run("--junitxml=r.xml")
    suite = ElementTree.parse(project.path / "r.xml").getroot().find("testsuite")
    assert (suite.attrib["skipped"], suite.attrib["failures"]) == ("4", "0")
    assert suite.find("testcase/skipped").attrib["message"].startswith("cached: measured 20")


def test_without_a_terminal_reporter_it_measures_all_the_same(four):
    result = four.run("-p", "no:terminal")
    assert result.ret == 0
    assert len(four.calls) == 4


def test_quiet_prints_the_table_and_very_quiet_nothing(four):
    quiet = four.run("-q")
    quiet.stdout.fnmatch_lines(["*== battery ==*"])
    quiet.stdout.no_fnmatch_line("battery plan*")
    silent = four.run("-qq")
    silent.stdout.no_fnmatch_line("*= battery =*")
    assert silent.ret == 0


def test_an_empty_selection_of_a_battery_is_no_failure(four):
    assert four.run("-k", "nothing_is_called_this").ret == 0
