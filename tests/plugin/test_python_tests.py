"""Tests written in Python, for what a task file can't say."""

from __future__ import annotations

import pytest

HEAD = "import pytest\nfrom pytest_battery import Message\n\n"


@pytest.fixture
def python(project):
    project.task(
        replace={'kind = "call"': 'kind = "python"', 'prompt = { text = "ECHO:{{ case.word }}" }\n': ""},
        cases=2,
        runs=2,
    )

    def write(body: str, mark: str = '"echo.toml"') -> None:
        (project.path / "benchmarks/test_words.py").write_text(f"{HEAD}@pytest.mark.battery({mark})\n{body}")

    project.write = write
    return project


ASKS = "async def test_words(case, model):\n    return await model.complete(f\"ECHO:{case['word']}\")\n"


def test_it_is_measured_once_per_subject_case_and_run(python):
    python.write(ASKS)
    result = python.run("-v")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["*test_words.py::test_words?t01-fake/small-none? MEASURED 1.00*", "echo.test_words*"])
    assert len(python.calls) == 8
    assert len(python.records("echo.test_words")) == 8
    python.run().assert_outcomes(skipped=4)
    assert len(python.calls) == 8


def test_its_source_is_what_it_asks_with(python):
    python.write(ASKS)
    python.run()
    python.write(ASKS.replace("ECHO:", "please ECHO:"))
    python.run("-v").stdout.fnmatch_lines(["battery plan: *8 to measure (8 of them stale)"])
    assert len(python.calls) == 16


def test_files_it_watches_are_part_of_what_it_asks_with(python):
    prompt = python.path / "benchmarks/prompt.txt"
    prompt.write_text("one")
    python.write(ASKS, '"echo.toml", watch=["prompt.txt"]')
    python.run()
    python.run().assert_outcomes(skipped=4)
    prompt.write_text("two")
    python.run().assert_outcomes(passed=4)


def test_fixtures_of_the_users_own_may_build_on_the_model(python):
    python.write(
        "async def test_words(case, client, subject, stack, permutation, battery_store):\n"
        "    assert stack.key == 'none' and permutation.subject is subject\n"
        "    assert battery_store.root.name == 'store'\n"
        "    return await client(case)\n"
        "\n\n@pytest.fixture\ndef client(model):\n"
        "    async def ask(case):\n"
        "        reply = await model.complete([Message('user', f\"ECHO:{case['word']}\")], system='be brief')\n"
        "        return reply.text\n"
        "    return ask\n"
    )
    python.run().assert_outcomes(passed=4)
    assert {record["turns"] for record in python.records("echo.test_words")} == {1}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            "async def test_words(case, model):\n    return 'w'\n",
            "no-call (task): the test returned without a call of `model`",
        ),
        (
            "async def test_words(case, model):\n    await model.complete('x')\n",
            "test-raised (task): TypeError: the test returned NoneType",
        ),
        (
            "async def test_words(case, model):\n    assert (await model.complete('x')).text == 'y'\n",
            "test-raised (task): AssertionError",
        ),
    ],
)
def test_what_is_no_measurement_says_so(python, body, told):
    python.write(body)
    result = python.run()
    assert result.ret == 1
    result.assert_outcomes(errors=4)
    assert told in result.stdout.str()


@pytest.mark.parametrize(
    ("body", "mark", "told"),
    [
        ("def test_words(case, model):\n    return 'w'\n", '"echo.toml"', "make the test `async def`"),
        ("async def test_words():\n    return 'w'\n", '"echo.toml"', "uses none of the fixtures"),
        (ASKS, "", 'write @pytest.mark.battery("task.toml")'),
        (ASKS, '"echo.toml", retries=3', 'write @pytest.mark.battery("task.toml")'),
        (ASKS, '"nothere.toml"', "nothere.toml: cannot be read: No such file"),
        (ASKS, '"echo.toml", watch=["nope*"]', "watch='nope*' names no file"),
    ],
)
def test_what_cannot_be_asked_is_told_before_anything_is(python, body, mark, told):
    python.write(body, mark)
    result = python.run()
    assert result.ret in (2, 4)
    assert told in result.stdout.str() + result.stderr.str()
    assert not python.calls


def test_the_same_file_may_be_asked_by_toml_and_by_python(project):
    project.task(cases=1)
    (project.path / "benchmarks/test_words.py").write_text(f'{HEAD}@pytest.mark.battery("echo.toml")\n{ASKS}')
    project.run().assert_outcomes(passed=4)
    assert (len(project.records("echo")), len(project.records("echo.test_words"))) == (2, 2)


def test_outside_of_a_battery_the_fixtures_say_what_is_missing(pytester):
    pytester.makepyfile("def test_a(permutation): pass")
    result = pytester.runpytest_inprocess("-p", "no:randomly", "-p", "no:asyncio")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*only a test marked @pytest.mark.battery*"])


def test_a_skip_in_the_test_is_a_skip(python):
    python.write("async def test_words(case, model):\n    pytest.skip('not today')\n")
    python.run().assert_outcomes(skipped=4)
    assert not python.records("echo.test_words")
