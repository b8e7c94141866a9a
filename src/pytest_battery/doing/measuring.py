"""One run: ask, score, write it down."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Literal

import anyio
import anyio.lowlevel
import anyio.to_thread

from pytest_battery.doing.artifacts import Artifact
from pytest_battery.doing.asking import Asker, answered
from pytest_battery.doing.errands import errand_of, run_errand, taken_home
from pytest_battery.doing.flushing import Flushing
from pytest_battery.doing.grading import graded
from pytest_battery.doing.planning import Decision, Models, decide, is_whole
from pytest_battery.doing.preparing import Prepared
from pytest_battery.doing.projecting import Projector
from pytest_battery.doing.providing import config_of
from pytest_battery.doing.recording import RecordedCalls, RecordingModel
from pytest_battery.doing.replaying import ReplayingModel, recorded
from pytest_battery.doing.spending import Spending
from pytest_battery.doing.writing_up import Run, evidence_of, record_of, redacted, replies_of, unproven
from pytest_battery.edges.budget import Budget
from pytest_battery.edges.dask_cluster import Cluster, LostWorkerError
from pytest_battery.edges.manifest import Manifest
from pytest_battery.edges.models.client import Provider
from pytest_battery.edges.redaction import Secrets
from pytest_battery.edges.store import LaneLocks, Putting, Store
from pytest_battery.errors import CallError, OverBudgetError, StoppedError, StoreError, StoreWriteError
from pytest_battery.scoring.registry import BOUNDED
from pytest_battery.values.calls import Request
from pytest_battery.values.canonical import digest
from pytest_battery.values.permutations import Lane
from pytest_battery.values.records import Record, RunError, ScorerSeen
from pytest_battery.values.subjects import Subject

if TYPE_CHECKING:
    from pytest_battery.doing.agents import Agents

__all__ = ["LaneResult", "Measuring", "RecordMode"]

GRACE = 1.0
"""Seconds that answers on their way are waited for when a session ends early."""

How = Literal["kept", "re-scored", "measured", "replayed"]
RecordMode = Literal["live", "replay", "none"]
"""``live`` asks and keeps every call; ``replay`` answers from what was kept; ``none`` asks and keeps no call."""


@dataclass(frozen=True, slots=True)
class LaneResult:
    """What became of one run.  ``stored`` is False where an older valid record was left standing."""

    record: Record
    how: How
    stored: bool = True


_Finished = tuple[LaneResult, Putting | None]
"""A result, and what is to be put into the store, if anything is."""


class Measuring:
    """Turns decisions into records.  Lives in one event loop; *jobs* bounds the lanes in flight."""

    def __init__(
        self,
        store: Store,
        models: Models,
        *,
        jobs: int,
        mode: RecordMode = "live",
        secrets: Callable[[], Secrets] = lambda: Secrets({}),
        budget: Callable[[], Budget | None] = lambda: None,
        cluster: Cluster | None = None,
        manifest: Manifest | None = None,
        agents: Callable[[], Agents] | None = None,
    ) -> None:
        """*secrets* are asked for each time something is about to be kept: some become known on the way.  *budget* is
        asked for when the first run is about to begin.  With a *cluster*, its workers ask, with the providers of
        *manifest*.  *agents* are asked for when a task of an agent is about to run.
        """
        self.store, self.models, self.jobs, self.mode = store, models, jobs, mode
        self._secrets = secrets
        self._spending = Spending(budget, Projector(store, models))
        self._cluster, self._manifest, self._agents = cluster, manifest or Manifest(), agents
        self._agent_room: anyio.CapacityLimiter | None = None
        self._agents_used: Agents | None = None
        self._turns: dict[str, anyio.CapacityLimiter] = {}
        self._asking: dict[Lane, float] = {}
        self._stopping = False
        self._quiet: anyio.Event | None = None
        self.locks = LaneLocks(store.root)
        self.paid = 0.0
        self.calls = 0
        self._room: anyio.CapacityLimiter | None = None
        self._disk = Flushing()
        self._scoring: anyio.CapacityLimiter | None = None
        self._unwritable: StoreWriteError | None = None

    async def aclose(self) -> None:
        """Let go of locks and providers; whatever happens, all of them."""
        self.locks.close()
        self._disk.close()
        failures: list[Exception] = []
        if self._cluster is not None:
            await self._cluster.aclose()
        if self._agents_used is not None:
            await self._agents_used.aclose()
        for provider in self.models.providers.values():
            with anyio.CancelScope(shield=True):
                try:
                    await provider.aclose()
                except Exception as failure:
                    failures.append(failure)
        if failures:
            raise failures[0]

    async def drain(self, seconds: float = GRACE) -> None:
        """Begin nothing more, and wait a moment for answers that are on their way: they are paid for."""
        self._stopping = True
        with anyio.move_on_after(seconds):
            while self._asking:
                self._quiet = anyio.Event()
                await self._quiet.wait()

    def longest(self) -> tuple[Lane, float] | None:
        """The run that has been asking for the longest time, and for how many seconds."""
        asking = list(self._asking.items())  # read from another thread, too
        if not asking:
            return None
        lane, since = min(asking, key=lambda item: item[1])
        return lane, time.monotonic() - since

    async def permutation(
        self, prepared: Prepared, decisions: Sequence[Decision], asker: Asker | None = None
    ) -> tuple[LaneResult, ...]:
        """All runs of one permutation, side by side; their results in order.

        Raises `OverBudgetError` where some were not started, once those that were have ended and are kept.
        """
        results: dict[int, LaneResult] = {}
        refused: list[OverBudgetError] = []

        async def one(decision: Decision) -> None:
            try:
                results[decision.lane.run] = await self.lane(prepared, decision, asker)
            except OverBudgetError as error:
                refused.append(error)

        if len(decisions) == 1:
            await one(decisions[0])
        else:
            try:
                async with anyio.create_task_group() as group:
                    for decision in decisions:
                        group.start_soon(one, decision)
            except BaseExceptionGroup as group_error:
                raise group_error.exceptions[0] from None
        if refused:
            raise OverBudgetError(f"{len(refused)} of {len(decisions)} runs not started: {refused[0]}")
        return tuple(results[decision.lane.run] for decision in decisions)

    async def lane(self, prepared: Prepared, decision: Decision, asker: Asker | None = None) -> LaneResult:
        """Do what *decision* says.  Raises `StoreWriteError` where the result can't be kept."""
        if decision.action == "keep":
            assert decision.record is not None
            return LaneResult(decision.record, "kept")
        async with self.locks.holding(self.store.key(decision.lane)):
            decision = await self._looked_at_again(prepared, decision)
            if decision.action == "keep":
                assert decision.record is not None
                return LaneResult(decision.record, "kept")
            if decision.action == "re-score":
                return await self._rescored(prepared, decision)
            return await self._measured(prepared, decision, asker)

    async def _looked_at_again(self, prepared: Prepared, decision: Decision) -> Decision:
        """What another session stored since the decision is not paid for twice."""
        lane = decision.lane
        found = self.store.read_lane(lane)
        if (
            isinstance(found, Record)
            and decision.record is not None
            and found.measured_at == decision.record.measured_at
        ):
            return decision  # nothing happened meanwhile
        return decide(
            lane,
            found,
            self.models.fingerprint(prepared, lane.permutation),
            prepared.asked[lane.permutation.case.id].scorer,
            whole=is_whole(self.store, lane, found),
        )

    # -- measuring -------------------------------------------------------------------------------

    async def _measured(self, prepared: Prepared, decision: Decision, asker: Asker | None) -> LaneResult:
        if self.mode == "replay":
            return await self._replayed(prepared, decision, asker)
        lane = decision.lane
        asker = asker or self._agent(prepared, lane)
        subject = lane.permutation.subject
        provider = self.models.of(subject)
        model = RecordingModel(provider, subject, prepared.task.output_schema)
        measured_at = datetime.now(UTC)
        reply: str | None = None
        error: RunError | None = None
        wall = 0.0
        try:
            turn = provider.slot(subject) if self._cluster is None else self._turn(provider, subject)
            if prepared.task.agent is not None and prepared.task.agent.agent != "loop":
                turn = nullcontext()  # each call through its relay takes one
            async with self._agents_lane(prepared), turn, self._lanes():
                if self._unwritable is not None:
                    raise self._unwritable  # no answer is paid for that could not be kept
                async with self._spending.held(prepared, decision, model):
                    if self._stopping:
                        raise StoppedError("the session is ending")
                    self.calls += 1
                    measured_at, started = datetime.now(UTC), time.monotonic()
                    self._asking[lane] = started
                    try:
                        if self._cluster is None:
                            reply, error = await answered(prepared, lane, model, asker)
                            wall = time.monotonic() - started
                        else:
                            reply, error, wall = await self._sent(self._cluster, prepared, lane, model)
                    finally:
                        wall = wall or time.monotonic() - started
                        del self._asking[lane]
                        if self._quiet is not None and not self._asking:
                            self._quiet.set()
        except CallError as failure:
            error = RunError(kind=failure.kind, fault=failure.fault, message=str(failure))
        # From here on there is an answer that was paid for: nothing may cancel its way to the disk.
        with anyio.CancelScope(shield=True):
            await (
                anyio.lowlevel.checkpoint()
            )  # whoever waited for this place asks first: a model's time is the longer one
            self.paid += sum(artifact.reply.cost.usd or 0.0 for artifact in model.artifacts if artifact.reply)
            if error is None:
                error = unproven(model)
            run = Run(lane, model, measured_at, wall, reply, error)
            record = record_of(run, prepared, self.models, self.jobs)
            result = await self._kept(prepared, partial(self._finished, prepared, decision, record, model, reply))
        return result

    async def _sent(
        self, cluster: Cluster, prepared: Prepared, lane: Lane, model: RecordingModel
    ) -> tuple[str | None, RunError | None, float]:
        """The run, asked by a worker of the cluster; what comes home is written here, as any other."""
        errand = errand_of(prepared, lane, self._manifest)
        claim = f"battery-{digest([errand, lane.run])[:16]}-{uuid.uuid4().hex[:8]}"
        try:
            return taken_home(await cluster.run(run_errand, errand, claim, [lane.permutation.subject.provider]), model)
        except LostWorkerError as lost:
            subject = lane.permutation.subject
            messages = prepared.asked[lane.permutation.case.id].messages
            asked = Request(subject, messages, prepared.task.output_schema)
            model.artifacts.append(Artifact(asked, None, f"lost: {lost}", datetime.now(UTC), 0))
            message = f"the worker that asked was lost ({lost}); what it paid is not known"
            return None, RunError(kind="lost", fault="infrastructure", message=message), 0.0

    async def _replayed(self, prepared: Prepared, decision: Decision, asker: Asker | None) -> LaneResult:
        """The run once more, from its evidence: the same moment, the same cost, whatever asks or grades now.

        A replay that fails leaves the record as it stands.
        """
        lane, old = decision.lane, decision.record
        asker = asker or self._agent(prepared, lane)
        permutation = lane.permutation
        where = f"{permutation.task}::{permutation.id} run {lane.run}"
        model = ReplayingModel((), where, permutation.subject, prepared.task.output_schema)
        try:
            documents = None if old is None else self.store.artifacts(self.store.path(lane), old.evidence)
            if documents and all("relay" in document for document in documents):
                model.recorded = RecordedCalls(config_of(self._manifest, permutation.subject.provider), documents)
            else:
                calls = recorded(documents, where)
                model = ReplayingModel(calls, where, permutation.subject, prepared.task.output_schema)
            reply, error = await answered(prepared, lane, model, asker)
        except CallError as failure:
            reply, error = None, RunError(kind=failure.kind, fault=failure.fault, message=str(failure))
        if error is None:
            error = unproven(model)
        at, wall = (datetime.now(UTC), 0.0) if old is None else (old.measured_at, old.wall_ms / 1000)
        record = record_of(Run(lane, model, at, wall, reply, error), prepared, self.models, self.jobs)
        if old is None or error is not None:
            return LaneResult(record, "replayed", stored=False)
        record = record.model_copy(update={"environment": old.environment})
        with anyio.CancelScope(shield=True):
            finish = partial(self._finished, prepared, decision, record, model, reply, "replayed")
            result = await self._kept(prepared, finish)
        return result

    def _finished(
        self,
        prepared: Prepared,
        decision: Decision,
        record: Record,
        model: RecordingModel,
        reply: str | None,
        how: How = "measured",
    ) -> _Finished:
        """Grade a record that has a reply, and begin to put it into the store."""
        lane = decision.lane
        if record.error is None and reply is not None:
            steps = replies_of(prepared, model)
            record = self._graded(prepared, lane, record, model.stop_reason, reply, steps)
        evidence = None
        secrets = self._secrets()
        record = redacted(record, secrets)
        if self.mode != "none":
            evidence = evidence_of(record, model, reply, secrets)
            record = record.model_copy(update={"evidence": evidence.digest()})
        if not record.gradable and decision.record is not None and decision.record.state == "valid":
            return LaneResult(record, how, stored=False), None  # a stale answer is worth more than a failure
        return LaneResult(record, how), self.store.begin(lane, record, evidence, secrets.holds)

    async def _kept(self, prepared: Prepared, finish: Callable[[], _Finished]) -> LaneResult:
        """Grade and write in the loop, where it costs least; wait for the disk outside of it.

        A person's scorer may take its time, and need not be safe in several threads: it has one thread, after the
        other.
        """
        try:
            if prepared.scorer.name in BOUNDED:
                result, putting = finish()
            else:
                if self._scoring is None:
                    self._scoring = anyio.CapacityLimiter(1)
                result, putting = await anyio.to_thread.run_sync(finish, limiter=self._scoring)
            if putting is not None:
                await self._disk.done(putting)
        except StoreWriteError as error:
            self._unwritable = error
            raise
        return result

    def _turn(self, provider: Provider, subject: Subject) -> AbstractAsyncContextManager[object]:
        """What the hosts of a cluster can't know of each other: how many calls a provider has in flight over all."""
        most = provider.limit(subject)
        if most is None:
            return nullcontext()
        return self._turns.setdefault(subject.provider, anyio.CapacityLimiter(most))

    def _agent(self, prepared: Prepared, lane: Lane) -> Asker | None:
        if prepared.task.agent is None:
            return None
        if self._agents_used is None:
            from pytest_battery.doing.agents import Agents  # git, sandboxes and drivers, where there is an agent

            self._agents_used = Agents() if self._agents is None else self._agents()
        return self._agents_used.asker(prepared, lane)

    def _agents_lane(self, prepared: Prepared) -> AbstractAsyncContextManager[object]:
        """An agent takes a core for its tools: no more of them at once than there are cores."""
        if prepared.task.agent is None:
            return nullcontext()
        if self._agent_room is None:
            self._agent_room = anyio.CapacityLimiter(min(self.jobs, os.cpu_count() or 1))
        return self._agent_room

    def _lanes(self) -> anyio.CapacityLimiter:
        if self._room is None:
            self._room = anyio.CapacityLimiter(self.jobs)
        return self._room

    # -- grading ---------------------------------------------------------------------------------

    async def _rescored(self, prepared: Prepared, decision: Decision) -> LaneResult:
        """Grade the reply at hand once more; no model is called."""
        record = decision.record
        assert record is not None
        whole = self.store.whole_reply(decision.lane, record)
        if whole is None:
            path = self.store.path(decision.lane)
            raise StoreError(f"{path}: the evidence with the whole reply is gone since the plan was made; run again")
        with anyio.CancelScope(shield=True):
            steps = self._steps(prepared, decision.lane, record)
            finish = partial(self._rescored_now, prepared, decision, record, whole, steps)
            result = await self._kept(prepared, finish)
        return result

    def _steps(self, prepared: Prepared, lane: Lane, record: Record) -> Mapping[str, str]:
        """The replies of a task of steps, from the record or, where they are too long for it, from the evidence."""
        if record.steps is not None or not prepared.task.steps:
            return record.steps or {}
        documents = self.store.artifacts(self.store.path(lane), record.evidence) or []
        texts = [document["text"] for document in documents if isinstance(document.get("text"), str)]
        return {step.id: str(text) for step, text in zip(prepared.task.steps, texts, strict=False)}

    def _rescored_now(
        self, prepared: Prepared, decision: Decision, record: Record, reply: str, steps: Mapping[str, str]
    ) -> _Finished:
        record = self._graded(prepared, decision.lane, record, record.stop_reason or "stop", reply, steps)
        return LaneResult(record, "re-scored"), self.store.begin(decision.lane, record)

    def _graded(
        self, prepared: Prepared, lane: Lane, record: Record, stop_reason: str, reply: str, steps: Mapping[str, str]
    ) -> Record:
        score, error = graded(prepared, lane.permutation.case, stop_reason, reply, steps)
        return record.model_copy(
            update={
                "scorer": ScorerSeen(name=prepared.scorer.name, sha=prepared.asked[record.case].scorer),
                "metrics": dict(score.metrics),
                "reasons": dict(score.reasons),
                "unjudged": dict(score.unjudged),
                "state": "invalid" if error else "valid",
                "error": error,
            }
        )
