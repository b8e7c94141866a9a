"""A record: what is stored of one run.  The schema of the files under ``store/``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from pytest_battery.errors import Fault
from pytest_battery.values.fingerprints import Fingerprint
from pytest_battery.values.usage import Cost, Usage

__all__ = [
    "GRADING_FAULTS",
    "MAX_REPLY",
    "SCHEMA",
    "Environment",
    "KnobsSeen",
    "Record",
    "RunError",
    "ScorerSeen",
    "StackSeen",
    "SubjectSeen",
]

SCHEMA = 1
MAX_REPLY = 8192
"""Bytes of the final text kept in the record; longer ones are whole only in the evidence."""

GRADING_FAULTS = ("contract", "scorer-failed")
"""Kinds of error of a run whose reply is sound and whose grading is not."""

_open = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)  # unknown keys survive a rewrite


class SubjectSeen(BaseModel):
    model_config = _open
    key: str
    ref: str
    level: str | None = None
    knobs: dict[str, str] = Field(default_factory=dict)


class StackSeen(BaseModel):
    model_config = _open
    key: str
    entries: list[str] = Field(default_factory=list)
    fingerprint: str = ""


class ScorerSeen(BaseModel):
    """``sha`` covers the scorer's source, its options, the contract, and the fields of the case."""

    model_config = _open
    name: str
    sha: str


class RunError(BaseModel):
    """Why a run is invalid.  ``class`` in the file, ``kind`` in Python."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)
    kind: str = Field(alias="class")
    fault: Fault
    message: str


class KnobsSeen(BaseModel):
    """What was asked for, and what was seen on the wire."""

    model_config = _open
    requested: dict[str, Any] = Field(default_factory=dict)
    observed: dict[str, Any] = Field(default_factory=dict)


class Environment(BaseModel):
    model_config = _open
    plugin: str
    python: str
    agent: str | None = None
    engine: str | None = None
    cpu: int | None = None
    memory: int | None = None
    jobs: int | None = None


class Record(BaseModel):
    """One run.  ``metrics`` are exactly what the scorer returned; ``reasons`` say why, per metric.

    ``edited`` is not written: it says that the file is not as it was written, since somebody has changed it by hand.
    ``evidence`` is the digest of the calls beside the record.  ``reply`` is the final text, cut to `MAX_REPLY` bytes
    (``reply_cut``); None where the model gave none.  ``steps`` are the replies of a task of steps, None where together
    they are longer than that.
    """

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False, populate_by_name=True)

    schema_: Literal[1] = Field(default=1, alias="schema")
    task: str
    case: str
    run: int = Field(ge=1)
    subject: SubjectSeen
    stack: StackSeen
    fingerprint: Fingerprint
    scorer: ScorerSeen
    measured_at: AwareDatetime
    wall_ms: int = Field(ge=0)
    usage: Usage = Usage()
    cost: Cost = Cost()
    stop_reason: str | None = None
    turns: int = 0
    attempts: int = 0
    state: Literal["valid", "invalid"]
    error: RunError | None = None
    metrics: dict[str, bool | int | float | str | None] = Field(default_factory=dict)
    reasons: dict[str, str] = Field(default_factory=dict)
    unjudged: dict[str, str] = Field(default_factory=dict)
    response_model: str | None = None
    knobs: KnobsSeen = KnobsSeen()
    reply: str | None = None
    steps: dict[str, str] | None = None
    reply_cut: bool = False
    evidence: str | None = None
    environment: Environment
    edited: bool = Field(default=False, exclude=True)

    @property
    def gradable(self) -> bool:
        """Whether the reply can be scored again: there is one, and nothing but its grading went wrong."""
        return self.reply is not None and (self.error is None or self.error.kind in GRADING_FAULTS)
