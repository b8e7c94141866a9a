"""In a suite that has no battery task, the plugin is not there."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("more", [(), ("-W", "error"), ("--strict-markers", "--strict-config"), ("-n", "2")])
def test_a_suite_without_tasks_sees_nothing_of_it(pytester, more):
    pytester.makepyfile("def test_a(): pass")
    pytester.makepyprojecttoml('[tool.task]\nruns = 3\n[task]\ndefault = "x"\n')
    (pytester.path / "mise.toml").write_text("[tasks.build]\nrun = 'make'\n[task]\nname = 'x'\n")
    result = pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:asyncio", *more)
    result.assert_outcomes(passed=1)
    text = result.stdout.str() + result.stderr.str()
    assert "battery" not in text.replace("battery-0", "").replace(str(pytester.path), "")
    assert not (pytester.path / "store").exists()


def test_a_suite_of_ones_own_may_own_the_short_options(pytester):
    pytester.makeconftest(
        "def pytest_addoption(parser):\n"
        "    parser.addoption('--model', default='mine')\n"
        "    parser.addoption('--jobs', type=float, default=0.5)\n"
        "    parser.addoption('--force', choices=['gently'], default='gently')\n"
    )
    pytester.makepyfile(
        "def test_a(request):\n"
        "    assert request.config.getoption('--model') == 'theirs'\n"
        "    assert request.config.option.battery_runs == 3\n"
    )
    result = pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:asyncio", "--model", "theirs", "--runs", "3")
    result.assert_outcomes(passed=1)


def test_fixtures_called_case_or_model_stay_the_users(pytester):
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def model():
            return "mine"

        @pytest.mark.parametrize("case", [1, 2])
        def test_a(case, model):
            assert model == "mine"
        """
    )
    pytester.runpytest_inprocess("-p", "no:randomly", "-p", "no:asyncio").assert_outcomes(passed=2)


def test_tests_in_a_directory_called_store_are_still_tests(pytester):
    path = pytester.path / "store" / "test_a.py"
    path.parent.mkdir()
    path.write_text("def test_a(): pass\n")
    (path.parent / ".gitignore").write_text("*.log\n")
    pytester.runpytest_inprocess("-p", "no:randomly", "-p", "no:asyncio").assert_outcomes(passed=1)
