"""A run that is asked on another machine: what is sent there, what is done there, and what comes home.

Plain values travel.  Keys don't: the machine that asks has its own, in its own variables.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import anyio

from pytest_battery.doing.artifacts import Artifact, RelayedArtifact
from pytest_battery.doing.asking import converse
from pytest_battery.doing.preparing import Prepared
from pytest_battery.doing.providing import late_providers
from pytest_battery.doing.recording import RecordingModel
from pytest_battery.edges.manifest import Manifest
from pytest_battery.edges.models.patience import running_limit
from pytest_battery.errors import BatteryError, CallError
from pytest_battery.values.calls import Message
from pytest_battery.values.permutations import Lane
from pytest_battery.values.records import RunError
from pytest_battery.values.subjects import parse_subject

__all__ = ["errand_of", "run_errand", "taken_home"]


def errand_of(prepared: Prepared, lane: Lane, manifest: Manifest) -> dict[str, Any]:
    """What a machine must know to ask one run."""
    messages = prepared.asked[lane.permutation.case.id].messages
    schema = prepared.task.output_schema
    return {
        "subject": lane.permutation.subject.key,
        "messages": [[message.role, message.content] for message in messages],
        "schema": None if schema is None else dict(schema),
        "timeout": prepared.task.timeout,
        "manifest": manifest.model_dump(mode="json", include={"providers"}),
    }


def run_errand(errand: Mapping[str, Any]) -> dict[str, Any]:
    """Ask, on whatever machine this is; never raises."""
    return anyio.run(_run, errand)


async def _run(errand: Mapping[str, Any]) -> dict[str, Any]:
    subject = parse_subject(errand["subject"])
    reply: str | None = None
    error: RunError | None = None
    artifacts: list[Artifact | RelayedArtifact] = []
    wall = 0.0
    try:
        provider = late_providers(Manifest.model_validate(errand["manifest"]))[subject.provider]()
    except (BatteryError, KeyError) as failure:
        error = RunError(kind="no-provider", fault="us", message=f"where it was to be asked: {failure}")
        return {"reply": None, "error": error.model_dump(by_alias=True), "artifacts": [], "wall": 0.0}
    messages = tuple(Message(role, content) for role, content in errand["messages"])
    model = RecordingModel(provider, subject, errand["schema"])
    try:
        provider.check(subject)
        async with provider.slot(subject):
            started = time.monotonic()
            try:
                with running_limit(errand["timeout"]) as limit:
                    reply = await converse(model, subject, messages, errand["schema"])
            finally:
                wall = time.monotonic() - started
        if limit.cancelled_caught:
            message = f"no reply within {errand['timeout']:g} s"
            error = RunError(kind="timeout", fault="infrastructure", message=message)
    except CallError as failure:
        error = RunError(kind=failure.kind, fault=failure.fault, message=str(failure))
    except Exception as failure:  # whatever a provider raises there is told here
        error = RunError(kind="provider-raised", fault="us", message=f"{type(failure).__name__}: {failure}")
    finally:
        await provider.aclose()
    artifacts = model.artifacts
    return {
        "reply": reply,
        "error": None if error is None else error.model_dump(by_alias=True),
        "artifacts": [artifact.as_json() for artifact in artifacts],
        "wall": wall,
    }


def taken_home(result: Mapping[str, Any], model: RecordingModel) -> tuple[str | None, RunError | None, float]:
    """What a machine sent back: the calls are *model*'s now; the reply, why there is none, and the seconds it took."""
    model.artifacts.extend(map(Artifact.from_json, result["artifacts"]))
    error = result["error"]
    return result["reply"], None if error is None else RunError.model_validate(error), float(result["wall"])
