"""Every record once more from its evidence: what does not come out the same is named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_battery.doing.artifacts import Artifact, RelayedArtifact
from pytest_battery.doing.grading import graded
from pytest_battery.doing.preparing import Prepared
from pytest_battery.doing.replaying import recorded
from pytest_battery.edges.store import Problem, Store
from pytest_battery.errors import CallError
from pytest_battery.values.differences import first_difference
from pytest_battery.values.permutations import Lane, Permutation
from pytest_battery.values.records import Record
from pytest_battery.values.relayed import RelayedCall

__all__ = ["Rederived", "rederive"]


@dataclass(frozen=True, slots=True)
class Rederived:
    """One run: ``differences`` between its record and what its evidence gives, ``missing`` why it could not be told."""

    lane: Lane
    differences: tuple[str, ...] = ()
    missing: str = ""

    @property
    def same(self) -> bool:
        return not self.differences and not self.missing


def rederive(store: Store, prepared: Prepared, permutation: Permutation) -> Iterator[Rederived]:
    """The runs of *permutation* that have a record.  Raises `StoreError`."""
    found = store.read(permutation)
    for lane in permutation.lanes():
        record = found.get(lane.run)
        if record is not None:
            yield _one(store, prepared, lane, record)


def _one(store: Store, prepared: Prepared, lane: Lane, record: Record | Problem) -> Rederived:
    if isinstance(record, Problem):
        return Rederived(lane, missing=f"its record {record.what}")
    if record.scorer.sha != prepared.asked[record.case].scorer:
        return Rederived(lane, missing="the scorer has changed since; battery rescore grades it again")
    try:
        documents = store.artifacts(store.path(lane), record.evidence)
        relayed = bool(documents) and all("relay" in document for document in documents or ())
        calls: Sequence[Artifact | RelayedArtifact] = (
            [RelayedArtifact(RelayedCall.from_json(document)) for document in documents or ()]
            if relayed
            else recorded(documents, f"run {lane.run}")
        )
    except CallError as failure:
        return Rederived(lane, missing=str(failure).partition(": ")[2])
    except (KeyError, TypeError, ValueError) as broken:
        return Rederived(lane, missing=f"its evidence cannot be read: {type(broken).__name__}: {broken}")
    replies = [call.reply for call in calls if call.reply is not None]
    differences = []
    if record.turns != len(replies):
        differences.append(f"turns: {record.turns} in the record, {len(replies)} answered calls in the evidence")
    text = record.reply
    if prepared.source is None and prepared.task.agent is None and replies and record.reply is not None:
        text = replies[-1].text
        kept = text.encode("utf-8", "surrogatepass")[: len(record.reply.encode("utf-8", "surrogatepass"))]
        if kept != record.reply.encode("utf-8", "surrogatepass") or (not record.reply_cut and text != record.reply):
            differences.append(f"reply: {first_difference(record.reply, text)}")
    elif record.reply_cut:
        text = store.whole_reply(lane, record)
    if record.gradable and text is not None:
        steps = {step.id: reply.text for step, reply in zip(prepared.task.steps, replies, strict=False)}
        if record.steps is not None and (found := first_difference(record.steps, steps, "steps")):
            differences.append(found)
        score, error = graded(prepared, lane.permutation.case, record.stop_reason or "stop", text, steps)
        if found := first_difference(record.metrics, dict(score.metrics), "metrics"):
            differences.append(found)
        if (error is None) != (record.error is None):
            differences.append(
                f"error: {record.error and record.error.message!r} in the record, now {error and error.message!r}"
            )
    return Rederived(lane, tuple(differences))
