"""A task: what is asked and how it is graded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pytest_battery.values.cases import Case
from pytest_battery.values.stacks import Stack
from pytest_battery.values.subjects import Subject

__all__ = ["AgentTask", "Better", "Control", "Metric", "Reference", "ScorerChoice", "Step", "Style", "Task", "Template"]

Better = Literal["higher", "lower"]
Control = Literal["worse", "same"]
"""What a control must come out as against the task's reference: established worse, or not established at all."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One promised metric.  Its kind (rate or number) is read off what the scorer returns."""

    name: str
    better: Better
    primary: bool = False
    aggregate: Literal["median", "mean"] = "median"
    care: float | None = None


Style = Literal["jinja", "format", "plain"]
"""How fields of the case get into a prompt: Jinja2, Python's ``str.format``, or not at all."""


@dataclass(frozen=True, slots=True)
class Template:
    """A text as it was written, and how it is filled in."""

    text: str
    style: Style = "jinja"


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of a conversation: what is said to the model next."""

    id: str
    prompt: Template


@dataclass(frozen=True, slots=True)
class ScorerChoice:
    """Which registered scorer grades, and its options, as the task file gives them."""

    use: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Reference:
    """The cell the others are compared with; None where the task leaves the axis to the first value."""

    subject: Subject | None = None
    stack: str | None = None


@dataclass(frozen=True, slots=True)
class AgentTask:
    """What a task of an agent says beyond its prompt.

    ``repo`` is what it works on, at ``pin``; None for an empty directory.  ``tools`` None is what the agent has by itself.
    ``stacks`` name the harnesses it is measured under, and ``built`` are those, once the manifest was read; ``hidden`` are paths
    that must not be there for it.
    """

    agent: str
    repo: Path | None = None
    pin: str | None = None
    tools: tuple[str, ...] | None = None
    env: tuple[tuple[str, str], ...] = ()
    max_turns: int | None = None
    sandboxed: bool = True
    stacks: tuple[str, ...] = ("bare",)
    hidden: tuple[Path, ...] = ()
    built: tuple[Stack, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """A task file, read and checked.  ``name`` is the file's stem."""

    name: str
    path: Path
    title: str
    kind: Literal["call", "steps", "python", "agent"]
    runs: int
    timeout: float
    cases: tuple[Case, ...]
    scorer: ScorerChoice
    metrics: tuple[Metric, ...]
    prompt: Template | None = None
    append: str | None = None
    system: Template | None = None
    steps: tuple[Step, ...] = ()
    driver: str | None = None
    expect: tuple[int, int] | None = None
    output_schema: Mapping[str, Any] | None = field(default=None, hash=False)
    tags: tuple[str, ...] = ()
    subjects: tuple[Subject, ...] = ()
    reference: Reference = Reference()
    controls: tuple[tuple[Subject, Control], ...] = ()
    agent: AgentTask | None = None

    @property
    def primary(self) -> Metric:
        """The metric that decides: the one marked, or the first."""
        return next((metric for metric in self.metrics if metric.primary), self.metrics[0])
