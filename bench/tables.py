"""The gap table of 100 cells x 200 cases from a store on disk: reading, computing and printing.

    python bench/tables.py [--cells 100] [--cases 200] [--runs 1]

The store is made first, in a temporary directory; the page cache is warm.  The times are of one process that has imported
what it needs, and of the whole command.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from pytest_battery import FakeModel
from pytest_battery.doing.choosing import Choice, permutations_of
from pytest_battery.doing.garbage import no_garbage_collection
from pytest_battery.doing.planning import Models
from pytest_battery.doing.preparing import prepare
from pytest_battery.doing.tabling import tabled
from pytest_battery.edges.store import Store
from pytest_battery.edges.store.writing import record_bytes
from pytest_battery.saying.gaps import gap_table
from pytest_battery.saying.rendering.text import render
from pytest_battery.scoring.registry import Registry
from pytest_battery.values.records import Environment, Record, ScorerSeen, StackSeen, SubjectSeen
from pytest_battery.values.usage import Cost

TASK = """\
[task]
title = "Say the word"
kind = "call"
runs = {runs}
timeout = 60
cases = "cases.jsonl"
subjects = [{subjects}]
prompt = {{ text = "say:{{{{ case.word }}}}" }}

[scorer]
use = "matchers"
equals = "{{{{ case.word }}}}"

[metrics.correct]
better = "higher"
"""
CONFTEST = """\
from pytest_battery import FakeModel

def pytest_battery_models():
    return {"fake": FakeModel(lambda request: "x")}
"""


def project(root: Path, cells: int, cases: int, runs: int) -> None:
    benchmarks = root / "benchmarks"
    benchmarks.mkdir()
    subjects = ", ".join(f'"fake/m{number:03d}"' for number in range(cells))
    (root / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (benchmarks / "words.toml").write_text(TASK.format(runs=runs, subjects=subjects), encoding="utf-8")
    lines = [f'{{"id": "c{number:03d}", "word": "w{number}"}}\n' for number in range(cases)]
    (benchmarks / "cases.jsonl").write_text("".join(lines), encoding="utf-8")


def fill(root: Path) -> int:
    """Write a record for every run, as a session would have left them; how many there are."""
    prepared = prepare(root / "benchmarks" / "words.toml", root, Registry())
    store, models = Store(root / "store"), Models({"fake": FakeModel(lambda request: "x")})
    random = np.random.default_rng(1)
    written = 0
    for permutation in permutations_of(prepared.task, Choice()):
        asked = prepared.asked[permutation.case.id]
        for lane in permutation.lanes():
            subject = permutation.subject
            record = Record(
                task=permutation.task,
                case=permutation.case.id,
                run=lane.run,
                subject=SubjectSeen(key=subject.key, ref=subject.ref, level=None, knobs={}),
                stack=StackSeen(key="none"),
                fingerprint=models.fingerprint(prepared, permutation),
                scorer=ScorerSeen(name="matchers", sha=asked.scorer),
                measured_at=datetime(2026, 12, 1, tzinfo=UTC),
                wall_ms=500,
                cost=Cost(usd=0.0),
                stop_reason="stop",
                reply="x" * 60,
                metrics={"correct": bool(random.random() < 0.75)},
                state="valid",
                environment=Environment(plugin="0", python="3.11"),
            )
            path = store.path(lane)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(record_bytes(record.model_dump(mode="json", by_alias=True)))
            written += 1
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=100)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        project(root, options.cells, options.cases, options.runs)
        written = fill(root)
        parts: dict[str, list[float]] = {"read": [], "compute": [], "print": [], "whole command": []}
        for _ in range(options.repeats):
            prepared = prepare(root / "benchmarks" / "words.toml", root, Registry())
            models = Models({"fake": FakeModel(lambda request: "x")})
            start = time.perf_counter()
            with no_garbage_collection():  # as a session does
                result = tabled(Store(root / "store"), models, [prepared], Choice())
                read = time.perf_counter()
                table = gap_table(result.tasks)
                computed = time.perf_counter()
                lines = render(table, width=100)
                printed = time.perf_counter()
            assert len(lines) > options.cells
            parts["read"].append(read - start)
            parts["compute"].append(computed - read)
            parts["print"].append(printed - computed)
            start = time.perf_counter()
            command = [sys.executable, "-c", "from pytest_battery.cli import main; main()", "summarise", "benchmarks"]
            quiet = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": ""}
            subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL, env=quiet)
            parts["whole command"].append(time.perf_counter() - start)
    print(f"{options.cells} cells x {options.cases} cases x {options.runs} runs: {written} records\n")
    print("| what | median s | range |")
    print("| --- | ---: | ---: |")
    for name, seconds in parts.items():
        print(f"| {name} | {statistics.median(seconds):.2f} | {min(seconds):.2f}-{max(seconds):.2f} |")
    table_from_disk = statistics.median(map(sum, zip(parts["read"], parts["compute"], parts["print"], strict=True)))
    print(f"| **table from disk** (read, compute, print) | {table_from_disk:.2f} | |")


if __name__ == "__main__":
    main()
