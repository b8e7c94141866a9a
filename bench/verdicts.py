"""The verdict engine against scipy.stats.bootstrap, on the same data, in one process.

    OMP_NUM_THREADS=1 python bench/verdicts.py [--gaps 1000] [--repeats 5] [--sample 50]

1,000 gaps of 40 cases x 5 runs, 10,000 draws each, once as pass rates and once as medians of a skewed number.  Ours starts
from the runs as records hold them and ends with estimate, interval, p and verdict.  scipy is given the cases' gaps, already
made, and returns an interval: less work.  A call a gap runs on the first gaps only, and its time is scaled; the table says
on how many.  Every repetition times each form once, and a ratio is of the two times in one repetition, so that a busy
minute is in both.  The seconds are of the process's CPU, all threads.  scipy is no dependency of the package: pip install
scipy, beside it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from pytest_battery.saying.comparing import Comparison, compare
from pytest_battery.saying.verdicts import Gap

try:
    import scipy  # type: ignore[import-untyped]
    from scipy.stats import bootstrap  # type: ignore[import-untyped]
except ImportError:
    sys.exit("bench/verdicts.py compares with scipy, which is not here: pip install scipy")

CASES, RUNS, DRAWS = 40, 5, 10_000
AT_ONCE = 100  # draws of all gaps that scipy holds at once: with fewer or more it is slower
Array = np.ndarray[Any, Any]


def sides(kind: str, gaps: int, seed: int = 1) -> tuple[Array, Array]:
    """(gaps, cases, runs) of the candidate and of the reference."""
    random = np.random.default_rng(seed)
    shape = (gaps, CASES, RUNS)
    if kind == "rate":
        return random.random(shape) < 0.75, random.random(shape) < 0.8
    return random.lognormal(0.1, 1.0, shape), random.lognormal(0.0, 1.0, shape)


def comparisons(kind: str, candidate: Array, reference: Array) -> list[Comparison]:
    names = [f"c{number:02d}" for number in range(CASES)]
    return [
        Comparison(
            "rate" if kind == "rate" else "number",
            dict(zip(names, map(tuple, mine.tolist()), strict=True)),
            dict(zip(names, map(tuple, other.tolist()), strict=True)),
        )
        for mine, other in zip(candidate, reference, strict=True)
    ]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def one_by_one(gaps: Array, statistic: Callable[..., Any], method: str) -> list[tuple[float, float]]:
    found = []
    for row in gaps:
        ends = bootstrap(
            (row,), statistic, n_resamples=DRAWS, method=method, vectorized=True, rng=np.random.default_rng(2)
        ).confidence_interval
        found.append((float(ends.low), float(ends.high)))
    return found


def batched(gaps: Array, statistic: Callable[..., Any], method: str, at_once: int) -> list[tuple[float, float]]:
    ends = bootstrap(
        (gaps,),
        statistic,
        axis=1,
        n_resamples=DRAWS,
        batch=at_once,
        method=method,
        vectorized=True,
        rng=np.random.default_rng(2),
    ).confidence_interval
    return list(zip(ends.low.tolist(), ends.high.tolist(), strict=True))


def measured(kind: str, gaps: int, sample: int, repeats: int) -> None:
    """Print the lines of one kind of gap."""
    centre = np.mean if kind == "rate" else np.median
    candidate, reference = sides(kind, gaps)
    per_case = centre(candidate, axis=2) - centre(reference, axis=2)
    work = comparisons(kind, candidate, reference)
    part = per_case[:sample]
    forms: list[tuple[str, int, Callable[[], Any]]] = [
        ("pytest-battery: estimate, interval, p, verdict", gaps, partial(compare, work)),
        ("scipy, a call a gap (BCa, its default)", len(part), partial(one_by_one, part, centre, "BCa")),
        ("scipy, a call a gap (percentile)", len(part), partial(one_by_one, part, centre, "percentile")),
        ("scipy, all in one call (BCa)", gaps, partial(batched, per_case, centre, "BCa", AT_ONCE)),
        ("scipy, all in one call (percentile)", gaps, partial(batched, per_case, centre, "percentile", AT_ONCE)),
    ]
    # What a first call of either loads or caches is in no time below.
    compare(work[:2])
    one_by_one(part[:2], centre, "BCa")
    seconds: dict[str, list[float]] = {name: [] for name, _, _ in forms}
    answers: dict[str, Any] = {}
    for _ in range(repeats):
        for name, run, form in forms:
            taken, answers[name] = timed(form)
            seconds[name].append(taken * gaps / run)
    ours = seconds[forms[0][0]]
    for name, run, _ in forms:
        ratios = [theirs / own for theirs, own in zip(seconds[name], ours, strict=True)]
        ratio = "" if seconds[name] is ours else said(ratios, 1)
        print(f"| {kind} | {name} | {run} | {said(seconds[name], 2)} | {ratio} |")
    found, ends = answers[forms[0][0]], answers[forms[-1][0]]
    print(f"\n{kind}: {agreement(found, per_case, centre, ends)}\n", flush=True)


def said(values: Sequence[float], places: int) -> str:
    return f"{statistics.median(values):.{places}f} ({min(values):.{places}f}-{max(values):.{places}f})"


def agreement(gaps: Sequence[Gap], per_case: Array, statistic: Any, ends: Sequence[tuple[float, float]]) -> str:
    """The same answer: the statistic itself, and the ends, which are other intervals of the same thing."""
    apart = max(abs(gap.estimate - float(statistic(row))) for gap, row in zip(gaps, per_case, strict=True))
    far = [
        max(abs(gap.lo - low), abs(gap.hi - high)) / (gap.hi - gap.lo)
        for gap, (low, high) in zip(gaps, ends, strict=True)
    ]
    return (
        f"estimates differ by at most {apart:.0e}; an end differs from scipy's percentile one by {max(far):.0%} of the "
        f"interval's width at most, {statistics.median(far):.1%} in the median"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gaps", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sample", type=int, default=50, help="how many gaps scipy is called for one by one")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*BCa.*")  # cases that do not vary have no such interval
    threads = os.environ.get("OMP_NUM_THREADS", f"not set, {os.cpu_count()} processors")
    print(
        f"numpy {np.__version__}, scipy {scipy.__version__}, {options.gaps} gaps x {DRAWS} draws x {CASES} cases x "
        f"{RUNS} runs, OMP_NUM_THREADS {threads}; median (range) of {options.repeats}\n"
    )
    print("| kind | engine | gaps run | CPU s for all | ours is faster by, x |")
    print("| --- | --- | ---: | ---: | ---: |")
    for kind in ("rate", "median"):
        measured(kind, options.gaps, options.sample, options.repeats)


if __name__ == "__main__":
    main()
