"""Other people's plugins in the same session."""

from __future__ import annotations

import pytest


def test_randomly_shuffles_items_and_changes_no_number(project):
    project.task(cases=6)
    shuffled = project.run("-p", "randomly", "-p", "no:cacheprovider", "-v", plugins=["randomly"])
    table = [line for line in shuffled.outlines if line.startswith("echo ")]
    ordered = project.run("-v")
    assert table == [line for line in ordered.outlines if line.startswith("echo ")]
    ordered.assert_outcomes(skipped=12)


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_asyncio_leaves_our_items_and_our_coroutines_to_us(project, mode):
    project.task(
        replace={'kind = "call"': 'kind = "python"', 'prompt = { text = "ECHO:{{ case.word }}" }\n': ""}, cases=2
    )
    (project.path / "benchmarks/test_echo.py").write_text(
        "import pytest\n\n"
        '@pytest.mark.battery("echo.toml")\n'
        "async def test_words(case, model):\n"
        "    return (await model.complete(f\"ECHO:{case['word']}\")).text\n\n"
        "@pytest.mark.asyncio\n"
        "async def test_of_the_users_own():\n"
        "    import asyncio\n    assert asyncio.get_running_loop().is_running()\n"
    )
    result = project.run(
        f"--asyncio-mode={mode}", "-o", "asyncio_default_fixture_loop_scope=function", plugins=["asyncio"]
    )
    result.assert_outcomes(passed=5)
    assert len(project.calls) == 4


@pytest.mark.parametrize("option", ["--reruns", "--force-reruns"])
def test_rerunfailures_never_asks_again_until_it_suits(project, option):
    project.fake("raise CallError('refused', 'infrastructure', 'no')")
    project.task(cases=2)
    result = project.run(option, "3", plugins=["rerunfailures"])
    result.assert_outcomes(errors=4)
    assert len(project.calls) == 4
    assert "RERUN" not in result.stdout.str()


def test_rerunfailures_does_not_repeat_a_python_test_either(project):
    project.task(
        replace={'kind = "call"': 'kind = "python"', 'prompt = { text = "ECHO:{{ case.word }}" }\n': ""}, cases=1
    )
    (project.path / "benchmarks/test_echo.py").write_text(
        "import pytest\n\n"
        '@pytest.mark.battery("echo.toml")\n'
        "async def test_words(case, model):\n"
        "    await model.complete('ECHO:w')\n"
        "    raise RuntimeError('broken')\n"
    )
    result = project.run("--reruns", "3", plugins=["rerunfailures"])
    result.assert_outcomes(errors=2)
    assert len(project.calls) == 2


def test_timeout_is_a_backstop_that_fails_the_item_alone(project):
    project.fake(handler="never")
    with (project.path / "conftest.py").open("a") as conftest:
        conftest.write("async def never(request):\n    import anyio\n    await anyio.sleep_forever()\n")
    project.task(cases=2)
    result = project.run("--timeout=1", plugins=["timeout"], process=True)
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(["*Timeout (>1.0s) from pytest-timeout*"])


def test_a_run_that_takes_longer_than_its_task_allows_is_invalid(project):
    project.fake(handler="never")
    with (project.path / "conftest.py").open("a") as conftest:
        conftest.write("async def never(request):\n    import anyio\n    await anyio.sleep_forever()\n")
    project.task(cases=2, replace={"timeout = 20": "timeout = 0.1"})
    result = project.run()
    result.assert_outcomes(errors=4)
    result.stdout.fnmatch_lines(["*no measurement in 1 of 1 runs: timeout (infrastructure): no reply within 0.1 s"])


def test_pytest_html_writes_its_page(project):
    project.fake("if word == 'wx': raise CallError('odd', 'subject', '<script>alert(1)</script>')")
    project.task(cases=2)
    result = project.run("--html=r.html", "--self-contained-html", plugins=["html", "metadata"])
    assert result.ret == 1
    page = (project.path / "r.html").read_text()
    assert "<script>alert(1)</script>" not in page
    assert "t02[fake/big-none]" in page
