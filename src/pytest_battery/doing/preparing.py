"""A task made ready: what each case is asked, how each is graded, and every fault of either before any call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_battery.edges.taskfiles import Asking, load_task
from pytest_battery.errors import ScoringError, TaskFileError
from pytest_battery.scoring.registry import Registry
from pytest_battery.scoring.scorers import Scorer
from pytest_battery.values.calls import Message
from pytest_battery.values.canonical import digest
from pytest_battery.values.names import id_fault
from pytest_battery.values.tasks import Task

__all__ = ["Asked", "Prepared", "prepare", "prepare_python"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What one case is asked, and the digests its fingerprint is made from.

    ``scorer`` is the digest of all that its grade depends on: the scorer's source and options, the metrics
    promised, and the fields of the case.
    """

    messages: tuple[Message, ...]
    prompt: str
    case: str
    scorer: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """``asked`` by case id, in the order of the task's cases.  ``source`` is the digest a Python test asks with."""

    task: Task
    scorer: Scorer
    asked: Mapping[str, Asked]
    source: str | None = None


def prepare(path: Path, root: Path, registry: Registry) -> Prepared:
    """Read and check the task file at *path*.  Raises `TaskFileError` with every fault found."""
    task = load_task(path, root)
    faults: list[str] = []
    name = _shown(path, root)
    scorer = _scorer(task, registry, name, faults)
    asked: dict[str, Asked] = {}
    try:
        asking = Asking(task)
    except ValueError as error:
        raise TaskFileError(path, [f"{name}: prompt: {error}"]) from None
    graded = _graded(task, scorer) if scorer else {}
    for case in task.cases:
        try:
            messages, read = asking.messages(case)
        except ValueError as error:
            faults.append(f"{case.source}:{case.line}: {error}" if case.line else f"{case.source}: {error}")
            continue
        prompt, part = asking.digests(case, messages, read)
        asked[case.id] = Asked(messages, prompt, part, graded.get(case.id, ""))
    if scorer is not None:
        _check_cases(task, scorer, faults)
    if faults:
        raise TaskFileError(path, faults)
    assert scorer is not None
    return Prepared(task, scorer, asked)


def prepare_python(prepared: Prepared, function: str, source: str) -> Prepared:
    """The task as a Python test asks it: named ``TASK.FUNCTION``, since its records are not those of the file's own
    prompt; *source* is the digest of what does the asking.

    The whole case is handed over, so all of it is in the fingerprint.  Raises `TaskFileError` for a name that
    cannot be a directory.
    """
    name = f"{prepared.task.name}.{function}"
    if fault := id_fault(name):
        raise TaskFileError(prepared.task.path, [f"the test's records are stored under {fault}"])
    task = replace(prepared.task, name=name, kind="python")
    asked = {
        case.id: Asked((), source, digest(dict(case)), prepared.asked[case.id].scorer) for case in prepared.task.cases
    }
    return Prepared(task, prepared.scorer, asked, source)


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _scorer(task: Task, registry: Registry, name: str, faults: list[str]) -> Scorer | None:
    try:
        return registry.make(task.scorer, task.path.parent)
    except ScoringError as error:
        faults.append(f"{name}: scorer: {error}")
        return None


def _graded(task: Task, scorer: Scorer) -> dict[str, str]:
    shared = digest([scorer.name, scorer.identity(), sorted(metric.name for metric in task.metrics)])
    return {case.id: digest([shared, dict(case)]) for case in task.cases}


def _check_cases(task: Task, scorer: Scorer, faults: list[str]) -> None:
    told: set[str] = set()
    for case in task.cases:
        try:
            scorer.check(case)
        except ScoringError as error:
            if str(error) not in told:  # a pattern that is wrong is wrong for every case
                told.add(str(error))
                place = f"{case.source}:{case.line}" if case.line else case.source
                faults.append(f"{place}: case {case.id}: scorer: {error}")
