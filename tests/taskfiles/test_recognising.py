"""Which TOML files are spoken up about: those that mean to be tasks, however broken, and no other tool's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_battery.edges.taskfiles import looks_like_a_task_file

FOREIGN = {
    "mise": '[tools]\nnode = "22"\n\n[tasks.build]\nrun = "make"\n\n[task_config]\nincludes = ["x"]\n',
    "pixi": '[workspace]\nname = "x"\n[tasks]\ntest = "pytest"\n[tasks.lint]\ncmd = "ruff"\n',
    "cargo-make": '[config]\nskip_core_tasks = true\n[tasks.x]\ncommand = "cargo"\nargs = ["t"]\n',
    "a table called task": '[task]\nname = "deploy"\nkind = "shell"\nscript = "x"\n',
    "a table called task, timed": '[task]\ncommand = "x"\ntimeout = 5\n',
    "metrics of an exporter": '[metrics.http]\nport = 9090\n[server]\nport = 1\n',
    "a scorer": '[scorer]\nname = "x"\n',
    "cases of a task": '[[case]]\nid = "a"\n',
    "nothing": "",
    "a battery manifest": '[[slice]]\ntask = "triage"\nruns = 5\n',
}  # fmt: skip


@pytest.mark.parametrize("kind", FOREIGN)
def test_other_tools_files_are_left_alone(kind: str) -> None:
    assert not looks_like_a_task_file(FOREIGN[kind].encode())


def test_our_own_pyproject_is_left_alone(pytestconfig: pytest.Config) -> None:
    assert not looks_like_a_task_file((Path(pytestconfig.rootpath) / "pyproject.toml").read_bytes())


BROKEN = {
    "an unclosed header": ("[task]", "[task"),
    "a broken value": ("runs = 2", "runs ="),
    "a misspelt table": ("[task]", "[tsak]"),
    "no scorer": ('[scorer]\nuse = "matchers"\n', ""),
    "a key of its own": ("[metrics.correct]", "[metric.correct]"),
    "spaces in headers": ("[scorer]", "  [ scorer ]"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_task_file_is_still_one(project: Any, kind: str) -> None:
    old, new = BROKEN[kind]
    assert looks_like_a_task_file(project.task({old: new}).encode())


ENCODINGS = {
    "BOM": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16, big end first": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "Latin-1": lambda text: text.replace("Say it", "caf\u00e9").encode("latin-1"),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_task_file_in_any_encoding_is_still_one(project: Any, encoding: str) -> None:
    assert looks_like_a_task_file(ENCODINGS[encoding](project.task()))


def test_a_task_table_that_says_what_only_a_task_says_is_one() -> None:
    assert looks_like_a_task_file(b'\xef\xbb\xbf[task]\ntitle = "x"\nkind = "call"\nruns = 3\n')
