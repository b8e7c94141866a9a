"""Runs of an agent: a fresh workspace, a sandbox around it, and what came out of both."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from pytest_battery.doing.asking import Asker
from pytest_battery.doing.preparing import Prepared
from pytest_battery.doing.recording import RecordingModel
from pytest_battery.edges.agents.drivers import DRIVERS
from pytest_battery.edges.agents.loop import MAX_TURNS, Looped, loop
from pytest_battery.edges.corpora import Corpora, Corpus, Resolved, Workspace, diff, likeness, touched
from pytest_battery.edges.sandboxes import Confinement, Mount, Sandbox, open_bubblewrap, open_unconfined
from pytest_battery.edges.store.writing import json_line
from pytest_battery.errors import AgentError, CallError, CorpusError, SandboxError
from pytest_battery.values.calls import Message, Request
from pytest_battery.values.permutations import Lane, Permutation
from pytest_battery.values.tasks import AgentTask

if TYPE_CHECKING:
    from pytest_battery.doing.driven import Upstreams

__all__ = ["VERSIONS", "Agents", "Provision"]

VERSIONS: Mapping[str, str] = {"loop": "1", **{name: one.version for name, one in DRIVERS.items()}}
"""Of the agents, where a stack does not say; of the built-in one it changes when the same task would be worked on otherwise."""

Provision = Callable[[Permutation, Path], object]
"""Called with each fresh workspace before the agent sees it."""

_RUN = "battery-run-"


class Agents:
    """What the agents of one session have in common.  *root* is the project's, where agents are installed; *hidden* are places
    no agent may see: the store, the project, what a person's home holds.  *provision* puts more into each workspace."""

    def __init__(
        self,
        root: Path = Path(),
        hidden: Sequence[Path] = (),
        provision: Provision = lambda permutation, path: None,
    ) -> None:
        self._root, self._hidden, self._provision = root, tuple(hidden), provision
        self._upstreams: Upstreams | None = None
        self._cache = tempfile.TemporaryDirectory(prefix="battery-corpora-", ignore_cleanup_errors=True)
        self._corpora = Corpora(Path(self._cache.name))

    def close(self) -> None:
        self._cache.cleanup()

    def resolve(self, task: AgentTask) -> Resolved | None:
        """What the task's corpus is now; None where it has none.  Raises `CorpusError` and `GitError`."""
        return None if task.repo is None else self._corpora.resolve(Corpus(task.repo, task.pin))

    def check(self, prepared: Prepared, permutation: Permutation, provider: object) -> None:
        """Raises `AgentError`, `SandboxError` or `ProviderError` for a run that could not be made."""
        task = prepared.task.agent
        if task is None:
            return
        if task.agent == "loop":
            for brick in permutation.stack.bricks:
                if brick.kind != "context":
                    raise AgentError(
                        f"the stack {permutation.stack.key}: loop can't load {brick.name} ({brick.kind}); it takes context"
                    )
        else:
            from pytest_battery.doing.driven import check  # the relay, where an agent asks it

            check(prepared, permutation, task, provider, self._root)

    async def aclose(self) -> None:
        """Let go of the providers that were asked, in the event loop that asked them."""
        upstreams, self._upstreams = self._upstreams, None
        if upstreams is not None:
            await upstreams.aclose()

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
                if task.agent == "loop":
                    text = await self._in_sandbox(prepared, lane, model, task, place / "work")
                else:
                    text = await self._driven(prepared, lane, model, task, place)
            except SandboxError as error:
                raise CallError("sandbox", "infrastructure", str(error)) from None
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(_taken, task, self.resolve(task), workspace, before, model)
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

    def _unseen(self, task: AgentTask) -> tuple[Path, ...]:
        return (*self._hidden, *task.hidden, *([] if task.repo is None else [task.repo]))

    async def _driven(self, prepared: Prepared, lane: Lane, model: RecordingModel, task: AgentTask, place: Path) -> str:
        from pytest_battery.doing.driven import Upstreams, driven

        if self._upstreams is None:
            self._upstreams = Upstreams()
        return await driven(prepared, lane, model, task, place, self._unseen(task), self._root, self._upstreams)

    async def _in_sandbox(
        self, prepared: Prepared, lane: Lane, model: RecordingModel, task: AgentTask, path: Path
    ) -> str:
        confinement = Confinement(
            mounts=[Mount(path, "/work", writable=True)],
            environment=dict(task.env),
            hidden=self._unseen(task) if task.sandboxed else (),
            keeps=True,
        )
        opening = open_bubblewrap if task.sandboxed else open_unconfined
        events: list[bytes] = []
        try:
            async with opening(confinement) as sandbox:
                looped = await self._looped(
                    prepared, lane, model, task, sandbox, lambda event: events.append(json_line(dict(event)))
                )
        finally:
            model.files["events.jsonl"] = b"".join(events)  # of a run that failed or was ended, too
        if looped.ended != "answered":
            model.ended = looped.ended
        return looped.text

    async def _looped(
        self,
        prepared: Prepared,
        lane: Lane,
        model: RecordingModel,
        task: AgentTask,
        sandbox: Sandbox,
        on_event: Callable[[Mapping[str, Any]], None],
    ) -> Looped:
        permutation = lane.permutation

        async def ask(messages: Sequence[Message]) -> str:
            return (await model.ask(Request(permutation.subject, tuple(messages)))).text

        context = [Message("system", brick.path.read_text("utf-8")) for brick in permutation.stack.bricks]
        messages = (*context, *prepared.asked[permutation.case.id].messages)
        return await loop(ask, sandbox.run, messages, task.tools or (), task.max_turns or MAX_TURNS, on_event)


def _taken(
    task: AgentTask, resolved: Resolved | None, workspace: Workspace | None, before: Any, model: RecordingModel
) -> None:
    """What the agent left, for the evidence; once nothing of it runs any more."""
    if workspace is not None and resolved is not None:
        patch = diff(workspace)
        model.files["diff.patch"] = patch.content
        model.files["corpus.json"] = json_line(
            {"asked": resolved.asked, "commit": resolved.commit, "tree": resolved.tree, "notes": list(workspace.notes)}
        )
        if patch.notes:
            model.files["diff.notes.json"] = json.dumps(list(patch.notes), indent=2).encode() + b"\n"
        shutil.rmtree(workspace.path, ignore_errors=True)
    if before is not None and task.repo is not None and (found := touched(before, likeness(task.repo, earlier=before))):
        raise CallError("repository-touched", "subject", f"{task.repo}: {found[0]}: the run is void")
