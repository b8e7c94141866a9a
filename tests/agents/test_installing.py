"""Installing agents, with an npm of our own on the path: a real process that makes what it is told to."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_battery.edges.agents.installing import RECEIPT, install, installed, run, standing
from pytest_battery.edges.agents.packages import NODE, NPM, PIP
from pytest_battery.errors import AgentError

from .running import installed_or_skipped

NPM_SCRIPT = """\
#!{python}
import json, os, pathlib, sys
arguments = sys.argv[1:]
here = pathlib.Path(__file__).parent
with open(here / "called.jsonl", "a") as log:
    log.write(json.dumps(arguments) + "\\n")
root = pathlib.Path(arguments[arguments.index("--prefix") + 1])
plan = json.loads((here / "plan.json").read_text())
for wanted in [one for one in arguments if "@" in one[1:] and not one.startswith("-")]:
    package, version = wanted.rsplit("@", 1)
    for path in plan["makes"].get(package, []):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("#!/bin/sh\\n")
        (root / path).chmod(0o755)
    home = root / "node_modules" / package
    home.mkdir(parents=True, exist_ok=True)
    (home / "package.json").write_text(json.dumps({{"version": plan.get("version", version)}}))
print(plan.get("stderr", ""), file=sys.stderr)
sys.exit(plan.get("exit", 0))
"""


class FakeNpm:
    """``plan`` says what the next call makes, what it says and how it ends."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        (directory / "npm").write_text(NPM_SCRIPT.format(python=sys.executable))
        (directory / "npm").chmod(0o755)
        self.plan()

    def plan(self, **plan: Any) -> None:
        makes = {package.package: [package.executable] for package in NPM.values()}
        makes[NODE.package] = [NODE.executable]
        (self.directory / "plan.json").write_text(json.dumps({"makes": makes, **plan}))

    @property
    def calls(self) -> list[list[str]]:
        log = self.directory / "called.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNpm:
    found = FakeNpm(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{found.directory}{os.pathsep}{os.environ['PATH']}")
    return found


def packages_of(call: Sequence[str]) -> list[str]:
    return [one for one in call if "@" in one[1:] and not one.startswith("-")]


def test_all_that_is_wanted_comes_by_one_call_without_scripts_in_the_versions_pinned(
    npm: FakeNpm, tmp_path: Path
) -> None:
    where = tmp_path / "agents"
    found = install(["pi", "codex", "claude-code", "pi"], where)
    (call,) = npm.calls
    assert {"--ignore-scripts", "--no-audit", "--no-fund"} < set(call)
    assert packages_of(call) == [
        f"{NODE.package}@{NODE.version}",
        *(f"{package.package}@{package.version}" for package in NPM.values()),
    ]
    assert [one.name for one in found] == ["pi", "codex", "claude-code"]
    for one in found:
        assert installed(one.name, where) == one
        assert one.executable.is_file()
        assert one.version == NPM[one.name].version
    assert [one.node is not None for one in found] == [True, False, False]


def test_git_does_not_see_the_folder(npm: FakeNpm, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    install(["pi"], tmp_path / ".battery/agents")
    said = subprocess.run(
        ["git", "status", "--short", "-uall"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ".battery" not in said.stdout


def test_what_is_there_stays_and_is_asked_for_again(npm: FakeNpm, tmp_path: Path) -> None:
    install(["pi"], tmp_path)
    install(["codex"], tmp_path)
    assert {one.rpartition("@")[0] for one in packages_of(npm.calls[1])} == {
        NODE.package,
        NPM["pi"].package,
        NPM["codex"].package,
    }
    assert installed("pi", tmp_path).version == NPM["pi"].version
    assert installed("codex", tmp_path).version == NPM["codex"].version


def test_what_is_not_installed_is_said_with_the_command_that_does(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match=r"pi is not installed in .*: run `battery agents install pi`"):
        installed("pi", tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    "ask",
    [lambda where: install(["pi", "clod"], where), lambda where: installed("clod", where)],
    ids=["install", "installed"],
)
def test_an_unknown_name_is_said_with_those_that_there_are(
    ask: Callable[[Path], Any], npm: FakeNpm, tmp_path: Path
) -> None:
    with pytest.raises(
        AgentError, match="no agent called 'clod' can be installed; there are pi, codex, claude-code, mini"
    ):
        ask(tmp_path / "agents")
    assert npm.calls == []


def test_another_version_is_not_taken_for_the_one_that_is_wanted(npm: FakeNpm, tmp_path: Path) -> None:
    install(["pi"], tmp_path)
    with pytest.raises(
        AgentError, match=r"pi is here in version 1\.6\.0, not 9\.9\.9 .*: this plugin installs 1\.6\.0"
    ):
        installed("pi", tmp_path, "9.9.9")
    (tmp_path / RECEIPT).write_text('{"pi": "1.5.0"}')
    with pytest.raises(
        AgentError, match=r"pi is here in version 1\.5\.0, not 1\.6\.0 .*: run `battery agents install pi`"
    ):
        installed("pi", tmp_path)


def test_a_failure_is_told_in_npms_own_words_and_nothing_is_taken_for_installed(npm: FakeNpm, tmp_path: Path) -> None:
    noise = "npm warn EBADENGINE Unsupported engine\n" * 40
    npm.plan(exit=1, stderr=noise + "npm error code ENOTFOUND\nnpm error network request to nowhere failed\n")
    with pytest.raises(AgentError) as caught:
        install(["pi"], tmp_path)
    said = str(caught.value).splitlines()
    assert said[0].startswith("pi: not installed: `")
    assert "failed with exit code 1" in said[0]
    assert said[1:] == ["npm error code ENOTFOUND", "npm error network request to nowhere failed"]
    with pytest.raises(AgentError, match="is not installed"):
        installed("pi", tmp_path)


def test_a_failure_leaves_what_was_there(npm: FakeNpm, tmp_path: Path) -> None:
    install(["pi"], tmp_path)
    npm.plan(exit=1)
    with pytest.raises(AgentError, match="codex: not installed"):
        install(["codex"], tmp_path)
    assert installed("pi", tmp_path).name == "pi"
    with pytest.raises(AgentError, match="codex is not installed"):
        installed("codex", tmp_path)


def test_an_end_in_the_middle_leaves_nothing_that_is_taken_for_installed(npm: FakeNpm, tmp_path: Path) -> None:
    def killed(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        run(command)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        install(["pi"], tmp_path, killed)
    assert (tmp_path / NPM["pi"].executable).exists()
    with pytest.raises(AgentError, match="pi is not installed"):
        installed("pi", tmp_path)


@pytest.mark.parametrize("name", sorted(NPM))
def test_a_package_that_is_not_what_it_was_is_refused(name: str, npm: FakeNpm, tmp_path: Path) -> None:
    npm.plan(makes={})
    with pytest.raises(AgentError, match=f"{name} was installed and can't be used: .* is missing"):
        install([name], tmp_path)
    npm.plan(version="0.0.1")
    with pytest.raises(AgentError, match=f"{name} was installed and can't be used: its package is of version 0.0.1"):
        install([name], tmp_path)


def test_what_was_damaged_later_is_said(npm: FakeNpm, tmp_path: Path) -> None:
    install(["pi"], tmp_path)
    (tmp_path / NODE.executable).chmod(0o644)
    with pytest.raises(
        AgentError, match=r"pi is damaged \(.*node can't be executed\): run `battery agents install pi`"
    ):
        installed("pi", tmp_path)
    (tmp_path / NODE.executable).unlink()
    with pytest.raises(AgentError, match=r"pi is damaged \(.*node is missing\)"):
        installed("pi", tmp_path)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"pi": 7}', b"\xff"])
def test_a_receipt_that_is_none_is_nothing_installed(content: bytes, tmp_path: Path) -> None:
    (tmp_path / RECEIPT).write_bytes(content)
    with pytest.raises(AgentError, match="pi is not installed"):
        installed("pi", tmp_path)


def test_without_npm_it_is_said_what_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AgentError, match="pi, codex: npm is not on the path"):
        install(["pi", "codex"], tmp_path / "agents")
    assert not (tmp_path / "agents").exists()


def test_a_place_that_is_no_folder_is_said(npm: FakeNpm, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AgentError, match=r"agents can't be installed into .*: Not a directory"):
        install(["pi"], tmp_path / "file" / "agents")


def test_an_agent_in_python_gets_an_environment_of_its_own(tmp_path: Path) -> None:
    """pip's part is played: its package and what that needs are large."""
    called: list[list[str]] = []

    def runner(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        called.append(list(command))
        home = tmp_path / "mini-swe-agent"
        if "venv" in command:
            (home / "bin").mkdir(parents=True)
            (home / "bin/python").symlink_to(sys.executable)
        else:
            version = PIP["mini-swe-agent"].version
            (home / f"lib/python3.11/site-packages/mini_swe_agent-{version}.dist-info").mkdir(parents=True)
        return subprocess.CompletedProcess(list(command), 0, "", "")

    (found,) = install(["mini-swe-agent"], tmp_path, runner)
    assert called[0][1:3] == ["-m", "venv"]
    assert called[1][-1] == "mini-swe-agent==2.4.6"
    assert installed("mini-swe-agent", tmp_path) == found
    assert found.executable == tmp_path / "mini-swe-agent/bin/python"


def test_the_standing_of_all_that_can_be_installed(npm: FakeNpm, tmp_path: Path) -> None:
    install(["codex"], tmp_path)
    (tmp_path / NPM["codex"].executable).unlink()
    install(["pi"], tmp_path)
    rows = {row["name"]: row for row in standing(tmp_path)}
    assert list(rows) == [*NPM, *PIP]
    assert rows["pi"] == {
        "name": "pi",
        "version": "1.6.0",
        "here": "1.6.0",
        "why": None,
        "install": "battery agents install pi",
    }
    assert rows["claude-code"]["here"] is None
    assert "battery agents install claude-code" in (rows["claude-code"]["why"] or "")


def test_the_verb_installs_and_lists(npm: FakeNpm, tmp_path: Path) -> None:
    def battery(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from pytest_battery.cli import main; main()", "agents", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = battery("install", "pi", "codex")
    assert done.returncode == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["pi 1.6.0", "codex 0.171.0"]
    listed = battery("list")
    assert listed.stdout.splitlines()[:2] == ["pi 1.6.0  here", "codex 0.171.0  here"]
    rows = json.loads(battery("list", "--json").stdout)
    assert {row["name"]: row["here"] for row in rows} == {
        "pi": "1.6.0",
        "codex": "0.171.0",
        "claude-code": None,
        "mini-swe-agent": None,
    }
    refused = battery("install", "clod")
    assert (refused.returncode, refused.stdout) == (4, "")
    assert refused.stderr.startswith("no agent called 'clod' can be installed; there are pi,")


@pytest.mark.slow
def test_a_real_npm_that_reaches_nothing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not on the path: install Node with npm")
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
    with pytest.raises(AgentError) as caught:
        install(["codex"], tmp_path / "agents")
    said = str(caught.value).splitlines()
    assert len(said) <= 7
    assert any("ECONNREFUSED" in line for line in said)
    with pytest.raises(AgentError, match="codex is not installed"):
        installed("codex", tmp_path / "agents")


@pytest.mark.parametrize("name", sorted(NPM))
def test_a_real_installation_says_its_version(name: str) -> None:
    found = installed_or_skipped(name)
    command = [*([found.node] if found.node else []), found.executable, "--version"]
    said = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}
    )
    assert found.version in said.stdout
