"""A project in a directory: files are written, a task file is read as a session would read it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_battery.doing.preparing import Prepared, prepare
from pytest_battery.errors import TaskFileError
from pytest_battery.scoring import Registry

TASK = """\
[task]
title = "Say it"
kind = "call"
runs = 2
timeout = 5
prompt = { text = "{{ case.text }}" }

[scorer]
use = "matchers"
equals = "{{ case.text }}"

[metrics.correct]
better = "higher"

[[case]]
id = "a"
text = "x"
"""


class Project:
    """``task(edits)`` is the text of a sound task file with some of its lines exchanged."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, files: Mapping[str, str | bytes]) -> None:
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    @staticmethod
    def task(edits: Mapping[str, str] | None = None) -> str:
        text = TASK
        for old, new in (edits or {}).items():
            assert old in text, old
            text = text.replace(old, new)
        return text

    def prepare(self, task: str | bytes, files: Mapping[str, str | bytes] | None = None) -> Prepared:
        self.write({**(files or {}), "t.toml": task})
        return prepare(self.root / "t.toml", self.root, Registry())

    def faults(self, task: str | bytes, files: Mapping[str, str | bytes] | None = None) -> list[str]:
        with pytest.raises(TaskFileError) as caught:
            self.prepare(task, files)
        assert str(caught.value) == "\n".join(caught.value.faults)
        assert caught.value.path == self.root / "t.toml"
        return list(caught.value.faults)

    def case_faults(self, name: str, files: Mapping[str, str | bytes]) -> list[str]:
        """What is wrong when the task's cases come from *name*."""
        return self.faults(self.with_cases(name), files)

    def with_cases(self, name: str) -> str:
        inline = self.task().index("\n[[case]]")
        return self.task()[:inline].replace("runs = 2", f'runs = 2\ncases = "{name}"')


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)
