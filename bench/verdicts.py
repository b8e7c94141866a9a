"""The verdict engine against scipy.stats.bootstrap, on the same data, in one process.

    python bench/verdicts.py [--gaps 1000] [--repeats 3]

1,000 gaps of 40 cases x 5 runs, 10,000 draws each, once as pass rates and once as medians of a skewed number.  Ours starts
from the runs as records hold them and ends with estimate, interval, p and verdict.  scipy is given the cases' gaps, already
made, and returns an interval: less work.  Its slow forms run on a part of the gaps, and their time is scaled; the table
says so.  scipy is no dependency of the package: pip install scipy, beside it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pytest_battery.saying.comparing import Comparison, compare
from pytest_battery.saying.verdicts import Gap

CASES, RUNS, DRAWS = 40, 5, 10_000
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


def timed(work: Callable[[], Any], repeats: int) -> tuple[list[float], Any]:
    seconds, result = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
    return seconds, result


def one_by_one(gaps: Array, statistic: Callable[..., Any], method: str) -> list[tuple[float, float]]:
    from scipy.stats import bootstrap

    found = []
    for row in gaps:
        ends = bootstrap(
            (row,), statistic, n_resamples=DRAWS, method=method, vectorized=True, rng=np.random.default_rng(2)
        ).confidence_interval
        found.append((float(ends.low), float(ends.high)))
    return found


def batched(gaps: Array, statistic: Callable[..., Any], method: str, at_once: int) -> list[tuple[float, float]]:
    from scipy.stats import bootstrap

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gaps", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    try:
        import scipy
    except ImportError:
        sys.exit("bench/verdicts.py compares with scipy, which is not here: pip install scipy")
    warnings.filterwarnings("ignore", message=".*BCa.*")  # cases that do not vary have no such interval
    print(f"numpy {np.__version__}, scipy {scipy.__version__}, {options.gaps} gaps, median of {options.repeats}\n")
    print("| kind | engine | gaps run | s for all (scaled) | spread | ours is faster by |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for kind, centre, statistic in (("rate", np.mean, np.mean), ("median", np.median, np.median)):
        candidate, reference = sides(kind, options.gaps)
        per_case = centre(candidate, axis=2) - centre(reference, axis=2)
        work = comparisons(kind, candidate, reference)
        compare(work[:3])
        seconds, gaps = timed(partial(compare, work), options.repeats)
        ours = statistics.median(seconds)
        row(kind, "pytest-battery: estimate, interval, p, verdict", len(work), 1.0, seconds, ours)
        few = min(options.gaps, 100)
        scaled = options.gaps / few
        forms: list[tuple[str, Callable[[], list[tuple[float, float]]]]] = [
            ("scipy, a call a gap (BCa, its default)", partial(one_by_one, per_case[:few], statistic, "BCa")),
            ("scipy, a call a gap (percentile)", partial(one_by_one, per_case[:few], statistic, "percentile")),
            ("scipy, all in one call (BCa)", partial(batched, per_case[:few], statistic, "BCa", 100)),
            ("scipy, all in one call (percentile)", partial(batched, per_case[:few], statistic, "percentile", 100)),
        ]
        for name, form in forms:
            seconds, ends = timed(form, options.repeats)
            row(kind, name, few, scaled, seconds, ours)
        agreement(kind, gaps[:few], per_case[:few], statistic, ends)


def row(kind: str, name: str, run: int, scaled: float, seconds: list[float], ours: float) -> None:
    middle = statistics.median(seconds) * scaled
    spread = f"{min(seconds) * scaled:.2f}-{max(seconds) * scaled:.2f}"
    ratio = "" if name.startswith("pytest") else f"{middle / ours:.1f} x"
    print(f"| {kind} | {name} | {run} | {middle:.2f} | {spread} | {ratio} |", flush=True)


def agreement(kind: str, gaps: list[Gap], per_case: Array, statistic: Any, ends: list[tuple[float, float]]) -> None:
    """The same answer: the statistic itself, and the ends, which are other intervals of the same thing."""
    exact = max(abs(gap.estimate - float(statistic(row))) for gap, row in zip(gaps, per_case, strict=True))
    far = [
        max(abs(gap.lo - low), abs(gap.hi - high)) / (gap.hi - gap.lo)
        for gap, (low, high) in zip(gaps, ends, strict=True)
    ]
    print(
        f"| {kind} | estimates differ by at most {exact:.0e}; ends by {statistics.median(far):.0%} of the width |||||"
    )


if __name__ == "__main__":
    main()
