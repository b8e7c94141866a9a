"""One run: ask, score, write it down."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import anyio
import anyio.to_thread

from pytest_battery import __version__
from pytest_battery.doing.planning import Decision, Models, decide
from pytest_battery.doing.preparing import Prepared
from pytest_battery.doing.recording import Artifact, RecordingModel
from pytest_battery.edges.store import Evidence, LaneLocks, Store
from pytest_battery.errors import CallError, ContractError, ScoringError
from pytest_battery.scoring.contract import check_contract
from pytest_battery.scoring.scorers import Score, View
from pytest_battery.values.calls import Reply, Request
from pytest_battery.values.names import shortest_number
from pytest_battery.values.permutations import Lane, Permutation
from pytest_battery.values.records import (
    MAX_REPLY,
    Environment,
    KnobsSeen,
    Record,
    RunError,
    ScorerSeen,
    StackSeen,
    SubjectSeen,
)
from pytest_battery.values.usage import Cost, Usage

__all__ = ["Asker", "LaneResult", "Measuring"]

How = Literal["kept", "re-scored", "measured"]
Asker = Callable[[RecordingModel], Awaitable[str]]
"""What does the asking in a run: handed the recording model, returns the reply the scorer grades."""


@dataclass(frozen=True, slots=True)
class LaneResult:
    """What became of one run.  ``stored`` is False where an older valid record was left standing."""

    record: Record
    how: How
    stored: bool = True


class Measuring:
    """Turns decisions into records.  Lives in one event loop; *jobs* bounds the lanes in flight."""

    def __init__(self, store: Store, models: Models, *, jobs: int) -> None:
        self.store, self.models, self.jobs = store, models, jobs
        self.locks = LaneLocks(store.root)
        self.paid = 0.0
        self.calls = 0
        self._room: anyio.CapacityLimiter | None = None
        self._grading: anyio.CapacityLimiter | None = None

    async def aclose(self) -> None:
        """Let go of locks and providers; whatever happens, all of them."""
        self.locks.close()
        for provider in self.models.providers.values():
            with anyio.CancelScope(shield=True):
                await provider.aclose()

    async def permutation(
        self, prepared: Prepared, decisions: Sequence[Decision], asker: Asker | None = None
    ) -> tuple[LaneResult, ...]:
        """All runs of one permutation, side by side; their results in order."""
        results: dict[int, LaneResult] = {}

        async def one(decision: Decision) -> None:
            results[decision.lane.run] = await self.lane(prepared, decision, asker)

        if len(decisions) == 1:
            await one(decisions[0])
        else:
            try:
                async with anyio.create_task_group() as group:
                    for decision in decisions:
                        group.start_soon(one, decision)
            except BaseExceptionGroup as group_error:
                raise group_error.exceptions[0] from None
        return tuple(results[decision.lane.run] for decision in decisions)

    async def lane(self, prepared: Prepared, decision: Decision, asker: Asker | None = None) -> LaneResult:
        """Do what *decision* says.  Raises `StoreWriteError` where the result can't be kept."""
        if decision.action == "keep":
            assert decision.record is not None
            return LaneResult(decision.record, "kept")
        async with self.locks.holding(str(self.store.path(decision.lane).relative_to(self.store.root))):
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
        asked = prepared.asked[lane.permutation.case.id]
        return decide(lane, found, self.models.fingerprint(prepared, lane.permutation), asked.scorer)

    # -- measuring -------------------------------------------------------------------------------

    async def _measured(self, prepared: Prepared, decision: Decision, asker: Asker | None) -> LaneResult:
        lane = decision.lane
        subject = lane.permutation.subject
        provider = self.models.of(subject)
        model = RecordingModel(provider, subject, prepared.task.output_schema)
        measured_at = datetime.now(UTC)
        reply: str | None = None
        error: RunError | None = None
        wall = 0.0
        try:
            async with provider.slot(subject), self._lanes():
                self.calls += 1
                measured_at, started = datetime.now(UTC), time.monotonic()
                try:
                    with anyio.fail_after(prepared.task.timeout):
                        reply = await self._ask(prepared, lane, model, asker)
                finally:
                    wall = time.monotonic() - started
        except TimeoutError:
            error = RunError(
                kind="timeout", fault="infrastructure", message=f"no reply within {prepared.task.timeout:g} s"
            )
        except CallError as failure:
            error = RunError(kind=failure.kind, fault=failure.fault, message=str(failure))
        except Exception as failure:  # a Python test may raise anything; the run is then no measurement
            if asker is None:
                raise
            error = RunError(kind="test-raised", fault="task", message=f"{type(failure).__name__}: {failure}")
        # From here on there is an answer that was paid for: nothing may cancel its way to the disk.
        with anyio.CancelScope(shield=True):
            self.paid += sum(artifact.reply.cost.usd or 0.0 for artifact in model.artifacts if artifact.reply)
            if error is None:
                error = _unproven(model)
            record = self._record(prepared, lane, model, measured_at, wall, reply, error)
            if error is None and reply is not None:
                record = await self._graded(prepared, record, model.stop_reason, reply)
            evidence = _evidence(record, model, reply)
            record = record.model_copy(update={"evidence": evidence.digest()})
            if record.state == "invalid" and decision.record is not None and decision.record.state == "valid":
                return LaneResult(record, "measured", stored=False)  # a stale answer is worth more than a failure
            await anyio.to_thread.run_sync(self.store.put, lane, record, evidence)
        return LaneResult(record, "measured")

    def _lanes(self) -> anyio.CapacityLimiter:
        if self._room is None:
            self._room = anyio.CapacityLimiter(self.jobs)
        return self._room

    async def _ask(self, prepared: Prepared, lane: Lane, model: RecordingModel, asker: Asker | None) -> str:
        if asker is not None:
            return await asker(model)
        messages = prepared.asked[lane.permutation.case.id].messages
        return (await model.ask(Request(lane.permutation.subject, messages, prepared.task.output_schema))).text

    # -- grading ---------------------------------------------------------------------------------

    async def _rescored(self, prepared: Prepared, decision: Decision) -> LaneResult:
        """Grade the reply at hand once more; no model is called."""
        record = decision.record
        assert record is not None
        assert record.reply is not None
        whole = self.store.whole_reply(decision.lane) if record.reply_cut else record.reply
        with anyio.CancelScope(shield=True):
            record = await self._graded(prepared, record, record.stop_reason or "stop", whole or record.reply)
            await anyio.to_thread.run_sync(self.store.put, decision.lane, record)
        return LaneResult(record, "re-scored")

    async def _graded(self, prepared: Prepared, record: Record, stop_reason: str, reply: str) -> Record:
        if self._grading is None:
            self._grading = anyio.CapacityLimiter(1)  # a person's scorer need not be safe in threads
        score, error = await anyio.to_thread.run_sync(
            self._score, prepared, record, stop_reason, reply, limiter=self._grading
        )
        asked = prepared.asked[record.case]
        return record.model_copy(
            update={
                "scorer": ScorerSeen(name=prepared.scorer.name, sha=asked.scorer),
                "metrics": dict(score.metrics),
                "reasons": dict(score.reasons),
                "unjudged": dict(score.unjudged),
                "state": "invalid" if error else "valid",
                "error": error,
            }
        )

    def _score(self, prepared: Prepared, record: Record, stop_reason: str, reply: str) -> tuple[Score, RunError | None]:
        case = next(case for case in prepared.task.cases if case.id == record.case)
        view = View(text=reply, stop_reason=stop_reason, task_directory=prepared.task.path.parent)
        try:
            score = prepared.scorer.score(case, view)
            metrics = check_contract(score, prepared.task.metrics)
            return Score(metrics, score.reasons, score.unjudged), None
        except ContractError as failure:
            return Score({}), RunError(kind="contract", fault="task", message=str(failure))
        except ScoringError as failure:
            return Score({}), RunError(kind="scorer-failed", fault="task", message=str(failure))

    # -- the record ------------------------------------------------------------------------------

    def _record(
        self,
        prepared: Prepared,
        lane: Lane,
        model: RecordingModel,
        measured_at: datetime,
        wall: float,
        reply: str | None,
        error: RunError | None,
    ) -> Record:
        permutation = lane.permutation
        subject = permutation.subject
        text, cut = _cut(reply)
        replies = [artifact.reply for artifact in model.artifacts if artifact.reply is not None]
        return Record(
            task=permutation.task,
            case=permutation.case.id,
            run=lane.run,
            subject=SubjectSeen(key=subject.key, ref=subject.ref, level=subject.level, knobs=dict(subject.knobs)),
            stack=StackSeen(
                key=permutation.stack.key,
                entries=list(permutation.stack.entries),
                fingerprint=permutation.stack.fingerprint,
            ),
            fingerprint=self.models.fingerprint(prepared, permutation),
            scorer=ScorerSeen(name=prepared.scorer.name, sha=prepared.asked[permutation.case.id].scorer),
            measured_at=measured_at,
            wall_ms=max(0, round(wall * 1000)),
            usage=_sum_usage(replies),
            cost=_sum_cost(model.artifacts),
            stop_reason=model.stop_reason if replies else None,
            turns=len(replies),
            attempts=sum(max(1, len(artifact.reply.attempts) if artifact.reply else 1) for artifact in model.artifacts),
            state="invalid" if error else "valid",
            error=error,
            response_model=replies[-1].model if replies else None,
            knobs=KnobsSeen(
                requested=requested_knobs(permutation), observed=dict(replies[-1].observed) if replies else {}
            ),
            reply=text,
            reply_cut=cut,
            environment=Environment(
                plugin=__version__,
                python=f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}",
                engine=self.models.of(subject).engine(),
                cpu=_cpu_count(),
                memory=_memory(),
                jobs=self.jobs,
            ),
        )


def requested_knobs(permutation: Permutation) -> dict[str, str]:
    subject = permutation.subject
    return {**({"thinking": subject.level} if subject.level else {}), **dict(subject.knobs)}


def _unproven(model: RecordingModel) -> RunError | None:
    """A run whose knobs can't be shown on the wire is no measurement of its subject."""
    if not model.artifacts:
        return RunError(kind="no-call", fault="task", message="the test returned without a call of `model`")
    for artifact in model.artifacts:
        if artifact.reply is None:
            continue
        requested = dict(artifact.request.subject.knobs)
        for name, value in requested.items():
            seen = artifact.reply.observed.get(name)
            if seen is None or _as_text(seen) != value:
                shown = "not on the wire" if seen is None else f"{seen!r} on the wire"
                return RunError(
                    kind="knob-mismatch", fault="us", message=f"{name}={value} was asked for and is {shown}"
                )
    return None


def _as_text(value: Any) -> str:
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return shortest_number(text) or text


def _evidence(record: Record, model: RecordingModel, reply: str | None) -> Evidence:
    knobs: Mapping[str, Any] = {
        "requested": record.knobs.requested,
        "observed": [dict(artifact.reply.observed) if artifact.reply else None for artifact in model.artifacts],
    }
    return Evidence([artifact.as_json() for artifact in model.artifacts], knobs, reply if record.reply_cut else None)


def _cut(reply: str | None) -> tuple[str | None, bool]:
    if reply is None:
        return None, False
    content = reply.encode("utf-8", "surrogatepass")
    if len(content) <= MAX_REPLY:
        return reply, False
    return content[:MAX_REPLY].decode("utf-8", "ignore"), True


def _sum_usage(replies: Sequence[Reply]) -> Usage:
    if not replies:
        return Usage()
    total = replies[0].usage
    for reply in replies[1:]:
        total = total + reply.usage
    return total


def _sum_cost(artifacts: Sequence[Artifact]) -> Cost:
    """The sum over the calls; unknown where one of them is."""
    costs = [artifact.reply.cost for artifact in artifacts if artifact.reply is not None]
    if not costs:
        return Cost(usd=None if artifacts else 0.0, incomplete=bool(artifacts))
    incomplete = len(costs) < len(artifacts) or any(cost.incomplete for cost in costs)
    known = [cost.usd for cost in costs if cost.usd is not None]
    usd = sum(known) if len(known) == len(costs) else None
    return Cost(usd=usd, priced_by=costs[-1].priced_by, price_date=costs[-1].price_date, incomplete=incomplete)


def _cpu_count() -> int | None:
    return os.cpu_count()


def _memory() -> int | None:
    """Bytes of physical memory, where the system says."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
