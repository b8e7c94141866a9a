"""A task in a project of its own, a model made of a function, and what is measured with them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from pytest_battery import FakeModel, Record
from pytest_battery.doing.asking import Asker
from pytest_battery.doing.measuring import LaneResult, Measuring
from pytest_battery.doing.planning import Decision, Models, decide_all
from pytest_battery.doing.preparing import Prepared, prepare
from pytest_battery.edges.store import Store
from pytest_battery.scoring import Registry
from pytest_battery.values.permutations import Cell, Lane, Permutation
from pytest_battery.values.subjects import parse_subject

TASK = """\
[task]
title = "Say it"
kind = "call"
runs = 2
timeout = 60
prompt = { text = "Say {{ case.word }}." }

[scorer]
use = "matchers"
contains = "{{ case.expected }}"

[metrics.correct]
better = "higher"

[[case]]
id = "a"
word = "yes"
expected = "yes"
"""


class Bench:
    """``calls`` are the requests that reached the model, whoever made it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = Store(root / "store")
        self.scorers: dict[str, Any] = {}
        self.calls: list[Any] = []
        self.identity: dict[str, Any] = {}

    def prepared(self, edits: Mapping[str, str] | None = None, more: str = "") -> Prepared:
        text = TASK
        for old, new in (edits or {}).items():
            assert old in text, old
            text = text.replace(old, new)
        (self.root / "t.toml").write_text(text + more)
        return prepare(self.root / "t.toml", self.root, Registry(self.scorers))

    @staticmethod
    def permutation(prepared: Prepared, subject: str = "fake/m", runs: int = 1, case: str = "a") -> Permutation:
        (found,) = [found for found in prepared.task.cases if found.id == case]
        return Permutation(Cell(prepared.task.name, parse_subject(subject)), found, runs)

    def models(self, handler: Callable[[Any], Any] = lambda request: "yes") -> Models:
        def counted(request: Any) -> Any:
            self.calls.append(request)
            return handler(request)

        return Models({"fake": FakeModel(counted, identity=self.identity)})

    def decide(self, prepared: Prepared, permutation: Permutation, **more: Any) -> tuple[Decision, ...]:
        return decide_all(self.store, self.models(), prepared, permutation, **more)

    def measuring(self, handler: Callable[[Any], Any] = lambda request: "yes", jobs: int = 4) -> Measuring:
        return Measuring(self.store, self.models(handler), jobs=jobs)

    def measure(
        self,
        prepared: Prepared,
        handler: Callable[[Any], Any] = lambda request: "yes",
        *,
        subject: str = "fake/m",
        runs: int = 1,
        decisions: Sequence[Decision] | None = None,
        asker: Asker | None = None,
    ) -> tuple[LaneResult, ...]:
        """What becomes of a permutation, asked for as a session does."""
        permutation = self.permutation(prepared, subject, runs)
        measuring = self.measuring(handler)

        async def run() -> tuple[LaneResult, ...]:
            try:
                with anyio.fail_after(60):
                    return await measuring.permutation(prepared, decisions or self.decide(prepared, permutation), asker)
            finally:
                await measuring.aclose()

        return anyio.run(run)

    def one(self, prepared: Prepared, handler: Callable[[Any], Any] = lambda request: "yes", **more: Any) -> Record:
        """The record of the one run."""
        (result,) = self.measure(prepared, handler, **more)
        return result.record

    def stored(self, prepared: Prepared, subject: str = "fake/m", run: int = 1) -> Any:
        return self.store.read_lane(Lane(self.permutation(prepared, subject, run), run))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def run() -> Callable[[Callable[[], Awaitable[Any]]], Any]:
    """Run a coroutine function to its end, for a minute at most."""

    def run(main: Callable[[], Awaitable[Any]]) -> Any:
        async def bounded() -> Any:
            with anyio.fail_after(60):
                return await main()

        return anyio.run(bounded)

    return run
