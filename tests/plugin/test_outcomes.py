"""What an item is called, what is asked for it, and what is not asked twice."""

from __future__ import annotations

import os

import pytest


def test_every_permutation_is_an_item_and_a_second_session_asks_nothing(project):
    project.task(cases=4)
    first = project.run("-v")
    first.assert_outcomes(passed=8)
    assert first.ret == 0
    assert len(project.calls) == 8
    first.stdout.fnmatch_lines(["*echo.toml::t01?fake/small-none? MEASURED 1.00*"])
    second = project.run("-v")
    second.assert_outcomes(skipped=8)
    assert second.ret == 0
    assert len(project.calls) == 8
    second.stdout.fnmatch_lines(["*echo.toml::t01?fake/small-none? CACHED 1.00 (cached: meas*"])
    table = [line for line in first.outlines if line.startswith("echo")]
    assert table
    assert table == [line for line in second.outlines if line.startswith("echo")]


def test_a_low_score_is_no_failure(project):
    project.fake("return 'wrong'")
    project.task(cases=2)
    result = project.run()
    result.assert_outcomes(passed=4)
    assert {record["metrics"]["correct"] for record in project.records()} == {False}


def test_runs_are_numbered_samples_and_more_of_them_ask_only_for_the_new(project):
    project.fake("return f'answer {len(CALLS.read_text().splitlines())}'")
    project.task(cases=1, runs=3, replace={'"fake/small", "fake/big"': '"fake/big"'})
    project.run()
    replies = [record["reply"] for record in project.records()]
    assert len(set(replies)) == 3
    project.run("--runs", "5")
    assert len(project.calls) == 5
    assert [record["reply"] for record in project.records()][:3] == replies
    assert [record["run"] for record in project.records()] == [1, 2, 3, 4, 5]


def test_an_edited_prompt_is_measured_again_and_the_plan_says_so(project):
    project.task(cases=2)
    project.run()
    project.task(cases=2, replace={"ECHO:": "Say ECHO:"})
    result = project.run("-v")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            "battery plan: 4 permutations: runs: 0 kept, 0 to re-score, 4 to measure (4 of them stale)",
            "  4 stale: prompt changed",
        ]
    )
    assert len(project.calls) == 8


def test_a_changed_scorer_scores_again_without_a_call(project):
    project.task(cases=2)
    project.run()
    assert [record["metrics"]["correct"] for record in project.records()] == [True, True, True, False]
    project.task(
        cases=2,
        replace={'equals = "{{{{ case.word }}}}"'.replace("{{{{", "{{").replace("}}}}", "}}"): "regex = '^no$'"},
    )
    result = project.run("-v")
    result.stdout.fnmatch_lines(["battery plan: *4 to re-score, 0 to measure*", "*RE-SCORED 1.00*"])
    assert [record["metrics"]["correct"] for record in project.records()] == [False, False, False, True]
    assert len(project.calls) == 4


def test_refresh_measures_again_and_says_what_it_replaces(project):
    project.task(cases=2)
    project.run()
    result = project.run("--refresh", "-k", "t01")
    result.assert_outcomes(passed=2, deselected=2)
    result.stdout.fnmatch_lines(["battery plan: *2 to measure*measured again (--refresh)"])
    assert len(project.calls) == 6


def test_force_deletes_the_selected_slice_only(project):
    project.task(cases=2, runs=2)
    project.run()
    before = {path: path.read_bytes() for path in (project.path / "store").rglob("t02-*.json")}
    assert len(before) == 4
    result = project.run("--force", "--runs", "1", "-k", "t01")
    result.assert_outcomes(passed=2, deselected=2)
    result.stdout.fnmatch_lines(["battery plan: *deleted first (--force): 4 records"])
    assert {path: path.read_bytes() for path in (project.path / "store").rglob("t02-*.json")} == before
    assert len(list((project.path / "store").rglob("t01-*.json"))) == 2


def test_an_invalid_run_is_an_error_in_one_line_and_is_asked_again(project):
    project.fake(
        "if word == 'wx': raise CallError('http-500', 'infrastructure', 'the \\x1b[31mserver\\x1b[0m fell over')"
    )
    project.task(cases=2)
    result = project.run("-rfE")
    assert result.ret == 1
    result.assert_outcomes(passed=2, errors=2)
    text = result.stdout.str()
    assert "INVALID" in text
    assert "no measurement in 1 of 1 runs: http-500 (infrastructure): the \\x1b[31mserver" in text
    assert "\x1b[31mserver" not in text
    assert "Traceback" not in text
    assert "run.py" not in text
    project.fake()
    again = project.run()
    again.assert_outcomes(passed=2, skipped=2)
    assert len(project.calls) == 6


@pytest.mark.parametrize(
    ("answer", "stop", "told"),
    [
        ("Reply('', stop_reason='empty')", "empty", "4 empty"),
        ("Reply('w', stop_reason='length')", "length", "4 cut at max_tokens"),
        ("Reply('', stop_reason='refusal')", "refusal", "4 refused"),
        ("Reply('', stop_reason='filtered')", "filtered", "4 filtered by the provider"),
    ],
)
def test_an_answer_that_is_none_is_a_result_of_its_kind_and_is_counted_aloud(project, answer, stop, told):
    project.fake(f"return {answer}")
    project.task(cases=2)
    result = project.run()
    result.assert_outcomes(passed=4)
    assert {record["stop_reason"] for record in project.records()} == {stop}
    assert {record["state"] for record in project.records()} == {"valid"}
    result.stdout.fnmatch_lines([f"replies that are no whole answer, graded as they are: {told}"])


def test_a_scorer_that_returns_nan_makes_the_run_invalid_by_name_and_keeps_the_reply(project):
    project.task(
        cases=1,
        replace={'use = "matchers"\nequals = "{{ case.word }}"': 'use = "ratio"', "metrics.correct": "metrics.ratio"},
    )
    scorer = project.path / "scorers" / "ratio.py"
    scorer.parent.mkdir()
    scorer.write_text("def score(case, view):\n    return {'ratio': float('nan')}\n")
    result = project.run("-rfE")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*no measurement in 1 of 1 runs: contract (task): *ratio*nan*"])
    assert {record["reply"] for record in project.records()} == {"w"}
    scorer.write_text("def score(case, view):\n    return {'ratio': 0.5}\n")
    project.run().assert_outcomes(passed=2)
    assert len(project.calls) == 2  # the answers were kept: grading them again costs nothing


def test_a_scorer_that_forgets_a_metric_makes_the_run_invalid_by_name(project):
    project.task(cases=1, extra='\n[metrics.speed]\nbetter = "higher"\n')
    result = project.run("-rfE")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*contract (task): *speed*"])


def test_a_cached_invalid_run_is_no_success(project):
    project.fake("return 'w'")
    project.task(cases=1, extra='\n[metrics.speed]\nbetter = "higher"\n')
    project.run()
    again = project.run("-rfE")
    assert again.ret == 1
    again.assert_outcomes(errors=2)
    assert len(project.calls) == 2


def test_cached_hide_leaves_fresh_permutations_out_and_keeps_the_table(project):
    project.task(cases=3)
    shown = project.run()
    hidden = project.run("--cached=hide")
    assert hidden.ret == 0
    hidden.assert_outcomes()
    table = [line for line in shown.outlines if line.startswith("echo")]
    assert table
    assert table == [line for line in hidden.outlines if line.startswith("echo")]
    (project.path / "store/echo/none/fake--big/t02-1.json").unlink()
    project.run("--cached=hide").assert_outcomes(passed=1)


def test_another_model_and_a_sweep_make_cells_of_their_own(project):
    project.task(cases=1)
    result = project.run("--model", "fake/other@temperature=0", "--sweep", "temperature=0.50,1", "--collect-only", "-q")
    result.stdout.fnmatch_lines(["*::t01?fake/other+temperature:0.5-none?", "*::t01?fake/other+temperature:1-none?"])
    project.run("--sweep", "thinking=off,low").assert_outcomes(passed=4)
    assert {record["subject"]["key"] for record in project.records()} == {
        "fake/small:off",
        "fake/small:low",
        "fake/big:off",
        "fake/big:low",
    }


def test_the_record_says_what_was_asked_for_and_what_was_seen(project):
    project.task(cases=1)
    project.run("--model", "fake/big:low@max_tokens=10")
    (record,) = project.records()
    assert record["subject"] == {
        "key": "fake/big:low@max_tokens=10",
        "knobs": {"max_tokens": "10"},
        "level": "low",
        "ref": "fake/big",
    }
    assert record["knobs"]["requested"] == {"max_tokens": "10", "thinking": "low"}
    assert record["schema"] == 1
    assert os.path.isdir(project.path / "store/echo/none" / "fake--big~low__max_tokens=10" / "t01-1.evidence")


def test_a_model_that_breaks_is_one_line_and_not_our_traceback(project):
    project.fake("raise KeyError('choices')")
    project.task(cases=2, runs=2)
    result = project.run()
    result.assert_outcomes(errors=4)
    text = result.stdout.str()
    assert "no measurement in 2 of 2 runs: provider-raised (us): KeyError: 'choices'" in text
    assert "Traceback" not in text
    assert "measuring.py" not in text
    assert len(project.calls) == 8


def test_a_record_changed_by_hand_is_named_below_the_table(project):
    project.task(cases=2)
    project.run("benchmarks")
    path = next((project.path / "store" / "echo").glob("none/*small/t02-1.json"))
    path.write_bytes(path.read_bytes().replace(b'"correct": false', b'"correct": true'))
    result = project.run("benchmarks")
    result.stdout.fnmatch_lines(["changed by hand since measured: 1 record: echo/fake/small/t02-1"])
