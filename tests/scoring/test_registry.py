from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_battery.errors import ScoringError
from pytest_battery.scoring import Registry, Score, View
from pytest_battery.scoring.matchers import Matchers
from pytest_battery.values.cases import Case
from pytest_battery.values.tasks import ScorerChoice

CASE = Case("c1", {"expect": "one"})


def plain(case: Case, view: View) -> dict[str, bool]:
    return {"correct": view.text == case["expect"]}


def made(directory: Path, source: str, name: str = "mine", **options: Any) -> Any:
    (directory / f"{name}.py").write_text(source, encoding="utf-8")
    return Registry().with_project(directory).make(ScorerChoice(name, options), directory)


def score(scorer: Any, text: str = "one") -> Score:
    found: Score = scorer.score(CASE, View(text, "stop", Path()))
    return found


def test_built_in_and_given_names():
    registry = Registry({"plain": plain, "again": Matchers})
    assert registry.names == ("again", "labels", "matchers", "plain")
    assert score(registry.make(ScorerChoice("plain"), Path())).metrics == {"correct": True}
    assert score(registry.make(ScorerChoice("again", {"equals": "one"}), Path())).metrics["correct"]


def test_unknown_name():
    with pytest.raises(
        ScoringError, match=r"no scorer 'matcher' \(did you mean 'matchers'\?\); the scorers are labels, matchers"
    ):
        Registry().make(ScorerChoice("matcher"), Path())


def test_taken_names():
    with pytest.raises(ScoringError, match="pytest_battery_scorers: there already is a scorer 'matchers'"):
        Registry({"matchers": plain})


def test_a_clash_names_the_file(tmp_path: Path):
    (tmp_path / "matchers.py").write_text("def score(case, view): return {}", encoding="utf-8")
    with pytest.raises(ScoringError, match=r"matchers\.py: there already is"):
        Registry().with_project(tmp_path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda options, directory: 3, "factory returned a int"),
        (lambda options, directory: options["x"], "cannot be made: .*KeyError: 'x'"),
    ],
)
def test_factories_that_make_no_scorer(given: Any, message: str):
    with pytest.raises(ScoringError, match=message):
        Registry({"odd": given}).make(ScorerChoice("odd"), Path())


def test_what_cannot_be_called_is_refused():
    with pytest.raises(ScoringError, match="gives 3 as 'odd'"):
        Registry({"odd": 3})  # type: ignore[dict-item]


def test_a_plain_function_has_no_options_and_its_file_as_identity():
    registry = Registry({"plain": plain})
    with pytest.raises(ScoringError, match="has no option 'x'; a plain score function has none"):
        registry.make(ScorerChoice("plain", {"x": 1}), Path())
    assert "test_registry.plain" in registry.make(ScorerChoice("plain"), Path()).identity()["source"]


def test_a_project_scorer_leaves_the_interpreter_as_it_was(tmp_path: Path):
    path, directory = list(sys.path), os.getcwd()
    scorer = made(tmp_path, "def score(case, view):\n    return {'correct': view.text == case['expect']}\n")
    assert score(scorer).metrics == {"correct": True}
    assert (sys.path, os.getcwd()) == (path, directory)
    assert "mine" not in sys.modules
    assert not (tmp_path / "__pycache__").exists()


def test_options_and_defaults(tmp_path: Path):
    source = "OPTIONS = {'unit': 'm'}\ndef score(case, view): return {view.options['unit']: 1}"
    assert score(made(tmp_path, source)).metrics == {"m": 1}
    assert score(made(tmp_path, source, unit="km")).metrics == {"km": 1}
    with pytest.raises(ScoringError, match=r"no option 'unti' \(did you mean 'unit'\?\); its options are unit"):
        made(tmp_path, source, unti="km")
    with pytest.raises(ScoringError, match="'unit' is nan, which has no JSON form"):
        made(tmp_path, source, unit=float("nan"))
    names = "OPTIONS = {'unit'}\ndef score(case, view): return dict(n=len(view.options))"
    assert score(made(tmp_path, names)).metrics == {"n": 0}
    with pytest.raises(ScoringError, match="OPTIONS is 3"):
        made(tmp_path, "OPTIONS = 3\ndef score(case, view): return {}")
    with pytest.raises(ScoringError, match=r"mine\.py declares no OPTIONS"):
        made(tmp_path, "def score(case, view): return {}", unit="km")


def test_check_and_aggregate_are_optional(tmp_path: Path):
    source = "def score(case, view): return {}\n"
    made(tmp_path, source).check(CASE)
    assert made(tmp_path, source).aggregate is None
    scorer = made(
        tmp_path, source + "def check(case, options):\n    case['shape']\ndef aggregate(records): return {'n': 3}"
    )
    with pytest.raises(ScoringError, match=r"scorer 'mine': .*mine\.py:3: KeyError: 'shape'"):
        scorer.check(CASE)
    assert scorer.aggregate([]) == {"n": 3}


def test_a_score_passes_as_it_is(tmp_path: Path):
    source = (
        "from pytest_battery.scoring import Score\n"
        "def score(case, view): return Score({}, {'correct': 'x'}, {'correct': 'y'})"
    )
    assert score(made(tmp_path, source)) == Score({}, {"correct": "x"}, {"correct": "y"})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1", r"mine\.py: a scorer needs a function score"),
        ("score = 3", r"mine\.py: score is 3; it must be a function"),
        ("check = 3\ndef score(case, view): return {}", r"mine\.py: check is 3"),
        ("1 / 0", r"mine\.py cannot be imported as a scorer: .*mine\.py:1: ZeroDivisionError"),
        ("def score(:", r"mine\.py cannot be imported as a scorer: .*mine\.py:1: SyntaxError"),
        ("import sys\nsys.exit(1)", r"mine\.py:2: SystemExit: 1"),
        ("import no_such_module_anywhere", r"mine\.py:1: ModuleNotFoundError"),
    ],
)
def test_files_that_are_no_scorers(tmp_path: Path, source: str, message: str):
    with pytest.raises(ScoringError, match=message):
        made(tmp_path, source)


def test_a_broken_file_hurts_only_those_who_use_it(tmp_path: Path):
    (tmp_path / "broken.py").write_text("1 / 0", encoding="utf-8")
    assert score(made(tmp_path, "def score(case, view): return {'a': 1}")).metrics == {"a": 1}


def test_a_scorer_that_raises_names_its_own_line(tmp_path: Path):
    scorer = made(tmp_path, "import json\ndef score(case, view):\n    return json.loads('{')\n")
    with pytest.raises(ScoringError, match=r"scorer 'mine': .*mine\.py:3: JSONDecodeError: Expecting"):
        score(scorer)


@pytest.mark.parametrize("value", ["True", "None", "[1]", "'x'"])
def test_a_scorer_that_returns_something_else(tmp_path: Path, value: str):
    with pytest.raises(ScoringError, match="return a dict of metrics, or a Score"):
        score(made(tmp_path, f"def score(case, view): return {value}"))


def test_shared_files_are_imported_and_are_part_of_the_identity(tmp_path: Path):
    shared = tmp_path / "_words.py"
    shared.write_text("WORD = 'a'", encoding="utf-8")
    source = "from ._words import WORD\ndef score(case, view): return {WORD: 1}"
    first = made(tmp_path, source)
    shared.write_text("WORD = 'b'", encoding="utf-8")
    second = made(tmp_path, source)
    assert (score(first).metrics, score(second).metrics) == ({"a": 1}, {"b": 1})
    assert first.identity() != second.identity()
    assert Registry().with_project(tmp_path).names == ("labels", "matchers", "mine")


def test_identity_is_content_not_place(tmp_path: Path):
    source = "def score(case, view):\n    return {}\n"
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = made(tmp_path / "a", source).identity()
    (tmp_path / "b" / "mine.py").write_bytes(source.replace("\n", "\r\n").encode())
    two: Mapping[str, Any] = Registry().with_project(tmp_path / "b").make(ScorerChoice("mine"), tmp_path).identity()
    assert one == two
    assert made(tmp_path / "a", source + "# changed\n").identity() != one


def test_dataclasses_work_in_a_scorer(tmp_path: Path):
    source = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Found:\n    n: int\ndef score(case, view): return {'n': Found(2).n}"
    )
    assert score(made(tmp_path, source)).metrics == {"n": 2}


def test_no_directory_no_scorers(tmp_path: Path):
    assert Registry().with_project(tmp_path / "none").names == ("labels", "matchers")
