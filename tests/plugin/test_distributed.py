"""pytest-xdist: the same numbers, nothing asked twice, nothing started before everything was read."""

from __future__ import annotations

import json

import pytest


def run(project, *arguments):
    return project.run("-n", "4", *arguments, plugins=["xdist"], process=True)


def test_four_workers_measure_each_run_once_and_print_the_same_table(project):
    project.task(cases=10, runs=2)
    result = run(project)
    result.assert_outcomes(passed=20)
    assert len(project.calls) == 40
    result.stdout.fnmatch_lines(["battery plan: 20 permutations: runs: 0 kept, 0 to re-score, 40 to measure*"])
    alone = project.run()
    alone.assert_outcomes(skipped=20)
    lines = [line for line in result.outlines if line.startswith("echo")]
    assert lines
    assert lines == [line for line in alone.outlines if line.startswith("echo")]
    again = run(project)
    again.assert_outcomes(skipped=20)
    assert again.ret == 0


def test_a_broken_task_file_stops_the_session_before_a_worker_spends(project):
    project.task("good", cases=3)
    project.task("bad", cases=1, replace={"runs = 1": "runs = 0"})
    result = run(project)
    assert result.ret == 4
    assert not project.calls
    assert "benchmarks/bad.toml:4: task.runs should be" in result.stderr.str()


def test_selection_and_hiding_work_over_workers(project):
    project.task(cases=4)
    run(project, "-k", "t01 or t02").assert_outcomes(passed=4)
    assert len(project.calls) == 4
    hidden = run(project, "--cached=hide")
    hidden.assert_outcomes(passed=4)
    assert len(project.calls) == 8
    nothing = run(project, "--cached=hide")
    assert nothing.ret == 0
    nothing.stdout.fnmatch_lines(["*8 kept, 0 measured*"])


def test_force_deletes_once(project):
    project.task(cases=3)
    project.run()
    run(project, "--force").assert_outcomes(passed=6)
    assert len(project.calls) == 12


def test_refresh_measures_once(project):
    project.task(cases=3)
    project.run()
    run(project, "--refresh").assert_outcomes(passed=6)
    assert len(project.calls) == 12


def test_a_python_test_is_measured_by_workers_and_its_table_printed(project):
    project.task(
        replace={'kind = "call"': 'kind = "python"', 'prompt = { text = "ECHO:{{ case.word }}" }\n': ""}, cases=3
    )
    (project.path / "benchmarks/test_words.py").write_text(
        'import pytest\n\n@pytest.mark.battery("echo.toml")\n'
        "async def test_words(case, model):\n    return await model.complete(f\"ECHO:{case['word']}\")\n"
    )
    result = run(project)
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["echo.test_words*"])


@pytest.mark.parametrize("runs", [1, 3])
def test_a_killed_worker_costs_only_what_was_in_flight(project, runs):
    project.fake(
        """
        flag = CALLS.with_name("killed")
        if word == "wxx" and request.subject.model == "big" and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), 9)
        """
    )
    project.task(cases=12, runs=runs)
    result = run(project, "--jobs", "2")
    assert result.ret == 1
    assert "crashed" in result.stdout.str()
    stored = project.records()
    again = run(project, "--jobs", "2")
    assert again.ret == 0
    assert len(project.records()) == 24 * runs
    # every call of the first session either left a record or died with its worker; none was made twice but those
    lost = len(project.calls) - 24 * runs
    assert 1 <= lost <= 2 * 4
    kept = {(record["subject"]["key"], record["case"], record["run"]): record["measured_at"] for record in stored}
    for record in project.records():
        moment = kept.get((record["subject"]["key"], record["case"], record["run"]))
        assert moment in (None, record["measured_at"])


def test_a_long_reply_is_cut_in_the_record_and_whole_in_the_evidence(project):
    project.fake("return 'x' * 200_000")
    project.task(cases=2)
    result = run(project)
    result.assert_outcomes(passed=4)
    (record, *_) = project.records()
    assert len(record["reply"]) == 8192
    assert record["reply_cut"] is True
    evidence = project.path / "store/echo/none/fake--big/t01-1.evidence"
    assert (evidence / "reply.txt").stat().st_size == 200_000
    assert json.loads((evidence / "calls.jsonl").read_text())["text"] == "x" * 200_000
