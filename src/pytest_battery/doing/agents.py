"""Runs of an agent: a fresh workspace, a sandbox around it, and what came out of both."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread

from pytest_battery.doing.asking import Asker
from pytest_battery.doing.preparing import Prepared
from pytest_battery.doing.recording import RecordingModel
from pytest_battery.edges.agents.loop import MAX_TURNS, Looped, loop
from pytest_battery.edges.corpora import Corpora, Corpus, Resolved, Workspace, diff, likeness, touched
from pytest_battery.edges.sandboxes import Confinement, Mount, Sandbox, open_bubblewrap, open_unconfined
from pytest_battery.edges.store.writing import json_line
from pytest_battery.errors import CallError, CorpusError, SandboxError
from pytest_battery.values.calls import Message, Request
from pytest_battery.values.permutations import Lane, Permutation
from pytest_battery.values.tasks import AgentTask

__all__ = ["Agents", "Provision"]

Provision = Callable[[Permutation, Path], object]
"""Called with each fresh workspace before the agent sees it."""

_RUN = "battery-run-"


class Agents:
    """What the agents of one session have in common.  *hidden* are places no agent may see: the store, the project, what a
    person's home holds.  *provision* puts more into each workspace."""

    def __init__(self, hidden: Sequence[Path] = (), provision: Provision = lambda permutation, path: None) -> None:
        self._hidden, self._provision = tuple(hidden), provision
        self._cache = tempfile.TemporaryDirectory(prefix="battery-corpora-", ignore_cleanup_errors=True)
        self._corpora = Corpora(Path(self._cache.name))

    def close(self) -> None:
        self._cache.cleanup()

    def resolve(self, task: AgentTask) -> Resolved | None:
        """What the task's corpus is now; None where it has none.  Raises `CorpusError` and `GitError`."""
        return None if task.repo is None else self._corpora.resolve(Corpus(task.repo, task.pin))

    def asker(self, prepared: Prepared, lane: Lane) -> Asker:
        """What asks in *lane*: the agent of its task."""
        return partial(self._run, prepared, lane)

    async def _run(self, prepared: Prepared, lane: Lane, model: RecordingModel) -> str:
        task = prepared.task.agent
        assert task is not None
        with tempfile.TemporaryDirectory(prefix=_RUN, ignore_cleanup_errors=True) as directory:
            place = Path(directory)
            place.chmod(0o711)  # the sandbox's user passes through
            try:
                workspace, before = await anyio.to_thread.run_sync(self._provisioned, task, lane, place / "work")
            except CorpusError as error:
                raise CallError("corpus", "task", str(error)) from None
            try:
                text = await self._in_sandbox(prepared, lane, model, task, place / "work")
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(_taken, task, workspace, before, model)
            return text

    def _provisioned(self, task: AgentTask, lane: Lane, path: Path) -> tuple[Workspace | None, Any]:
        resolved = self.resolve(task)
        workspace = None
        if resolved is None:
            path.mkdir()
        else:
            workspace = self._corpora.clone(resolved, path)
        self._provision(lane.permutation, path)
        # In a sandbox nobody can reach it; without one, it is what an agent could spoil for every run to come.
        return workspace, None if task.sandboxed or task.repo is None else likeness(task.repo)

    async def _in_sandbox(
        self, prepared: Prepared, lane: Lane, model: RecordingModel, task: AgentTask, path: Path
    ) -> str:
        hidden = (*self._hidden, *task.hidden, *([] if task.repo is None else [task.repo]))
        confinement = Confinement(
            mounts=[Mount(path, "/work", writable=True)],
            environment=dict(task.env),
            hidden=hidden if task.sandboxed else (),
            keeps=True,
        )
        opening = open_bubblewrap if task.sandboxed else open_unconfined
        try:
            async with opening(confinement) as sandbox:
                looped = await self._looped(prepared, lane, model, task, sandbox)
        except SandboxError as error:
            raise CallError("sandbox", "infrastructure", str(error)) from None
        model.files["events.jsonl"] = b"".join(json_line(dict(event)) for event in looped.events)
        if looped.ended == "turns":
            model.ended = "turns"
        return looped.text

    async def _looped(
        self, prepared: Prepared, lane: Lane, model: RecordingModel, task: AgentTask, sandbox: Sandbox
    ) -> Looped:
        permutation = lane.permutation

        async def ask(messages: Sequence[Message]) -> str:
            return (await model.ask(Request(permutation.subject, tuple(messages)))).text

        messages = prepared.asked[permutation.case.id].messages
        return await loop(ask, sandbox.run, messages, task.tools or (), task.max_turns or MAX_TURNS)


def _taken(task: AgentTask, workspace: Workspace | None, before: Any, model: RecordingModel) -> None:
    """What the agent left, for the evidence; once nothing of it runs any more."""
    if workspace is not None:
        patch = diff(workspace)
        model.files["diff.patch"] = patch.content
        if patch.notes:
            model.files["diff.notes.json"] = json.dumps(list(patch.notes), indent=2).encode() + b"\n"
        shutil.rmtree(workspace.path, ignore_errors=True)
    if before is not None and task.repo is not None and (found := touched(before, likeness(task.repo, earlier=before))):
        raise CallError("repository-touched", "subject", f"{task.repo}: {found[0]}: the run is void")
