"""A run written up: the record of what was asked, answered and paid, and the evidence beside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any

from pytest_battery import __version__
from pytest_battery.doing.artifacts import Artifact, RelayedArtifact, plain
from pytest_battery.doing.planning import Models
from pytest_battery.doing.preparing import Prepared
from pytest_battery.doing.recording import RecordingModel
from pytest_battery.edges.redaction import Secrets
from pytest_battery.edges.store import Evidence
from pytest_battery.values.calls import Reply
from pytest_battery.values.names import shortest_number
from pytest_battery.values.permutations import Lane
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
from pytest_battery.values.subjects import Subject
from pytest_battery.values.usage import Cost, Usage

__all__ = ["Run", "evidence_of", "record_of", "redacted", "replies_of", "unproven"]


@dataclass(frozen=True, slots=True)
class Run:
    """What came of asking: ``wall`` in seconds, ``reply`` None where none came, ``error`` why it is no measurement."""

    lane: Lane
    model: RecordingModel
    measured_at: datetime
    wall: float
    reply: str | None
    error: RunError | None


def record_of(run: Run, prepared: Prepared, models: Models, jobs: int) -> Record:
    """The record of a run, not graded yet; *jobs* is how many may have been in flight with it."""
    permutation, model, reply = run.lane.permutation, run.model, run.reply
    subject = permutation.subject
    text, cut = _cut(reply)
    steps = replies_of(prepared, model) if reply is not None else {}
    if sum(len(one.encode("utf-8", "surrogatepass")) for one in steps.values()) > MAX_REPLY:
        steps, cut = {}, True  # the evidence has them
    replies = [artifact.reply for artifact in model.artifacts if artifact.reply is not None]
    return Record(
        task=permutation.task,
        case=permutation.case.id,
        run=run.lane.run,
        subject=SubjectSeen(key=subject.key, ref=subject.ref, level=subject.level, knobs=dict(subject.knobs)),
        stack=StackSeen(
            key=permutation.stack.key,
            entries=list(permutation.stack.entries),
            fingerprint=permutation.stack.fingerprint,
        ),
        fingerprint=models.fingerprint(prepared, permutation),
        scorer=ScorerSeen(name=prepared.scorer.name, sha=prepared.asked[permutation.case.id].scorer),
        measured_at=run.measured_at,
        wall_ms=max(0, round(run.wall * 1000)),
        usage=_sum_usage(replies),
        cost=_sum_cost(model.artifacts),
        stop_reason=model.stop_reason if replies else None,
        turns=len(replies),
        attempts=sum(max(1, len(artifact.reply.attempts) if artifact.reply else 1) for artifact in model.artifacts),
        state="invalid" if run.error else "valid",
        error=run.error,
        response_model=replies[-1].model if replies else None,
        knobs=KnobsSeen(requested=_requested(subject), observed=plain(replies[-1].observed) if replies else {}),
        reply=text,
        steps=steps or None,
        reply_cut=cut,
        environment=Environment(
            plugin=__version__,
            python=f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}",
            agent=" ".join(filter(None, (permutation.stack.agent, permutation.stack.version))) or None,
            engine=models.of(subject).engine(),
            cpu=_cpu_count(),
            memory=_memory(),
            jobs=jobs,
        ),
    )


def replies_of(prepared: Prepared, model: RecordingModel) -> dict[str, str]:
    """What was answered to each step of a task of steps; nothing for other tasks."""
    replies = [artifact.reply.text for artifact in model.artifacts if artifact.reply is not None]
    return {step.id: text for step, text in zip(prepared.task.steps, replies, strict=False)}


def _requested(subject: Subject) -> dict[str, str]:
    return {**({"thinking": subject.level} if subject.level else {}), **dict(subject.knobs)}


def unproven(model: RecordingModel) -> RunError | None:
    """A run whose knobs can't be shown on the wire is no measurement of its subject."""
    if not model.artifacts:
        return RunError(kind="no-call", fault="task", message="the test returned without a call of `model`")
    if all(artifact.reply is None for artifact in model.artifacts):
        last = model.artifacts[-1].error
        return RunError(kind="no-reply", fault="infrastructure", message=f"no call of `model` was answered: {last}")
    for artifact in model.artifacts:
        if artifact.reply is None:
            continue
        for name, value in _requested(artifact.request.subject).items():
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


def redacted(record: Record, secrets: Secrets) -> Record:
    """The record without credentials: whatever a model or a server said may hold one."""
    changed: dict[str, Any] = {}
    for name in ("reply", "steps", "reasons", "unjudged", "response_model"):
        value = getattr(record, name)
        if value and (clean := secrets.plain(value)) != value:
            changed[name] = clean
    if record.error is not None and (clean := secrets.text(record.error.message)) != record.error.message:
        changed["error"] = record.error.model_copy(update={"message": clean})
    return record.model_copy(update=changed) if changed else record


def evidence_of(record: Record, model: RecordingModel, reply: str | None, secrets: Secrets) -> Evidence:
    """Every call of the run, its knobs on the wire, and the whole reply where the record cut it; no credentials."""
    knobs: Mapping[str, Any] = {
        "requested": record.knobs.requested,
        "observed": [plain(artifact.reply.observed) if artifact.reply else None for artifact in model.artifacts],
    }
    whole = secrets.text(reply) if record.reply_cut and reply is not None else None
    files = {name: secrets.taken_from(content) for name, content in model.files.items()}
    evidence = Evidence([artifact.as_json() for artifact in model.artifacts], knobs, whole, files)
    if secrets.may_change(evidence.calls_file):
        evidence = replace(evidence, artifacts=[secrets.plain(artifact) for artifact in evidence.artifacts])
    return evidence


def _cut(reply: str | None) -> tuple[str | None, bool]:
    if reply is None:
        return None, False
    content = reply.encode("utf-8", "surrogatepass")
    if len(content) <= MAX_REPLY:
        return reply, False
    end = MAX_REPLY
    while content[end] & 0xC0 == 0x80:  # inside a character
        end -= 1
    return content[:end].decode("utf-8", "surrogatepass"), True


def _sum_usage(replies: Sequence[Reply]) -> Usage:
    if not replies:
        return Usage()
    total = replies[0].usage
    for reply in replies[1:]:
        total = total + reply.usage
    return total


def _sum_cost(artifacts: Sequence[Artifact | RelayedArtifact]) -> Cost:
    """The sum over the calls; unknown where one of them is."""
    costs = [artifact.reply.cost for artifact in artifacts if artifact.reply is not None]
    if not costs:
        return Cost(usd=None if artifacts else 0.0, incomplete=bool(artifacts))
    incomplete = len(costs) < len(artifacts) or any(cost.incomplete for cost in costs)
    known = [cost.usd for cost in costs if cost.usd is not None]
    usd = sum(known) if len(known) == len(costs) else None
    return Cost(usd=usd, priced_by=costs[-1].priced_by, price_date=costs[-1].price_date, incomplete=incomplete)


@cache
def _cpu_count() -> int | None:
    return os.cpu_count()


@cache
def _memory() -> int | None:
    """Bytes of physical memory, where the system says."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
