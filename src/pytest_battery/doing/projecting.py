"""What measuring will cost, before it does: from what the same cost before, or what the like of it used."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pytest_battery.doing.planning import Decision, Models
from pytest_battery.doing.preparing import Prepared
from pytest_battery.edges.store import Store, Stored
from pytest_battery.errors import ProviderError
from pytest_battery.values.permutations import Permutation
from pytest_battery.values.records import Record
from pytest_battery.values.subjects import Subject
from pytest_battery.values.tasks import Task
from pytest_battery.values.usage import Rates

__all__ = ["Projected", "Projection", "Projector"]


@dataclass(frozen=True, slots=True)
class Projection:
    """USD of one run: at least, probably, at most; and from what that is known."""

    low: float
    likely: float
    high: float
    basis: str


@dataclass(slots=True)
class Projected:
    """The sum over what is to be measured.  ``unpriced`` are subjects without a price, ``unknown`` permutations of which
    nothing tells how much they use."""

    low: float = 0.0
    likely: float = 0.0
    high: float = 0.0
    runs: int = 0
    bases: dict[str, int] = field(default_factory=dict)
    unpriced: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        return not self.unpriced and not self.unknown


class Projector:
    """Asks the store once for each task."""

    def __init__(self, store: Store, models: Models) -> None:
        self._store, self._models = store, models
        self._used: dict[str, dict[str, list[tuple[int, int]]]] = {}

    def total(self, decided: Iterable[tuple[Prepared, Sequence[Decision]]]) -> Projected:
        """Everything that is to be measured."""
        result = Projected()
        for prepared, decisions in decided:
            runs = [decision for decision in decisions if decision.action == "measure"]
            if not runs:
                continue
            permutation = runs[0].lane.permutation
            result.runs += len(runs)
            found = self.of(prepared, permutation, decisions)
            if isinstance(found, str):
                place = result.unpriced if found == "unpriced" else result.unknown
                key = (
                    permutation.subject.key
                    if found == "unpriced"
                    else f"{permutation.task} with {permutation.subject.key}"
                )
                place[key] = place.get(key, 0) + len(runs)
                continue
            result.low += found.low * len(runs)
            result.likely += found.likely * len(runs)
            result.high += found.high * len(runs)
            result.bases[found.basis] = result.bases.get(found.basis, 0) + len(runs)
        return result

    def of(self, prepared: Prepared, permutation: Permutation, decisions: Sequence[Decision]) -> Projection | str:
        """One run of *permutation*; ``"unpriced"`` or ``"unknown"`` where that can't be told.

        From its own records, else from the tokens of the same task and stack on any subject at this subject's rates, else
        from the task's ``expect``.
        """
        costs = [cost for record in _records(decisions) if (cost := record.cost.usd) is not None]
        if costs:
            return Projection(min(costs), statistics.median(costs), max(costs), "its own records")
        rates = self._rates(permutation.subject)
        if rates is None:
            return "unpriced"
        if not rates.input and not rates.output:
            return Projection(0.0, 0.0, 0.0, "free")
        used = self._tokens(permutation.task, permutation.stack.key)
        if used:
            prices = sorted(_usd(tokens, rates) for tokens in used)
            return Projection(prices[0], statistics.median(prices), prices[-1], "the task's other records")
        return _expected(prepared.task, permutation.subject, rates)

    def _rates(self, subject: Subject) -> Rates | None:
        try:
            provider = self._models.of(subject)
        except ProviderError:
            return None
        rates = getattr(provider, "rates", None)
        return None if rates is None else rates(subject)

    def _tokens(self, task: str, stack: str) -> list[tuple[int, int]]:
        if task not in self._used:
            found: dict[str, list[tuple[int, int]]] = {}
            for one in self._store.walk_task(task):
                if isinstance(one, Stored) and (tokens := _tokens_of(one.record)) is not None:
                    found.setdefault(one.record.stack.key, []).append(tokens)
            self._used[task] = found
        return self._used[task].get(stack, [])


def _records(decisions: Sequence[Decision]) -> list[Record]:
    return [decision.record for decision in decisions if decision.record is not None]


def _tokens_of(record: Record) -> tuple[int, int] | None:
    usage = record.usage
    if record.state != "valid" or usage.input is None or usage.output is None:
        return None
    return usage.input + (usage.cache_read or 0) + (usage.cache_write or 0), usage.output


def _usd(tokens: tuple[int, int], rates: Rates) -> float:
    return (tokens[0] * rates.input + tokens[1] * rates.output) / 1e6


def _expected(task: Task, subject: Subject, rates: Rates) -> Projection | str:
    if task.expect is None:
        return "unknown"
    likely = _usd(task.expect, rates)
    most = next((int(value) for name, value in subject.knobs if name == "max_tokens" and value.isdigit()), None)
    high = likely if most is None else max(likely, _usd((task.expect[0], most), rates))
    return Projection(likely, likely, high, "what the task expects")
