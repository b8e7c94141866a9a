"""The part of a task file that is about an agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_battery.edges.taskfiles.schema import CorpusTable, TaskTable
from pytest_battery.values.stacks import BARE, NONE
from pytest_battery.values.tasks import AgentTask

__all__ = ["AGENT_KEYS", "agent_task", "hidden_of", "reference_stack", "repo_of"]

AGENT_KEYS = ("agent", "corpus", "tools", "env", "max_turns", "sandbox", "stacks", "hidden")
"""Keys of ``[task]`` that only an agent has."""

Key = tuple[str | int, ...]
Fault = Callable[[Key, str], None]
Inside = Callable[[Key, str], Path | None]


def agent_task(table: TaskTable, fault: Fault, inside: Inside) -> AgentTask | None:
    """What *table* says of its agent; None, and a *fault* for each key that should not be there, for another kind.

    *inside* is the path of what a key names, None where it leaves the project.
    """
    if table.kind != "agent":
        for key in AGENT_KEYS:
            if getattr(table, key) is not None:
                fault(("task", key), f'belongs to kind = "agent", and this is a task of kind = "{table.kind}"')
        return None
    if table.agent is None:
        fault(
            ("task", "agent"),
            'is missing: write agent = "loop", the agent that is built in, or "pi", "claude-code", "codex"',
        )
        return None
    repo = None if table.corpus is None else repo_of(table.corpus, fault, inside)
    hidden = hidden_of(table.hidden or (), inside)
    return AgentTask(
        agent=table.agent,
        repo=repo,
        pin=None if table.corpus is None else table.corpus.pin,
        tools=None if table.tools is None else tuple(table.tools),
        env=tuple(sorted((table.env or {}).items())),
        max_turns=table.max_turns,
        sandboxed=table.sandbox is None,
        stacks=tuple(table.stacks or (BARE,)),
        hidden=hidden,
    )


def repo_of(corpus: CorpusTable, fault: Fault, inside: Inside) -> Path | None:
    """Where the corpus is; None, and a *fault*, where it leaves the project or is not there."""
    key = ("task", "corpus", "repo")
    repo = inside(key, corpus.repo)
    if repo is not None and not repo.exists():
        fault(key, f"names {corpus.repo}, and there is no such thing")
        return None
    return repo


def hidden_of(written: Sequence[str], inside: Inside) -> tuple[Path, ...]:
    """The paths that the agent must not see; those that leave the project are faults."""
    found = [inside(("task", "hidden", index), path) for index, path in enumerate(written)]
    return tuple(path for path in found if path is not None)


def reference_stack(document: Mapping[str, Any], fault: Fault) -> None:
    """The stack of the task's reference has to be one that the task is measured under; *document* is as it was read."""
    task, verdict = document.get("task"), document.get("verdict")
    reference = verdict.get("reference") if isinstance(verdict, Mapping) else None
    stack = reference.get("stack") if isinstance(reference, Mapping) else None
    if not isinstance(stack, str) or not isinstance(task, Mapping):
        return
    key = ("verdict", "reference", "stack")
    if task.get("kind") != "agent":
        if stack != NONE.key:
            fault(key, f"should be {NONE.key!r}; found a string, {stack!r}")
        return
    stacks = task.get("stacks", [BARE])
    if isinstance(stacks, list) and stack not in stacks:
        fault(key, f"is {stack!r}, and the task is measured under {', '.join(map(str, stacks))}")
