"""A project in a temporary directory: task files, a counting fake model, and pytest run on it."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from pytest_battery.doing import tabling
from pytest_battery.plugin import collect, report, run
from pytest_battery.saying import gaps
from pytest_battery.saying.rendering import text

# Loaded before pytester takes its snapshots: numpy can't be imported twice in one process.
LOADED = (collect, report, run, tabling, gaps, text)
anyio.run(anyio.lowlevel.checkpoint)  # nor may there be two copies of anyio's back end, each with half of the tasks

OPTIONAL = (
    "anyio",
    "asyncio",
    "cacheprovider",
    "html",
    "hypothesispytest",
    "metadata",
    "randomly",
    "rerunfailures",
    "stepwise",
    "timeout",
    "xdist",
)

TASK = """\
[task]
title = "Say the word"
kind = "call"
runs = {runs}
timeout = 20
tags = ["quick"]
subjects = ["fake/small", "fake/big"]
prompt = {{ text = "ECHO:{{{{ case.word }}}}" }}

[scorer]
use = "matchers"
equals = "{{{{ case.word }}}}"

[metrics.correct]
better = "higher"
primary = true
"""

CONFTEST = """\
import json, os, pathlib, time
from pytest_battery import CallError, FakeModel, Reply, Usage

CALLS = pathlib.Path(__file__).parent / "calls.log"

def answer(request):
    text = request.messages[-1].content
    word = text.rpartition("ECHO:")[2].strip()
    with CALLS.open("a") as log:
        log.write(json.dumps([request.subject.key, word]) + "\\n")
{body}
    return word if request.subject.model != "small" or len(word) % 2 else "no"

def pytest_battery_models():
    return {{"fake": FakeModel({handler})}}

"""


class Project:
    """Task files and a fake model, and how pytest is run on them."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self.fake()

    def fake(self, body: str = "", handler: str = "answer") -> None:
        """The fake model; *body* runs before it answers, indented code with `request`, `word` and `text` at hand."""
        code = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
        (self.path / "conftest.py").write_text(CONFTEST.format(body=code, handler=handler), encoding="utf-8")
        for cached in self.path.glob("__pycache__/conftest*"):
            cached.unlink()  # two edits in one second look the same to the import system

    def task(
        self,
        name: str = "echo",
        *,
        cases: int | list[str] = 4,
        runs: int = 1,
        extra: str = "",
        replace: dict[str, str] | None = None,
    ) -> Path:
        """Write ``benchmarks/NAME.toml``; *cases* is how many, or their ids."""
        ids = [f"t{number:02d}" for number in range(1, cases + 1)] if isinstance(cases, int) else cases
        text = TASK.format(runs=runs) + extra
        for old, new in (replace or {}).items():
            assert old in text
            text = text.replace(old, new)
        for number, case in enumerate(ids):
            text += f'\n[[case]]\nid = "{case}"\nword = "w{"x" * (number % 5)}"\n'
        path = self.path / "benchmarks" / f"{name}.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def run(self, *arguments: str, plugins: Sequence[str] = (), process: bool = False) -> pytest.RunResult:
        """pytest on the project, with only those optional plugins that are asked for; *process*: in one of its own."""
        disabled = [option for name in OPTIONAL if name not in plugins for option in ("-p", f"no:{name}")]
        if process:
            return self.pytester.runpytest_subprocess(*disabled, *arguments)
        return self.pytester.runpytest_inprocess(*disabled, *arguments)

    def battery(self, *arguments: str) -> pytest.RunResult:
        """The command `battery`, in the project."""
        return self.pytester.run(sys.executable, "-c", "from pytest_battery.cli import main; main()", *arguments)

    @property
    def calls(self) -> list[list[str]]:
        """Every call the fake model ever answered, as [subject, word]."""
        log = self.path / "calls.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def records(self, task: str = "echo") -> list[dict[str, Any]]:
        return [json.loads(path.read_bytes()) for path in sorted((self.path / "store" / task).glob("*/*/*.json"))]


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    return Project(pytester)
