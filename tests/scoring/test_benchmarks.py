"""The project's own tasks can be graded: every case passes the check, the right reply is right and a wrong one is not."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from pytest_battery.errors import ScoringError
from pytest_battery.scoring import Registry, View, check_contract
from pytest_battery.values.cases import Case
from pytest_battery.values.tasks import Metric, ScorerChoice

ROOT = Path(__file__).parents[2]
TASKS = sorted((ROOT / "benchmarks").glob("*.toml"))
QUICK_CALLS = range(100, 201)


def cases_of(document: dict, directory: Path) -> list[Case]:
    lines = (directory / document["task"]["cases"]).read_text(encoding="utf-8").splitlines()
    return [Case(fields.pop("id"), fields) for fields in map(json.loads, lines)]


def replies_with(value: str, document: dict) -> list[str]:
    """The value as replies of this task give it: as JSON where that is asked for, else bare and in a sentence."""
    schema = document["task"].get("output", {}).get("json_schema")
    if schema is None:
        return [value, f" {value}\n", f"`{value}`"]
    field = json.loads((ROOT / "benchmarks" / schema).read_text(encoding="utf-8"))["required"][0]
    return [json.dumps({field: value}), f"```json\n{json.dumps({field: value})}\n```"]


@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
def test_every_case_can_be_graded(path: Path):
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    options = dict(document["scorer"])
    registry = Registry().with_project(ROOT / "scorers")
    scorer = registry.make(ScorerChoice(options.pop("use"), options), path.parent)
    metrics = [Metric(name, table["better"]) for name, table in document["metrics"].items()]
    cases = cases_of(document, path.parent)
    assert len({case.id for case in cases}) == len(cases) >= 24
    for case in cases:
        scorer.check(case)
        wrong = next(other["expect"] for other in cases if other["expect"] != case["expect"])
        for value, correct in ((case["expect"], True), (wrong, False)):
            for reply in [*replies_with(value, document), *([] if correct else [""])]:
                score = scorer.score(case, View(reply, "stop", path.parent))
                assert check_contract(score, metrics)["correct"] is correct, (case.id, reply)


def test_the_quick_set_stays_quick():
    calls = 0
    for path in TASKS:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        task = document["task"]
        if "quick" in task.get("tags", []):
            calls += len(cases_of(document, path.parent)) * task["runs"] * len(task["subjects"])
    assert calls in QUICK_CALLS


def test_first_of_shape():
    scorer = Registry().with_project(ROOT / "scorers").make(ScorerChoice("first_of_shape"), ROOT)
    case = Case("x1", {"shape": "[A-Z]-[0-9]{4}", "expect": "B-2047"})

    def metrics(text: str) -> dict[str, bool | int | float]:
        return dict(scorer.score(case, View(text, "stop", ROOT)).metrics)

    assert metrics("B-2047, not A-3391 or A-3391") == {"correct": True, "others": 1}
    assert metrics("A-3391 or B-2047") == {"correct": False, "others": 1}
    assert metrics("none") == {"correct": False}
    with pytest.raises(ScoringError, match="does not have the shape"):
        scorer.check(Case("x2", {"shape": "[0-9]+", "expect": "B-2047"}))
