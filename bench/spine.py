"""What a session costs: calls in flight, collection, a cached session, start-up.

    python bench/spine.py [--runs 5] [--only calls,collect,cached,version]

Every number is of whole pytest processes, medians of the runs with their range; limits are those the project holds
itself to.  Ratios, not seconds, are what can be compared between machines.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

CONFTEST = """\
import anyio
from pytest_battery import FakeModel

LATENCY = {latency}

async def answer(request):
    if LATENCY:
        await anyio.sleep(LATENCY)
    return request.messages[-1].content.rpartition(":")[2]

def pytest_battery_models():
    return {{"fake": FakeModel(answer)}}
"""

TASK = """\
[task]
title = "Say the word"
kind = "call"
runs = 1
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

# Only what a measuring session needs; what else is installed here is not what is measured.
QUIET = [
    option
    for name in (
        "anyio",
        "asyncio",
        "cacheprovider",
        "html",
        "hypothesispytest",
        "metadata",
        "randomly",
        "rerunfailures",
        "timeout",
        "xdist",
    )
    for option in ("-p", f"no:{name}")
]


def project(directory: Path, cases: int, subjects: int, latency: float = 0.0) -> Path:
    """A project of *cases* x *subjects* permutations on a model that answers after *latency* seconds."""
    (directory / "conftest.py").write_text(CONFTEST.format(latency=latency))
    (directory / "pytest.ini").write_text("[pytest]\n")
    named = ", ".join(f'"fake/m{number}"' for number in range(subjects))
    (directory / "echo.toml").write_text(TASK.format(subjects=named))
    lines = (f'{{"id": "c{number:05d}", "word": "w{number}"}}\n' for number in range(cases))
    (directory / "cases.jsonl").write_text("".join(lines))
    return directory


def pytest_run(directory: Path, *arguments: str, status: int = 0) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak MiB of one pytest process."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *QUIET, *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != status:
        raise SystemExit(done.stdout + done.stderr)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, after.ru_maxrss / 1024


def said(values: Sequence[float], unit: str = "s") -> str:
    return f"{statistics.median(values):.2f} {unit} ({min(values):.2f}-{max(values):.2f})"


def floor(runs: int) -> Iterator[tuple[str, str, str]]:
    """What pytest itself costs here for an item that does nothing: the scale for all that follows."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        (path / "test_nothing.py").write_text(
            "import pytest\n\n@pytest.mark.parametrize('n', range(2000))\ndef test_nothing(n):\n    pass\n"
        )
        (path / "test_one.py").write_text("def test_one():\n    pass\n")
        costs = []
        for _ in range(runs):
            many, one = (pytest_run(path, name)[1] for name in ("test_nothing.py", "test_one.py"))
            costs.append((many - one) / 1999 * 1000)
    yield "pytest itself, an item that does nothing, CPU", said(costs, "ms"), "(0.6-0.9 ms where the limits were set)"


def calls(runs: int) -> Iterator[tuple[str, str, str]]:
    count, latency, jobs = 1000, 0.5, 64
    ideal = count * latency / jobs
    walls, memory = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as directory:
            wall, _, peak = pytest_run(project(Path(directory), count, 1, latency), "--jobs", str(jobs))
            walls.append(wall / ideal)
            memory.append(peak)
    yield (
        f"{count} calls of {latency} s at --jobs {jobs}, whole wall / (N x latency / jobs)",
        said(walls, "x"),
        "<= 1.15 x",
    )
    yield "the same, peak memory", said(memory, "MiB"), "<= 100 MiB"
    costs, first = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as directory:
            _, many, _ = pytest_run(project(Path(directory), count, 1), "--jobs", str(jobs))
        with tempfile.TemporaryDirectory() as directory:
            wall, one, _ = pytest_run(project(Path(directory), 1, 1))
        costs.append((many - one) / (count - 1) * 1000)
        first.append(wall)
    yield (
        "CPU a call beyond the first, no latency (FakeModel; an HTTP client comes on top)",
        said(costs, "ms"),
        "<= 2.5 ms",
    )
    yield "a whole session of one call", said(first), "<= 1.0 s to the first request"


def collect(runs: int) -> Iterator[tuple[str, str, str]]:
    with tempfile.TemporaryDirectory() as directory:
        path = project(Path(directory), 1000, 10)
        cpus = [pytest_run(path, "--collect-only", "-q")[1] for _ in range(runs)]
    yield "collecting 10,000 permutations, CPU", said(cpus), "<= 1.5 s"


def cached(runs: int) -> Iterator[tuple[str, str, str]]:
    with tempfile.TemporaryDirectory() as directory:
        path = project(Path(directory), 1000, 2)
        pytest_run(path, "--jobs", "64")
        shown = [pytest_run(path)[0] for _ in range(runs)]
        hidden = [pytest_run(path, "--cached=hide")[0] for _ in range(runs)]
    yield "a fully cached session of 2,000, wall", said(shown), "<= 2 s"
    yield "the same with --cached=hide", said(hidden), ""


def version(runs: int) -> Iterator[tuple[str, str, str]]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        for asked in (["--version"], ["--version", "--version"]):  # the second lists the plugins, and so loads them
            pairs = []
            for _ in range(4 * runs):  # a difference of milliseconds wants more pairs
                with_plugin = pytest_run(path, *asked)[0]
                pairs.append((with_plugin - pytest_run(path, *asked, "-p", "no:battery")[0]) * 1000)
            yield f"pytest {' '.join(asked)}, with the plugin minus without", said(pairs, "ms"), "<= 15 ms"


PARTS: dict[str, Callable[[int], Iterator[tuple[str, str, str]]]] = {
    "floor": floor,
    "calls": calls,
    "collect": collect,
    "cached": cached,
    "version": version,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default=",".join(PARTS))
    options = parser.parse_args()
    print("| what | median (range) | limit |\n| --- | --- | --- |")
    for name in options.only.split(","):
        for what, found, limit in PARTS[name](options.runs):
            print(f"| {what} | {found} | {limit} |", flush=True)


if __name__ == "__main__":
    main()
