"""What is wrong is told in one message, with exit code 4, before anything is asked."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize(
    ("replace", "told"),
    [
        ({"runs = 1": "runs = 1\nruns = 2"}, "benchmarks/echo.toml:5: not TOML: "),
        (
            {"better": "beter"},
            "benchmarks/echo.toml:15: metrics.correct.beter is not known here; did you mean 'better'?",
        ),
        ({"timeout = 20": ""}, "task.timeout is missing"),
        (
            {'kind = "call"': 'kind = "chat"'},
            "benchmarks/echo.toml:3: task.kind should be 'call', 'steps', 'python' or 'agent'; found a string, 'chat'",
        ),
        (
            {"equals": "equal"},
            "benchmarks/echo.toml:12: scorer: 'matchers' has no option 'equal' (did you mean 'equals'?)",
        ),
        ({'use = "matchers"': 'use = "macthers"'}, "there is no scorer 'macthers' (did you mean 'matchers'?)"),
        ({"case.word": "case.wrd"}, "case t01 has no field 'wrd'; it has id, word"),
        (
            {'"fake/small", ': '"fake/small:high@temp:1", "nobody/x", '},
            "nobody/x: no provider is called 'nobody'; known: anthropic, azure, bedrock, example, fake, google, llamacpp, local, ollama",
        ),
        ({'"fake/small", ': '"local/gpt-9", '}, "local/gpt-9"),
        ({'id = "t02"': 'id = "t01"'}, "case id 't01' is given twice; the other is at benchmarks/echo.toml:18"),
        ({'id = "t02"': 'id = "a::b"'}, "case 'a::b' is not an id: use letters, digits"),
        ({'id = "t02"': 'id = "a[b"'}, "case 'a[b' is not an id: use letters, digits"),
        ({'equals = "{{ case.word }}"': 'regex = "\\bfoo"'}, "single quotes"),
        ({'equals = "{{ case.word }}"': "regex = '(?=x)'"}, "(?=x)"),
        ({"[task]": "[task]\nsteps = 3"}, "task.steps is not known here"),
        ({"[scorer]": "[axes]\na = ['b']\n[scorer]"}, "axes is not known here"),
    ],
)
def test_a_task_file_that_cannot_be_used_is_refused(project, replace, told):
    path = project.task(cases=2)
    (project.path / "conftest.py").write_text(
        (project.path / "conftest.py").read_text().replace('{"fake": ', '{"example": FakeModel(answer), "fake": ')
    )
    text = path.read_text()
    for old, new in replace.items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    result = project.run()
    assert result.ret == 4
    assert told in result.stderr.str()
    assert "Traceback" not in result.stderr.str() + result.stdout.str()
    assert not project.calls
    assert not (project.path / "store").exists()


def test_a_byte_order_mark_is_named(project):
    path = project.task(cases=1)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    result = project.run()
    assert result.ret == 4
    assert "benchmarks/echo.toml:1: the file begins with a byte order mark (BOM)" in result.stderr.str()


def test_no_case_at_all_is_refused(project):
    project.task(cases=0)
    result = project.run()
    assert result.ret == 4
    assert "task.cases is missing" in result.stderr.str()


def test_faults_of_all_files_come_in_one_message(project):
    project.task("one", cases=1, replace={"runs = 1": "runs = 0"})
    project.task("two", cases=1, replace={"better": "beter"})
    project.task("three", cases=1)
    result = project.run()
    assert result.ret == 4
    text = result.stderr.str()
    assert "2 task files cannot be used; nothing was asked or spent" in text
    assert "benchmarks/one.toml:4: task.runs" in text
    assert "benchmarks/two.toml:15: metrics.correct.beter" in text
    assert not project.calls


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--sweep", "thinking"], "--sweep thinking: write KNOB=VALUE[,VALUE...]"),
        (["--sweep", "thinking=lots"], "thinking=lots: the levels are off, minimal"),
        (["--sweep", "a=1,1"], "a value is given twice"),
        (["--model", "haiku"], "'haiku' is not a model reference: write PROVIDER/MODEL"),
        (["--model", "nobody/x"], "no provider is called 'nobody'"),
        (["--sweep", "a=1", "--model", "fake/x"], "stands before the first --model"),
        (["--stack", "shipped"], "--stack shipped: echo is asked without an agent, and its only stack is none"),
        (["--runs", "0"], "--runs 0: at least one run is needed"),
        (["--jobs", "0"], "--jobs 0: at least one run must be in flight"),
        (["--model", "local/smollm2-135m@topp=1"], "topp"),
    ],
)
def test_an_option_that_cannot_be_honoured_is_refused(project, arguments, told):
    project.task(cases=1)
    result = project.run(*arguments)
    assert result.ret == 4
    assert told in result.stderr.str()
    assert not project.calls


def test_missing_weights_name_the_one_command_that_fetches_them(project, monkeypatch):
    monkeypatch.setenv("PYTEST_BATTERY_WEIGHTS", str(project.path / "none"))
    project.task(cases=1)
    result = project.run("--model", "local/smollm2-135m@max_tokens=5")
    assert result.ret == 4
    assert "battery local fetch smollm2-135m" in result.stderr.str()
    assert result.stderr.str().count("battery local fetch") == 1


def test_a_record_of_a_newer_version_is_refused_and_stays_as_it_is(project):
    project.task(cases=1)
    project.run()
    path = project.path / "store/echo/none/fake--big/t01-1.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 2}))
    before = path.read_bytes()
    result = project.run()
    assert result.ret == 4
    assert "written by a newer version of pytest-battery (schema 2; this one reads up to 1)" in result.stderr.str()
    assert path.read_bytes() == before


def test_what_is_no_record_is_named_and_not_counted(project):
    project.task(cases=2)
    project.run()
    directory = project.path / "store/echo/none/fake--big"
    (directory / "t01-1.json").write_text('{"schema": 1, "task"')
    (directory / "logs.json").write_text("{}")
    (directory / ".tmp-99-abc").write_text("half")
    result = project.run("-v")
    result.assert_outcomes(passed=1, skipped=3)
    text = result.stdout.str()
    assert "1 t01-1.json is not whole JSON; it is measured again" in text
    assert "logs.json: is not ours" in text
    assert ".tmp-99-abc: was left by a session" in text
    status = project.battery("status")
    assert status.ret == 0
    status.stdout.fnmatch_lines(["not counted: *logs.json: is not ours"])


def test_two_tasks_of_one_name_are_refused(project):
    project.task(cases=1)
    other = project.path / "more" / "echo.toml"
    other.parent.mkdir()
    other.write_text((project.path / "benchmarks/echo.toml").read_text())
    result = project.run()
    assert result.ret == 4
    assert "the task 'echo' is also asked by benchmarks/echo.toml" in result.stderr.str()


def test_a_directory_that_two_subjects_share_is_an_error_not_a_merge(project):
    project.task(cases=1, replace={'"fake/small", "fake/big"': '"fake/a/b"'})
    project.run()
    project.task(cases=1, replace={'"fake/small", "fake/big"': '"fake/a--b"'})
    result = project.run()
    assert result.ret == 4
    assert "holds a record of fake/a/b, where fake/a--b belongs" in result.stderr.str()


def test_a_scorer_of_the_projects_that_breaks_is_one_clear_line(project):
    project.task(cases=1, replace={'use = "matchers"\nequals = "{{ case.word }}"': 'use = "mine"'})
    scorer = project.path / "scorers" / "mine.py"
    scorer.parent.mkdir()
    scorer.write_text("import nothing_that_exists\n")
    result = project.run()
    assert result.ret == 4
    assert "nothing_that_exists" in result.stderr.str()
    assert "Traceback" not in result.stderr.str()
    scorer.write_text("def score(case, view):\n    return {'correct': 1 / 0}\n")
    result = project.run()
    assert result.ret == 1
    assert "scorer-failed (task)" in result.stdout.str()
    assert "ZeroDivisionError" in result.stdout.str()
