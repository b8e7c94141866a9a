"""How often the table is wrong: batteries are simulated and put through what users see, `gap_table`, Holm and all.

    python bench/calibration.py [--tables 300] [--workers 2] [--only false,coverage,power,looks,curse,needs]

A battery is a reference and five candidates, with three metrics each: a pass rate, a skewed number (a cost) and small whole
numbers (turns): 15 gaps.  Cases differ in difficulty, runs are repeats of a case.  The simulated runs are records like any
other.  Seeds are fixed per size, so that neither the number of workers nor what else is printed changes a count.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np

from pytest_battery.saying.comparing import Comparison, compare
from pytest_battery.saying.gaps import CellRecords, GapTable, TaskRecords, gap_table
from pytest_battery.saying.needs import needs_of, spread_of
from pytest_battery.values.fingerprints import Fingerprint
from pytest_battery.values.permutations import Cell
from pytest_battery.values.records import Environment, Record, ScorerSeen, StackSeen, SubjectSeen
from pytest_battery.values.subjects import parse_subject
from pytest_battery.values.tasks import Metric

Array = np.ndarray[Any, Any]

SIZES = [
    (1, 1),
    (1, 3),
    (1, 5),
    (3, 3),
    (5, 3),
    (6, 1),
    (8, 1),
    (8, 3),
    (12, 1),
    (12, 3),
    (20, 1),
    (20, 3),
    (20, 5),
    (40, 1),
]
SIZES += [(40, 3), (40, 5)]
METRICS = (Metric("correct", "higher", primary=True), Metric("usd", "lower"), Metric("turns", "lower"))
CANDIDATES = 5
BASE = 1.4  # logit of about 0.8
DIFFICULTY = 1.0  # standard deviation of the cases' logits
SPREAD = 0.6  # of the logarithm of a run's cost
SCALE = 0.8  # of the logarithm of a case's cost


class Random:
    """Uniform and normal numbers from a bit generator whose stream numpy promises to keep."""

    def __init__(self, *seed: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence(list(seed)))

    def uniform(self, *shape: int) -> Array:
        words = np.asarray(self._bits.random_raw(math.prod(shape)), dtype=np.uint64)
        return ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(shape)

    def normal(self, *shape: int) -> Array:
        """Box and Muller's transform (1958)."""
        radius = np.sqrt(-2.0 * np.log(1.0 - self.uniform(*shape)))
        result: Array = radius * np.cos(2.0 * np.pi * self.uniform(*shape))
        return result


@dataclass(frozen=True)
class Truth:
    """What the first candidate differs in: the shift of its logit, and the factor on its costs and turns.

    ``interaction`` is the standard deviation of how its cases differ in that shift.
    """

    shift: float = 0.0
    factor: float = 1.0
    interaction: float = 0.0


NOTHING = Truth()


@dataclass(frozen=True)
class Battery:
    """(cells, cases, runs) of each metric; cell 0 is the reference."""

    correct: Array
    usd: Array
    turns: Array


def simulated(random: Random, cases: int, runs: int, truth: Truth = NOTHING, cells: int = CANDIDATES + 1) -> Battery:
    logit = BASE + DIFFICULTY * random.normal(1, cases, 1)
    shift = np.zeros((cells, 1, 1))
    factor = np.ones((cells, 1, 1))
    shift[1:2], factor[1:2] = truth.shift, truth.factor
    each = np.zeros((cells, cases, 1))
    if truth.interaction:
        each[1:2] = truth.interaction * random.normal(1, cases, 1)
    correct = random.uniform(cells, cases, runs) < 1 / (1 + np.exp(-(logit + shift + each)))
    usd = factor * np.exp(SCALE * random.normal(1, cases, 1) + SPREAD * random.normal(cells, cases, runs))
    turns = np.floor(
        1 + factor * np.exp(1 + 0.4 * random.normal(1, cases, 1) + 0.4 * random.normal(cells, cases, runs))
    )
    return Battery(correct, np.round(usd, 4), turns)


TEMPLATE = Record(
    task="t",
    case="c",
    run=1,
    subject=SubjectSeen(key="fake/m0", ref="fake/m0", level=None, knobs={}),
    stack=StackSeen(key="none"),
    fingerprint=Fingerprint(prompt="p", case="c"),
    scorer=ScorerSeen(name="matchers", sha="s"),
    measured_at=datetime(2026, 12, 1, tzinfo=UTC),
    wall_ms=1,
    state="valid",
    environment=Environment(plugin="0", python="3"),
)


def table_of(battery: Battery) -> GapTable:
    """The table as a session makes it from the records of its runs."""
    cells, cases, runs = battery.correct.shape
    names = tuple(f"c{number:03d}" for number in range(cases))
    correct, usd, turns = battery.correct.tolist(), battery.usd.tolist(), battery.turns.astype(int).tolist()
    found = []
    for cell in range(cells):
        records = {
            name: tuple(
                TEMPLATE.model_copy(
                    update={
                        "case": name,
                        "run": run + 1,
                        "metrics": {
                            "correct": correct[cell][case][run],
                            "usd": usd[cell][case][run],
                            "turns": turns[cell][case][run],
                        },
                    }
                )
                for run in range(runs)
            )
            for case, name in enumerate(names)
        }
        found.append(CellRecords(Cell("t", parse_subject(f"fake/m{cell}")), records, names, runs))
    return gap_table([TaskRecords("t", METRICS, tuple(found), found[0].cell)])


def chances(hits: int, of: int) -> str:
    """A percentage with its Monte Carlo standard error."""
    rate = hits / of
    return f"{100 * rate:.1f} ± {100 * math.sqrt(max(rate * (1 - rate), 1 / of) / of):.1f}"


# -- nothing differs -------------------------------------------------------------------------------


@dataclass(frozen=True)
class FalseStars:
    """Of tables in which nothing differs: starred gaps by metric, tables with any star, and with any that holds."""

    gaps: int
    stars: dict[str, int]
    starred_tables: int
    held_tables: int
    tables: int


def false_stars(size: tuple[int, int], tables: int) -> FalseStars:
    cases, runs = size
    random = Random(1, cases, runs)
    stars = dict.fromkeys((metric.name for metric in METRICS), 0)
    starred = held = gaps = 0
    for _ in range(tables):
        rows = [row for row in table_of(simulated(random, cases, runs)).rows if row.gap is not None]
        found = [row for row in rows if row.gap is not None and row.gap.established]
        for row in found:
            stars[row.metric] += 1
        gaps += len(rows)
        starred += bool(found)
        held += any(row.gap is not None and row.gap.holds for row in found)
    return FalseStars(gaps, stars, starred, held, tables)


def print_false(tables: int, each: Callable[..., Iterator[Any]]) -> None:
    print("\n## Nothing differs: what is starred all the same, in % (± one standard error)\n")
    print("| cases x runs | ☆ rate | ☆ cost | ☆ turns | tables with a ☆ | tables with a ★ |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for (cases, runs), found in zip(SIZES, each(partial(false_stars, tables=tables), SIZES), strict=True):
        of = found.gaps // len(METRICS)
        stars = " | ".join(chances(found.stars[metric.name], of) for metric in METRICS)
        tables_ = f"{chances(found.starred_tables, found.tables)} | {chances(found.held_tables, found.tables)}"
        print(f"| {cases} x {runs} | {stars} | {tables_} |", flush=True)


# -- something differs -----------------------------------------------------------------------------


def true_gaps(truth: Truth, runs: int) -> dict[str, float]:
    """What the estimates estimate, over infinitely many cases of this many runs: from 200,000 simulated ones."""
    battery = simulated(Random(2, runs), 200_000, runs, truth, cells=2)
    usd, turns = (np.median(values, axis=2) for values in (battery.usd, battery.turns))
    return {
        "correct": float(battery.correct[1].mean() - battery.correct[0].mean()),
        "usd": float(np.median(usd[1] - usd[0])),
        "turns": float(np.median(turns[1] - turns[0])),
    }


def found_gaps(
    size: tuple[int, int], truth: Truth, tables: int
) -> dict[str, list[tuple[float, float, float, bool, bool]]]:
    """By metric, of the one candidate that differs: estimate, ends, starred, held."""
    cases, runs = size
    random = Random(3, cases, runs, int(1000 * abs(truth.shift)))
    found: dict[str, list[tuple[float, float, float, bool, bool]]] = {metric.name: [] for metric in METRICS}
    for _ in range(tables):
        for row in table_of(simulated(random, cases, runs, truth)).rows:
            if row.gap is not None and row.cell.subject.model == "m1":
                gap = row.gap
                found[row.metric].append((gap.estimate, gap.lo, gap.hi, gap.established, gap.holds))
    return found


DIFFERS = Truth(shift=-0.9, factor=1.3)
LARGE = [size for size in SIZES if size[0] >= 6]


def print_coverage(tables: int, each: Callable[..., Iterator[Any]]) -> None:
    print("\n## A candidate is worse (logit -0.9, cost and turns x 1.3): intervals that hold the true gap, in %\n")
    print("| cases x runs | true rate gap | rate | true cost gap | cost | turns |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    results = each(partial(found_gaps, truth=DIFFERS, tables=tables), LARGE)
    for (cases, runs), found in zip(LARGE, results, strict=True):
        truth = true_gaps(DIFFERS, runs)
        held = {name: sum(lo <= truth[name] <= hi for _, lo, hi, _, _ in gaps) for name, gaps in found.items()}
        print(
            f"| {cases} x {runs} | {truth['correct']:+.3f} | {chances(held['correct'], tables)} | {truth['usd']:+.2f} | "
            f"{chances(held['usd'], tables)} | {chances(held['turns'], tables)} |",
            flush=True,
        )


POWERS = ((-0.45, 1.15), (-0.9, 1.3), (-1.6, 1.6))


def print_power(tables: int, each: Callable[..., Iterator[Any]]) -> None:
    print("\n## What is found of a candidate that is truly worse: ☆, then ★ among the table's 15 gaps, in %\n")
    print("| cases x runs | true rate gap | rate ☆ | rate ★ | cost x | cost ☆ | cost ★ |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for shift, factor in POWERS:
        truth = Truth(shift, factor)
        for (cases, runs), found in zip(
            LARGE, each(partial(found_gaps, truth=truth, tables=tables), LARGE), strict=True
        ):
            gap = true_gaps(truth, runs)["correct"]
            parts = [
                f"{chances(sum(one[3] for one in found[name]), tables)} | {chances(sum(one[4] for one in found[name]), tables)}"
                for name in ("correct", "usd")
            ]
            print(f"| {cases} x {runs} | {gap:+.3f} | {parts[0]} | {factor:g} | {parts[1]} |", flush=True)


# -- looking again, and believing what was found ---------------------------------------------------


LOOKS = (1, 2, 3, 5, 10)


def first_stars(how: str, batteries: int) -> list[int]:
    """Of gaps that are not there, how many were established at least once by each of `LOOKS`."""
    random = Random(4, len(how))
    seen = [0] * len(LOOKS)
    for _ in range(batteries):
        most = max(LOOKS)
        battery = simulated(random, 20, 5 * most, cells=2).correct
        fired = None
        work = []
        for look in range(most):
            if how == "add 5 runs of each case":
                mine = battery[1][:, : 5 * (look + 1)]
                other = battery[0][:, : 5 * (look + 1)]
            else:  # measure the candidate again, keep the reference
                mine, other = battery[1][:, 5 * look : 5 * look + 5], battery[0][:, :5]
            work.append(Comparison("rate", _sides(mine), _sides(other)))
        for look, gap in enumerate(compare(work), start=1):
            if gap.established:
                fired = look
                break
        for place, looks in enumerate(LOOKS):
            seen[place] += fired is not None and fired <= looks
    return seen


def _sides(values: Array) -> dict[str, tuple[bool, ...]]:
    return {f"c{number:03d}": tuple(row) for number, row in enumerate(values.tolist())}


def print_looks(tables: int, each: Callable[..., Iterator[Any]]) -> None:
    batteries = 4 * tables
    print(
        "\n## Looking again at a gap that is not there (20 cases x 5 runs): established at least once by look k, in %\n"
    )
    print(f"| how | {' | '.join(map(str, LOOKS))} |")
    print(f"| --- |{' ---: |' * len(LOOKS)}")
    ways = ["add 5 runs of each case", "measure the candidate again"]
    for way, seen in zip(ways, each(partial(first_stars, batteries=batteries), ways), strict=True):
        print(f"| {way} | {' | '.join(chances(count, batteries) for count in seen)} |", flush=True)


def print_curse(tables: int, each: Callable[..., Iterator[Any]]) -> None:
    print("\n## What an established gap says of its size (rates): mean |estimate| of the established / true\n")
    print("| cases x runs | true gap | established, % | estimate / true |")
    print("| --- | ---: | ---: | ---: |")
    truth = Truth(shift=-0.6)
    sizes = [(12, 3), (20, 3), (20, 5), (40, 5)]
    for (cases, runs), found in zip(sizes, each(partial(found_gaps, truth=truth, tables=tables), sizes), strict=True):
        gap = true_gaps(truth, runs)["correct"]
        stars = [abs(one[0]) for one in found["correct"] if one[3]]
        ratio = f"{statistics.fmean(stars) / abs(gap):.1f}" if stars else "-"
        print(f"| {cases} x {runs} | {gap:+.3f} | {chances(len(stars), tables)} | {ratio} |", flush=True)


# -- is what was said to be needed enough ----------------------------------------------------------

NEEDED = [(Truth(-0.9), 12, 1), (Truth(-0.9), 20, 3), (Truth(-1.6), 12, 3), (Truth(-0.9, interaction=1.0), 20, 3)]


def needed(plan: tuple[Truth, int, int], tables: int) -> tuple[float, float, float]:
    """A pilot says how many cases a gap of the true size needs; batteries of that size say how often it is established.

    Returns the true gap, the median number of cases said, and the share of established gaps.
    """
    truth, cases, runs = plan
    gap = true_gaps(truth, runs)["correct"]
    random = Random(5, cases, runs, int(1000 * abs(truth.shift)), int(10 * truth.interaction))
    said, hits = [], 0
    for _ in range(tables):
        pilot = simulated(random, cases, runs, truth, cells=2).correct
        comparison = Comparison("rate", _sides(pilot[1]), _sides(pilot[0]))
        spread = spread_of(comparison, compare([comparison])[0])
        if spread is None:
            continue
        wanted = needs_of(spread, abs(gap)).cases
        assert wanted is not None
        said.append(wanted)
        battery = simulated(random, wanted, runs, truth, cells=2).correct
        hits += compare([Comparison("rate", _sides(battery[1]), _sides(battery[0]))])[0].established
    return gap, statistics.median(said), hits / len(said)


def print_needs(tables: int, each: Callable[..., Iterator[Any]]) -> None:
    print(
        "\n## Cases said to be needed for the true gap, and how often batteries of that size established it (80% is meant)\n"
    )
    print("| pilot | interaction | true gap | cases said (median) | established, % |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for (truth, cases, runs), (gap, said, share) in zip(
        NEEDED, each(partial(needed, tables=tables), NEEDED), strict=True
    ):
        print(
            f"| {cases} x {runs} | {truth.interaction:g} | {gap:+.3f} | {said:g} | {chances(round(share * tables), tables)} |"
        )


PARTS: dict[str, Callable[[int, Callable[..., Iterator[Any]]], None]] = {
    "false": print_false,
    "coverage": print_coverage,
    "power": print_power,
    "looks": print_looks,
    "curse": print_curse,
    "needs": print_needs,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default=",".join(PARTS))
    options = parser.parse_args(arguments)
    print(f"{options.tables} tables a size, each of {CANDIDATES} candidates x {len(METRICS)} metrics = 15 gaps")
    with ProcessPoolExecutor(options.workers) as pool:
        for name in options.only.split(","):
            PARTS[name](options.tables, pool.map)


if __name__ == "__main__":
    main()
