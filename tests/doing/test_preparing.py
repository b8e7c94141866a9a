"""A task made ready: its identity is made of content, wherever and by whomever it is read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_battery.doing.preparing import Prepared, prepare, prepare_python
from pytest_battery.errors import TaskFileError
from pytest_battery.scoring import Registry
from pytest_battery.values.canonical import digest

FILES = {
    "benchmarks/t.toml": """\
[task]
title = "T"
kind = "call"
runs = 1
timeout = 5
cases = "cases/c.jsonl"
prompt = { file = "p.md" }
system = { text = \"\"\"
You are
brief.\"\"\" }
output = { json_schema = "out.json" }

[scorer]
use = "mine"

[metrics.correct]
better = "higher"
""",
    "benchmarks/cases/c.jsonl": '{"id": "a", "text": "x", "meta": {"k": 1, "l": [2]}}\n{"id": "b", "text": "y", "meta": {"k": 3}}\n',
    "benchmarks/p.md": "Read this:\n{{ case.text }}\n{{ case.meta.k }}\n",
    "benchmarks/out.json": '{"type": "object", "title": "x"}\n',
    "scorers/mine.py": "from ._shared import truth\n\n\ndef score(case, view):\n    return {'correct': truth}\n",
    "scorers/_shared.py": "truth = True\n",
}
SCRIPT = """\
import sys
from pathlib import Path
from pytest_battery.doing.preparing import prepare
from pytest_battery.scoring import Registry
root = Path(sys.argv[1])
prepared = prepare(root / "benchmarks/t.toml", root, Registry().with_project(root / "scorers"))
print([(case, asked.prompt, asked.case, asked.scorer) for case, asked in prepared.asked.items()])
"""


def written(root: Path, change: Callable[[str], str] = str, files: Mapping[str, str] = FILES) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(change(text).encode())
    return root


def prepared(root: Path) -> Prepared:
    return prepare(root / "benchmarks/t.toml", root, Registry().with_project(root / "scorers"))


def test_two_checkouts_have_one_identity(tmp_path: Path) -> None:
    one, two = (prepared(written(tmp_path / name)) for name in ("one", "elsewhere/deeper/two"))
    assert one.asked == two.asked
    assert len({asked.prompt for asked in one.asked.values()}) == 2


def test_a_checkout_with_crlf_has_the_same_identity(tmp_path: Path) -> None:
    one = prepared(written(tmp_path / "lf"))
    two = prepared(written(tmp_path / "crlf", lambda text: text.replace("\n", "\r\n")))
    assert one.asked == two.asked


def test_a_byte_order_mark_before_prompt_cases_and_schema_is_not_in_the_identity(tmp_path: Path) -> None:
    one = prepared(written(tmp_path / "plain"))
    two = prepared(
        written(tmp_path / "marked", lambda text: text if text.startswith(("[", "from", "truth")) else "\ufeff" + text)
    )
    assert one.asked == two.asked


def test_the_order_of_keys_and_cases_is_not_in_the_identity(tmp_path: Path) -> None:
    one = prepared(written(tmp_path / "one"))
    other = {
        **FILES,
        "benchmarks/cases/c.jsonl": '{"meta": {"k": 3}, "text": "y", "id": "b"}\n{"meta": {"l": [2], "k": 1}, "id": "a", "text": "x"}\n',
        "benchmarks/out.json": '{"title": "x", "type": "object"}',
    }
    two = prepared(written(tmp_path / "two", files=other))
    assert two.asked == one.asked
    assert list(two.asked) == ["b", "a"]


def test_identity_does_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    root = written(tmp_path)
    found = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT, root],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    asked = [(case, one.prompt, one.case, one.scorer) for case, one in prepared(root).asked.items()]
    assert found == {f"{asked}\n"}


CHANGES: dict[str, tuple[str, str, str, set[str]]] = {
    "the prompt": ("benchmarks/p.md", "Read", "Mind", {"prompt"}),
    "the system prompt": ("benchmarks/t.toml", "brief", "long", {"prompt"}),
    "the schema": ("benchmarks/out.json", "object", "array", {"prompt"}),
    "a field the prompt reads": ("benchmarks/cases/c.jsonl", '"x"', '"z"', {"prompt", "case", "scorer"}),
    "a part of a field that it reads none of": ("benchmarks/cases/c.jsonl", "[2]", "[3]", {"case", "scorer"}),
    "the scorer": ("scorers/mine.py", "truth}", "not truth}", {"scorer"}),
    "what the scorer imports": ("scorers/_shared.py", "True", "False", {"scorer"}),
    "the metrics promised": ("benchmarks/t.toml", "[metrics.correct]", "[metrics.more]\nbetter = 'lower'\n[metrics.correct]", {"scorer"}),
    "which way is better": ("benchmarks/t.toml", "higher", "lower", set()),
    "title, runs and timeout": ("benchmarks/t.toml", 'title = "T"', 'title = "U"', set()),
}  # fmt: skip


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_is_in_the_part_it_belongs_to(tmp_path: Path, kind: str) -> None:
    file, old, new, parts = CHANGES[kind]
    assert old in FILES[file]
    before = prepared(written(tmp_path / "one")).asked["a"]
    after = prepared(written(tmp_path / "two", files={**FILES, file: FILES[file].replace(old, new)})).asked["a"]
    assert {part for part in ("prompt", "case", "scorer") if getattr(before, part) != getattr(after, part)} == parts


def test_a_template_edit_that_asks_the_same_changes_nothing(tmp_path: Path) -> None:
    before = prepared(written(tmp_path / "one"))
    edited = {
        **FILES,
        "benchmarks/p.md": "{# a comment #}" + FILES["benchmarks/p.md"].replace("{{ case.text }}", "{{case['text']}}"),
    }
    assert prepared(written(tmp_path / "two", files=edited)).asked == before.asked


def test_cases_with_different_inputs_never_share_an_identity(tmp_path: Path) -> None:
    one, two = prepared(written(tmp_path)).asked.values()
    assert one.prompt != two.prompt
    assert one.case != two.case


def test_a_python_test_is_asked_by_its_source_and_the_whole_case(bench: Any) -> None:
    plain = bench.prepared()
    python = prepare_python(plain, "test_it", "digest of the source")
    assert (python.task.name, python.task.kind, python.source) == ("t.test_it", "python", "digest of the source")
    asked = python.asked["a"]
    assert (asked.messages, asked.prompt, asked.scorer) == ((), "digest of the source", plain.asked["a"].scorer)
    assert asked.case == digest({"id": "a", "word": "yes", "expected": "yes"})
    assert plain.task.name == "t"


@pytest.mark.parametrize("function", ["test_\u00e4", "x" * 99])
def test_a_python_test_whose_name_cannot_be_a_directory_is_told(bench: Any, function: str) -> None:
    with pytest.raises(TaskFileError, match="the test's records are stored under 't"):
        prepare_python(bench.prepared(), function, "source")


def test_a_scorer_whose_identity_has_no_json_form_is_told_in_the_one_message(bench: Any) -> None:
    class Odd:
        name = "odd"

        def check(self, case: Any) -> None:
            """Any case will do."""

        def score(self, case: Any, view: Any) -> Any:
            return {"correct": True}

        def identity(self) -> Any:
            return {"at": object()}

    bench.scorers = {"odd": lambda options, directory: Odd()}
    with pytest.raises(TaskFileError) as caught:
        bench.prepared({'use = "matchers"': 'use = "odd"', "Say {{ case.word }}": "{{ case.wrod }}"})
    assert caught.value.faults == (
        "t.toml:8: scorer: scorer 'odd': its identity has no JSON form: object has no JSON form",
        "t.toml:15: case a has no field 'wrod'; it has id, word, expected",
    )


def test_the_fields_a_record_shows_are_not_in_its_identity(bench: Any) -> None:
    one = bench.prepared()
    assert replace(one.task, title="x") != one.task
    assert bench.prepared({'"Say it"': '"x"'}).asked == one.asked
