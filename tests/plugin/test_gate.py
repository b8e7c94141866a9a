"""The gate: red on an established regression and on a battery that is not whole; green on neither chance nor nothing."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from pytest_battery.doing import designs, looking
from pytest_battery.plugin import gate
from pytest_battery.saying import gating

from .conftest import Project

LOADED = (designs, gate, gating, looking)  # numpy can't be imported twice in one process

SAME = {'subjects = ["fake/small", "fake/big"]': 'subjects = ["fake/big", "fake/other"]'}
WORSE = {'subjects = ["fake/small", "fake/big"]': 'subjects = ["fake/big", "fake/small"]'}
XDIST = ["-n", "2"]


def gates(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if line.startswith(("gate passed", "gate failed"))]


@pytest.mark.parametrize("distributed", [False, True], ids=["one process", "xdist"])
def test_an_established_regression_is_red(project: Project, distributed: bool) -> None:
    project.task(cases=24, replace=WORSE)
    extra, plugins = (XDIST, ["xdist"]) if distributed else ([], [])
    result = project.run("benchmarks", "--gate", "--junitxml=j.xml", *extra, plugins=plugins)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["FAILED gate::echo[[]fake/small/none vs fake/big/none] - *"])
    assert "established worse: correct -0.42" in gates(result)[0]
    tree = ElementTree.parse(project.path / "j.xml").getroot()
    case = next(one for one in tree.iter("testcase") if one.get("classname") == "gate")
    failure = case.find("failure")
    assert case.get("name") == "echo[fake/small/none vs fake/big/none]"
    assert failure is not None
    assert "established worse" in str(failure.get("message"))


@pytest.mark.parametrize("distributed", [False, True], ids=["one process", "xdist"])
def test_cells_that_do_not_differ_are_green_and_the_bound_is_printed(project: Project, distributed: bool) -> None:
    project.task(cases=24, replace=SAME)
    extra, plugins = (XDIST, ["xdist"]) if distributed else ([], [])
    result = project.run("benchmarks", "--gate", "--junitxml=j.xml", *extra, plugins=plugins)
    assert result.ret == 0
    assert "95%: no loss beyond 0.14" in gates(result)[0]  # 24 unanimous cases: 1 - .025 ** (1 / 24)
    names = [one.get("name") for one in ElementTree.parse(project.path / "j.xml").getroot().iter("testcase")]
    assert "echo[fake/other/none vs fake/big/none]" in names


def test_a_gap_for_the_better_is_green(project: Project) -> None:
    project.task(cases=24)  # the reference is the small one
    result = project.run("benchmarks", "--gate")
    assert result.ret == 0
    assert "established ★ better" in gates(result)[0]


def test_one_case_is_inconclusive_and_says_why(project: Project) -> None:
    project.task(cases=1, replace=WORSE)
    result = project.run("benchmarks", "--gate")
    assert result.ret == 0
    assert "2 relabellings of these runs exist; at least 40 are needed" in gates(result)[0]


def test_strict_fails_what_is_inconclusive(project: Project) -> None:
    project.task(cases=24, replace=SAME)
    result = project.run("benchmarks", "--gate=strict")
    assert result.ret == 1
    assert "inconclusive (--gate=strict)" in gates(result)[0]


def test_strict_refuses_a_design_that_can_tell_nothing_before_it_costs(project: Project) -> None:
    project.task(cases=1, replace=WORSE)
    result = project.run("benchmarks", "--gate=strict")
    assert result.ret == 4
    result.stderr.fnmatch_lines(
        ["*benchmarks/echo.toml: nothing can be established: 6 cases are needed (1 now), or 4 runs of each (1 now)*"]
    )
    assert project.calls == []


def test_a_design_that_can_tell_nothing_is_a_warning_without_strict(project: Project) -> None:
    project.task(cases=1, replace=WORSE)
    result = project.run("benchmarks")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["  benchmarks/echo.toml: nothing can be established: 6 cases are needed (1 now)*"])


def test_a_margin_asks_for_an_interval_that_excludes_a_greater_loss(project: Project) -> None:
    project.task(cases=24, replace=SAME)
    wide = project.run("benchmarks", "--gate", "--gate-margin", "0.2")
    assert wide.ret == 0
    narrow = project.run("benchmarks", "--gate", "--gate-margin", "0.1")
    assert narrow.ret == 1
    assert "a loss greater than the margin of 0.1 is not excluded" in gates(narrow)[0]


# -- never green on less than the declared battery ------------------------------------------------


@pytest.mark.parametrize(
    "selection", [["-k", "t01"], ["-k", "nothing_at_all"], ["-m", "slow_ones"], ["--deselect", "benchmarks"]]
)
def test_a_selection_does_not_make_a_battery_whole(project: Project, selection: list[str]) -> None:
    (project.path / "pytest.ini").write_text("[pytest]\nmarkers = slow_ones\n", encoding="utf-8")
    project.task(cases=8, replace=SAME)
    result = project.run("benchmarks", "--gate", *selection)
    assert result.ret == 1
    assert "not whole" in gates(result)[0]


def test_what_a_selection_leaves_out_is_judged_from_the_store(project: Project) -> None:
    project.task(cases=24, replace=WORSE)
    assert project.run("benchmarks").ret == 0
    result = project.run("benchmarks", "--gate", "-k", "t01 and big")
    assert result.ret == 1
    assert "established worse" in gates(result)[0]
    assert len(project.calls) == 48


def test_one_file_of_two_judges_that_file_whole(project: Project) -> None:
    project.task("one", cases=8, replace=SAME)
    project.task("two", cases=24, replace=WORSE)
    assert project.run("benchmarks/one.toml", "--gate").ret == 0
    assert project.run("benchmarks", "--gate").ret == 1


@pytest.mark.parametrize("distributed", [False, True], ids=["one process", "xdist"])
def test_an_empty_directory_is_red(project: Project, distributed: bool) -> None:
    (project.path / "empty").mkdir()
    extra, plugins = (XDIST, ["xdist"]) if distributed else ([], [])
    result = project.run("empty", "--gate", *extra, plugins=plugins)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["FAILED gate::battery - *nothing to judge*"])


def test_other_peoples_tests_do_not_make_a_gate_green(project: Project) -> None:
    project.pytester.makepyfile("def test_fine(): pass")
    assert project.run("--gate").ret == 1


def test_a_battery_of_errors_is_red(project: Project) -> None:
    project.fake('raise CallError("http-500", "infrastructure", "down")')
    project.task(cases=8, replace=SAME)
    result = project.run("benchmarks", "--gate")
    assert result.ret == 1
    assert "8 of 8 runs have no result (8 http-500)" in gates(result)[0]


def test_invalid_runs_are_red(project: Project) -> None:
    project.fake(
        'if request.subject.model == "other" and word == "w": raise CallError("timeout", "infrastructure", "late")'
    )
    project.task(cases=9, replace=SAME)
    result = project.run("benchmarks", "--gate")
    assert result.ret == 1
    assert any("2 of 9 runs have no result (2 timeout), in t01, t06" in line for line in gates(result))


def test_a_reference_without_records_is_red(project: Project) -> None:
    reference = '\n[verdict]\nreference = { subject = "fake/absent" }\n'
    project.task(cases=8, extra=reference, replace=SAME)
    result = project.run("benchmarks", "--gate")
    assert result.ret == 1
    assert any("the reference has no data" in line for line in gates(result))


def test_a_battery_of_one_cell_has_nothing_to_judge(project: Project) -> None:
    project.task(cases=8, replace={'"fake/small", "fake/big"': '"fake/big"'})
    result = project.run("benchmarks", "--gate")
    assert result.ret == 1
    assert "no gap to judge" in gates(result)[0]


def test_a_session_that_is_cut_short_is_not_judged_and_not_green(project: Project) -> None:
    project.fake('if word == "wx": raise CallError("timeout", "infrastructure", "late")')
    project.task(cases=24, replace=SAME)
    result = project.run("benchmarks", "--gate", "-x")
    assert result.ret != 0
    assert gates(result) == []


def test_last_failed_judges_everything(project: Project) -> None:
    project.task(cases=24, replace=WORSE)
    assert project.run("benchmarks", "--gate", plugins=["cacheprovider"]).ret == 1
    result = project.run("benchmarks", "--gate", "--lf", plugins=["cacheprovider"])
    assert result.ret == 1
    assert "established worse" in gates(result)[0]


def test_hidden_cached_items_do_not_hide_the_verdict(project: Project) -> None:
    project.task(cases=24, replace=WORSE)
    project.run("benchmarks")
    assert project.run("benchmarks", "--gate", "--cached=hide").ret == 1
    assert project.run("benchmarks", "--gate", "--cached=hide", "-n", "2", plugins=["xdist"]).ret == 1


def test_a_conftest_that_drops_items_does_not_make_the_gate_green(project: Project) -> None:
    project.task(cases=24, replace=WORSE)
    conftest = project.path / "conftest.py"
    conftest.write_text(conftest.read_text() + "\ndef pytest_collection_modifyitems(items):\n    items[:] = []\n")
    result = project.run("benchmarks", "--gate")
    assert result.ret == 1


def test_a_python_test_that_was_not_collected_is_named(project: Project) -> None:
    project.task("one", cases=8, replace=SAME)
    project.task(
        "asked",
        cases=2,
        replace={'kind = "call"': 'kind = "python"', 'prompt = { text = "ECHO:{{ case.word }}" }\n': ""},
    )
    result = project.run("benchmarks", "--gate")
    assert result.ret == 1
    assert any("asked: no Python test that asks this task was collected" in line for line in gates(result))


# -- controls -------------------------------------------------------------------------------------


def controls(worse: str = "", same: str = "") -> str:
    return f"\n[controls]\nworse = [{worse}]\nsame = [{same}]\n"


def test_controls_that_come_out_as_they_should_are_green(project: Project) -> None:
    project.task(cases=24, extra=controls('"fake/small"', '"fake/another"'), replace=SAME)
    result = project.run("benchmarks", "--gate")
    assert result.ret == 0
    assert [line.partition(":")[0] for line in gates(result)] == ["gate passed"] * 3


def test_a_positive_control_that_is_not_worse_is_red(project: Project) -> None:
    project.task(cases=24, extra=controls('"fake/another"'), replace=SAME)
    result = project.run("benchmarks", "--gate")
    assert result.ret == 1
    assert any("the control should be established worse and is not" in line for line in gates(result))


def test_an_a_a_control_that_differs_is_red(project: Project) -> None:
    project.task(cases=24, extra=controls(same='"fake/small"'), replace=SAME)
    result = project.run("benchmarks", "--gate")
    assert result.ret == 1
    assert any("the control should not differ and is established" in line for line in gates(result))


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gate=sometimes"], "*--gate=sometimes: write --gate, or --gate=strict*"),
        (
            ["--gate", "--collect-only"],
            "*--gate with --collect-only: nothing is measured, so there is nothing to judge*",
        ),
        (["--gate-margin", "0.1"], "*--gate-margin 0.1: has a meaning with --gate only*"),
        (["--gate", "--gate-margin", "-1"], "*--gate-margin -1: a loss is a number from 0 on*"),
        (["--looks", "0"], "*--looks 0: plan from 1 to 100 looks*"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(project: Project, options: list[str], message: str) -> None:
    project.task()
    result = project.run("benchmarks", *options)
    assert result.ret == 4
    result.stderr.fnmatch_lines([message])
    assert project.calls == []


def test_several_metrics_of_which_none_decides_are_refused(project: Project) -> None:
    project.task(replace={"primary = true": '[metrics.equals]\nbetter = "higher"'})
    result = project.run("benchmarks", "--gate")
    assert result.ret == 4
    result.stderr.fnmatch_lines(
        ["*benchmarks/echo.toml: --gate judges the primary metric, and none of correct, equals*"]
    )


@pytest.mark.parametrize("option", ["--gate", "--battery-gate"])
def test_the_path_behind_a_gate_is_a_path(project: Project, option: str) -> None:
    project.task(cases=8, replace=SAME)
    assert project.run(option, "benchmarks").ret == 0
    assert len(project.calls) == 16


# -- looks ----------------------------------------------------------------------------------------


def test_the_same_runs_seen_again_are_the_same_look(project: Project) -> None:
    project.task(cases=8)
    project.run("benchmarks")
    project.run("benchmarks")
    assert len((project.path / "store" / "looks.jsonl").read_text().splitlines()) == 1


def test_a_second_look_at_a_gap_is_told(project: Project) -> None:
    project.task(cases=8)
    project.run("benchmarks")
    result = project.run("benchmarks", "--refresh", "--model", "fake/small", "--model", "fake/big", "-k", "big")
    result.stdout.fnmatch_lines(["*look 2 of this gap*"])


def test_runs_added_to_both_sides_are_a_further_look(project: Project) -> None:
    project.task(cases=8)
    project.run("benchmarks", "--runs", "1")
    for look in (2, 3):
        result = project.run("benchmarks", "--runs", str(look))
        result.stdout.fnmatch_lines([f"*look {look} of this gap*"])


def test_a_reference_measured_anew_begins_a_new_count(project: Project) -> None:
    project.task(cases=8)
    project.run("benchmarks")
    result = project.run("benchmarks", "--refresh")
    result.stdout.no_fnmatch_line("*look 2*")


def test_planned_looks_are_judged_more_strictly(project: Project) -> None:
    project.task(cases=8, replace=WORSE)
    result = project.run("benchmarks", "--looks", "3")
    result.stdout.fnmatch_lines(["--looks 3: each look is judged at 1.67%, so that 3 of them stay at 5%"])
    result.stdout.fnmatch_lines(["*98.3% interval*"])


def test_a_broken_line_of_the_ledger_is_named_and_costs_nothing(project: Project) -> None:
    project.task(cases=8)
    project.run("benchmarks")
    ledger = project.path / "store" / "looks.jsonl"
    ledger.write_bytes(ledger.read_bytes() + b'{"task": "ec')
    result = project.run("benchmarks", "--refresh", "-k", "big")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "looks.jsonl: line 2 is no look; not counted",
        ]
    )
    assert len(ledger.read_text().splitlines()) == 3


# -- files ----------------------------------------------------------------------------------------


def test_the_comment_for_a_pull_request_says_what_is_established_first(project: Project) -> None:
    project.task(cases=24, replace=WORSE)
    project.task("calm", cases=8, replace=SAME)
    project.run("benchmarks", "--gate", "--battery-md", "o.md", "--battery-json", "o.json")
    text = (project.path / "o.md").read_text(encoding="utf-8")
    lines = text.splitlines()
    assert lines[0] == "### battery: 1 established worse, 0 established better, 1 inconclusive (gate failed: 1 of 2)"
    assert text.index("established ★ worse") < text.index("<details>") < text.index("calm&#58; correct")


def test_a_comment_holds_nothing_that_a_page_would_act_on() -> None:
    from pytest_battery.saying.rendering.markdown import escaped

    text = escaped("@team `x` </details> | [a](http://b) #12 \x1b[31m **b**\n```")
    for active in ("@", "`", "<", "|", "[", "](", "://", "#1", "\x1b", "**", "\n"):
        assert active not in text.replace("&#", "")


def test_a_file_that_cannot_be_written_is_named(project: Project) -> None:
    project.task(cases=8, replace=SAME)
    result = project.run("benchmarks", "--battery-md", str(Path("absent") / "o.md"))
    result.stdout.fnmatch_lines(["absent/o.md: cannot be written: No such file or directory"])


@pytest.mark.parametrize("distributed", [False, True], ids=["one process", "xdist"])
def test_a_crash_is_never_green(project: Project, distributed: bool) -> None:
    project.fake('if word == "wx": os._exit(9)')
    project.task(cases=8, replace=SAME)
    extra, plugins = (["-n", "1", "--max-worker-restart=0"], ["xdist"]) if distributed else ([], [])
    result = project.run("benchmarks", "--gate", *extra, plugins=plugins, process=True)
    assert result.ret != 0
