"""A task made ready: what each case is asked, how each is graded, and every fault of either before any call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_battery.edges.agents.loop import instructions, tools_fault
from pytest_battery.edges.taskfiles import (
    Asking,
    KeyLines,
    in_order,
    load_task,
    production_function,
    read_scorer,
    read_text,
    source_of,
)
from pytest_battery.errors import CorpusError, GitError, ManifestError, ScoringError, TaskFileError
from pytest_battery.scoring.registry import Registry
from pytest_battery.scoring.scorers import Scorer
from pytest_battery.values.calls import Message
from pytest_battery.values.canonical import digest
from pytest_battery.values.cases import Case
from pytest_battery.values.names import id_fault
from pytest_battery.values.stacks import Stack
from pytest_battery.values.tasks import AgentTask, ScorerChoice, Task

__all__ = ["Asked", "Prepared", "prepare", "prepare_python"]

SHOWN = 10
"""Cases whose prompt cannot be made that are told one by one; a slip in a template is a slip in every case."""


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
    """``asked`` by case id, in the order of the task's cases.  ``source`` is the digest a Python test asks with.

    ``driver`` is the production function that asks, if one does: ``await driver(case, model)``.  ``corpus`` is the digest of
    what an agent works on.
    """

    task: Task
    scorer: Scorer
    asked: Mapping[str, Asked]
    source: str | None = None
    driver: Callable[..., Any] | None = None
    corpus: str = ""


def prepare(
    path: Path,
    root: Path,
    registry: Registry,
    corpus_of: Callable[[AgentTask], str] = lambda task: "",
    stacks_of: Callable[[AgentTask], tuple[Stack, ...]] = lambda task: tuple(map(Stack, task.stacks)),
) -> Prepared:
    """Read and check the task file at *path*; *corpus_of* is the digest of what an agent works on, *stacks_of* are those it is
    measured under: they raise `CorpusError`, `GitError`, `ManifestError`.  Raises `TaskFileError` with every fault found."""
    faults = _Faults(path, root)
    try:
        task = load_task(path, root)
    except TaskFileError as error:
        faults.found.extend(error.faults)
        choice = read_scorer(path)
        if choice is not None:
            _scorer(choice, registry, faults)
        raise faults.error() from None
    scorer = _scorer(task.scorer, registry, faults)
    graded = _graded(task, scorer, faults)
    driver = None if task.driver is None else production_function(task.driver, root)
    asked = _asked(task, graded, faults) if driver is None else _driven(task, source_of(driver), graded)
    if scorer is not None:
        _check_cases(task, scorer, faults)
    corpus = ""
    if task.agent is not None:
        if task.agent.agent == "loop" and (fault := tools_fault(task.agent.tools or ())):
            faults.at(("task", "tools"), f"task.tools: {fault}")
        try:
            corpus = corpus_of(task.agent)
        except (CorpusError, GitError) as error:
            faults.at(("task", "corpus"), f"task.corpus: {error}")
        try:
            task = replace(task, agent=replace(task.agent, built=stacks_of(task.agent)))
        except ManifestError as error:
            faults.at(("task", "stacks"), f"task.stacks: {'; '.join(error.faults)}")
        if not faults.found:
            assert task.agent is not None
            asked = _asked_of_an_agent(task.agent, asked)
    if faults.found:
        raise faults.error()
    assert scorer is not None
    return Prepared(task, scorer, asked, driver=driver, corpus=corpus)


def _asked_of_an_agent(agent: AgentTask, asked: Mapping[str, Asked]) -> dict[str, Asked]:
    """All that the agent is told or given besides the prompt is asked too."""
    tools = agent.tools or ()
    told = {
        "agent": agent.agent,
        "tools": list(tools),
        "instructions": instructions(tools) if tools and agent.agent == "loop" else "",
        "env": dict(agent.env),
        "max_turns": agent.max_turns,
        "sandboxed": agent.sandboxed,
    }
    return {case: replace(one, prompt=digest([one.prompt, told])) for case, one in asked.items()}


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


class _Faults:
    """The faults of one task file, found in several steps and told together."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.name = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
        self.found: list[str] = []

    def at(self, key: tuple[str, ...], what: str) -> None:
        self.found.append(f"{self.name}:{KeyLines(read_text(self.path)).of(*key)}: {what}")

    def in_case(self, case: Case, what: str) -> None:
        self.found.append(f"{case.source}:{case.line}: {what}" if case.line else f"{case.source}: {what}")

    def error(self) -> TaskFileError:
        return TaskFileError(self.path, in_order(self.found, self.name))


def _scorer(choice: ScorerChoice, registry: Registry, faults: _Faults) -> Scorer | None:
    try:
        return registry.make(choice, faults.path.parent)
    except ScoringError as error:
        named = next((option for option in choice.options if option in str(error)), "use")
        faults.at(("scorer", named), f"scorer: {error}")
        return None


def _graded(task: Task, scorer: Scorer | None, faults: _Faults) -> dict[str, str]:
    """By case id, the digest of all that its grade depends on."""
    if scorer is None:
        return {}
    try:
        identity = scorer.identity()
    except ScoringError as error:
        faults.at(("scorer",), f"scorer: {error}")
        return {}
    shared = digest([scorer.name, identity, sorted(metric.name for metric in task.metrics)])
    return {case.id: digest([shared, dict(case)]) for case in task.cases}


def _asked(task: Task, graded: Mapping[str, str], faults: _Faults) -> dict[str, Asked]:
    asking = Asking(task)
    for key, what in asking.faults.items():
        faults.at(("task", key), f"task.{key} {what}")
    asked: dict[str, Asked] = {}
    unasked = 0
    for case in () if asking.faults else task.cases:
        try:
            messages, read = asking.messages(case)
        except ValueError as error:
            unasked += 1
            if unasked <= SHOWN:
                faults.in_case(case, str(error))
            elif unasked == SHOWN + 1:
                faults.at(("task", "prompt"), f"task.prompt cannot be made for more than {SHOWN} cases")
            continue
        prompt, part = asking.digests(case, messages, read)
        asked[case.id] = Asked(messages, prompt, part, graded.get(case.id, ""))
    return asked


def _driven(task: Task, source: str, graded: Mapping[str, str]) -> dict[str, Asked]:
    """What a driver asks is not known before it runs: its source stands for it, and the whole case is handed over."""
    prompt = digest(["driver", task.driver, source])
    return {case.id: Asked((), prompt, digest(dict(case)), graded.get(case.id, "")) for case in task.cases}


def _check_cases(task: Task, scorer: Scorer, faults: _Faults) -> None:
    told: set[str] = set()
    for case in task.cases:
        try:
            scorer.check(case)
        except ScoringError as error:
            if str(error) not in told:  # a pattern that is wrong is wrong for every case
                told.add(str(error))
                faults.in_case(case, f"case {case.id}: scorer: {error}")
