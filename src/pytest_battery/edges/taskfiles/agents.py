"""The part of a task file that is about an agent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pytest_battery.edges.taskfiles.schema import TaskTable
from pytest_battery.values.tasks import AgentTask

__all__ = ["AGENT_KEYS", "agent_task"]

AGENT_KEYS = ("agent", "corpus", "tools", "env", "max_turns", "sandbox", "stacks", "hidden")
"""Keys of ``[task]`` that only an agent has."""

Key = tuple[str | int, ...]


def agent_task(
    table: TaskTable, fault: Callable[[Key, str], None], inside: Callable[[Key, str], Path | None]
) -> AgentTask | None:
    """What *table* says of its agent; None, and a *fault* for each key that should not be there, for another kind.

    *inside* is the path of what a key names, None where it leaves the project.
    """
    if table.kind != "agent":
        for key in AGENT_KEYS:
            if getattr(table, key) is not None:
                fault(("task", key), f'belongs to kind = "agent", and this is a task of kind = "{table.kind}"')
        return None
    if table.agent is None:
        fault(("task", "agent"), 'is missing: write agent = "loop", the agent that is built in')
        return None
    repo = None if table.corpus is None else inside(("task", "corpus", "repo"), table.corpus.repo)
    if repo is not None and not repo.exists():
        fault(
            ("task", "corpus", "repo"), f"names {table.corpus.repo if table.corpus else ''}, and there is no such thing"
        )
    hidden = [inside(("task", "hidden", index), written) for index, written in enumerate(table.hidden or ())]
    return AgentTask(
        agent=table.agent,
        repo=repo,
        pin=None if table.corpus is None else table.corpus.pin,
        tools=None if table.tools is None else tuple(table.tools),
        env=tuple(sorted((table.env or {}).items())),
        max_turns=table.max_turns,
        sandboxed=table.sandbox is None,
        stacks=tuple(table.stacks or ("bare",)),
        hidden=tuple(path for path in hidden if path is not None),
    )
