"""Every command of docs/ci.md, run as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..store.git_repository import Repository
from .conftest import Project

PAGE = Path(__file__).parents[2] / "docs" / "ci.md"


def steps(job: str) -> list[str]:
    """The `run:` lines of one job of the workflow."""
    text = PAGE.read_text(encoding="utf-8")
    workflow = re.search(r"```yaml\n(name: battery\n.*?)```", text, re.DOTALL)
    assert workflow is not None
    body = workflow.group(1).partition(f"\n  {job}:\n")[2]
    body = re.split(r"\n  \w+:\n", body)[0]
    return re.findall(r"^      - run: (.*)$", body, re.MULTILINE)


class Runner:
    """A machine that runs a workflow's commands: this Python, a `gh` that writes down what it is asked, no network."""

    def __init__(self, path: Path, clone: Path) -> None:
        self.clone = clone
        tools = path / "tools"
        tools.mkdir()
        (tools / "python").symlink_to(sys.executable)
        gh = tools / "gh"
        gh.write_text(f'#!/bin/sh\necho "$@" >> {path}/gh.log\ncat "$7" >> {path}/comment.md 2>/dev/null; exit 0\n')
        gh.chmod(0o755)
        self.log, self.comment = path / "gh.log", path / "comment.md"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTEST_"))}
        self.environment = kept | {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "BASE": "main",
            "PR": "7",
            "PIP_NO_INDEX": "1",
            "PYTEST_ADDOPTS": "-p no:randomly -p no:asyncio",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }

    def __call__(self, command: str) -> int:
        if command.startswith("python -m pip"):  # pip belongs to the environment, not to the link
            command = f"{sys.executable} {command.removeprefix('python ')}"
        if command.startswith("python -m pytest"):
            command = f"{sys.executable} {command.removeprefix('python ')}"
        return subprocess.run(
            ["bash", "-e", "-c", command], cwd=self.clone, env=self.environment, check=False
        ).returncode


@pytest.fixture
def origin(project: Project, tmp_path: Path) -> Path:
    """A bare repository with a measured battery on main."""
    project.fake('if "PLEASE" in text: return "no"')
    project.task(cases=24, replace={'subjects = ["fake/small", "fake/big"]': 'subjects = ["fake/big"]'})
    (project.path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (project.path / ".gitignore").write_text("calls.log\n__pycache__\nverdicts.md\nbattery.xml\n", encoding="utf-8")
    repository = Repository(project.path)
    assert project.run("benchmarks").ret == 0
    repository.commit("measured")
    bare = tmp_path / "origin.git"
    repository("clone", "--quiet", "--bare", ".", str(bare))
    return bare


def clone_of(origin: Path, path: Path, edited: bool) -> Repository:
    Repository(origin, init=False)("clone", "--quiet", "--depth=1", f"file://{origin}", str(path))
    clone = Repository(path, init=False)
    clone("checkout", "--quiet", "-b", "change")
    clone("update-ref", "-d", "refs/remotes/origin/main")
    if edited:
        task = path / "benchmarks" / "echo.toml"
        task.write_text(task.read_text(encoding="utf-8").replace("ECHO:", "PLEASE ECHO:"), encoding="utf-8")
        clone.commit("worse")
    return clone


@pytest.mark.parametrize(("edited", "code"), [(True, 1), (False, 0)], ids=["worse", "unchanged"])
def test_the_gate_job_does_what_the_page_says(origin: Path, tmp_path: Path, edited: bool, code: int) -> None:
    clone = clone_of(origin, tmp_path / "clone", edited)
    run = Runner(tmp_path, clone.path)
    commands = steps("gate")
    assert [command.split()[0] for command in commands] == ["python", "git", "python", "gh"]
    codes = [run(command) for command in commands]
    assert codes == [0, 0, code, 0]
    assert run.log.read_text() == "pr comment 7 --edit-last --create-if-none --body-file verdicts.md\n"
    words = "1 established worse" if edited else "1 without a gap (gate passed)"
    assert words in (clone.path / "verdicts.md").read_text(encoding="utf-8").splitlines()[0]


def test_the_refresh_job_commits_what_a_merge_made_stale(origin: Path, tmp_path: Path) -> None:
    clone = clone_of(origin, tmp_path / "clone", edited=True)
    clone("push", "--quiet", "origin", "change:main")
    clone("checkout", "--quiet", "-B", "main", "change")
    run = Runner(tmp_path, clone.path)
    assert [run(command) for command in steps("refresh")] == [0] * 5
    assert Repository(origin, init=False)("log", "-1", "--format=%s", "main") == "battery, measured"
    assert [run(command) for command in steps("refresh")] == [0] * 5  # nothing left to measure, nothing to commit
    assert int(Repository(origin, init=False)("rev-list", "--count", "main")) == 3
