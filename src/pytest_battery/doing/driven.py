"""One run of an agent that is a program of its own: its model is the relay, and the relay's word is what counts."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from pytest_battery.doing.artifacts import RelayedArtifact
from pytest_battery.doing.preparing import Prepared
from pytest_battery.doing.recording import RecordingModel
from pytest_battery.edges.agents.drivers import Brick, Driver, Launch, Told, driver
from pytest_battery.edges.agents.installing import WHERE, installed
from pytest_battery.edges.models.http_provider import HttpProvider
from pytest_battery.edges.models.relay import Caps, HostedWording, HttpUpstream, Recording, Relay, Summary, speaks
from pytest_battery.edges.sandboxes import Confinement, Finished, Mount, open_bubblewrap
from pytest_battery.errors import AgentError, CallError, ProviderError, SandboxError
from pytest_battery.values.calls import Message
from pytest_battery.values.permutations import Lane, Permutation
from pytest_battery.values.relayed import RelayedCall
from pytest_battery.values.subjects import Subject
from pytest_battery.values.tasks import AgentTask

__all__ = ["Upstreams", "api_for", "check", "driven"]

_GRACE = 5.0  # seconds that the relay's deadline comes before the run's own, so that the agent can say how it ended


_LIMITS = {
    "usd": "what the budget had left",
    "deadline": "its time",
    "unpriced": "a call without a price, under a budget",
}


class Upstreams:
    """Who answers the relays of a process: one object for each provider."""

    def __init__(self) -> None:
        self._known: dict[str, HttpUpstream] = {}

    def of(self, provider: HttpProvider) -> HttpUpstream:
        name = provider.config.name
        if name not in self._known:
            self._known[name] = HttpUpstream(
                provider.config, credential=provider.credential, limiter=provider.limiter, slot=provider.slot
            )
        return self._known[name]

    async def aclose(self) -> None:
        known, self._known = self._known, {}
        for upstream in known.values():
            await upstream.aclose()


def api_for(name: str, subject: Subject, provider: object) -> str:
    """The API by which the agent *name* can ask *subject*.  Raises `ProviderError` where there is none, `AgentError` for no agent."""
    found = driver(name)
    if not isinstance(provider, HttpProvider):
        raise ProviderError(
            f"{subject.key}: {name} asks over HTTP, and {subject.provider}/ does not answer there: take a provider of "
            'battery.toml, or agent = "loop"'
        )
    if provider.config.api not in found.apis:
        speaks(provider.config, found.apis[0])
    return provider.config.api


def check(prepared: Prepared, permutation: Permutation, task: AgentTask, provider: object, root: Path) -> None:
    """Raises `AgentError`, `SandboxError` or `ProviderError` for what could not be run, before anything is asked."""
    if not task.sandboxed:
        raise SandboxError(f'{prepared.task.name}: {task.agent} runs in a sandbox only: take sandbox = "none" away')
    api = api_for(task.agent, permutation.subject, provider)
    here = installed(task.agent, root / WHERE, permutation.stack.version)
    launch = _launch(prepared, permutation, task, api, root, here.root, ())
    bricks = tuple(Brick(brick.kind, brick.path) for brick in permutation.stack.bricks)
    if fault := driver(task.agent).fault(replace(launch, bricks=bricks)):
        raise AgentError(f"{prepared.task.name}[{permutation.cell.arm}]: {fault}")


async def driven(
    prepared: Prepared,
    lane: Lane,
    model: RecordingModel,
    task: AgentTask,
    place: Path,
    hidden: tuple[Path, ...],
    root: Path,
    upstreams: Upstreams,
) -> str:
    """Run the agent over ``place/work``, and return its answer; *root* is the project's.

    What it was answered is in the model's artifacts whatever comes.  Raises `CallError` where the run is no measurement,
    `SandboxError` where it could not be made.
    """
    subject = lane.permutation.subject
    agent = driver(task.agent)
    api = api_for(task.agent, subject, model.provider) if model.recorded is None else _recorded_api(model)
    try:
        here = installed(task.agent, root / WHERE, lane.permutation.stack.version)
    except AgentError as error:
        raise CallError("agent-missing", "infrastructure", str(error)) from None
    (place / "agent").mkdir()
    launch = _launch(prepared, lane.permutation, task, api, place / "agent", here.root, _copied(lane, place / "bricks"))
    if fault := agent.fault(launch):
        raise CallError("agent-refused", "task", fault)
    start = agent.start(launch)
    mounts = [Mount(place / "work", "/work", writable=True), Mount(place / "agent", "/agent", writable=True)]
    mounts += [Mount(host.resolve(), inside) for host, inside in start.mounts]
    confinement = Confinement(mounts, {**dict(task.env), **start.environment}, hidden)
    relay = _relay(subject, model, launch, upstreams, prepared.task.timeout)
    try:
        async with open_bubblewrap(confinement) as sandbox:
            done = await sandbox.run(start.argv, stdin=start.stdin, serving=relay.serving)
    finally:
        model.artifacts.extend(map(RelayedArtifact, relay.calls))
    model.files |= {"stdout": done.stdout, "stderr": done.stderr}
    told = agent.told(launch, done.stdout, done.stderr, done.exit_code, done.timed_out)
    summary = relay.summary()
    _refuse(agent, done, told, summary)
    model.ended = told.stop or summary.stop_reason or "other"
    return told.final_text


def _copied(lane: Lane, to: Path) -> tuple[Brick, ...]:
    """The bricks of the run's stack, copied: what an agent does to them is nobody else's matter, and the project may lie where
    the sandbox's user cannot come."""
    found = []
    for number, brick in enumerate(lane.permutation.stack.bricks):
        place = to / str(number) / brick.path.name
        place.parent.mkdir(parents=True)
        if brick.path.is_dir():
            shutil.copytree(brick.path, place, symlinks=True)
        else:
            shutil.copyfile(brick.path, place)
        found.append(Brick(brick.kind, place))
    return tuple(found)


def _launch(
    prepared: Prepared,
    permutation: Permutation,
    task: AgentTask,
    api: str,
    agent_dir: Path,
    install: Path,
    bricks: tuple[Brick, ...],
) -> Launch:
    subject = permutation.subject
    messages = prepared.asked[permutation.case.id].messages
    return Launch(
        prompt=_said(messages, "user"),
        system=_said(messages, "system") or None,
        model=subject.model,
        api=api,
        base_url="http://127.0.0.1:8080",
        agent_dir=agent_dir,
        install=install,
        tools=task.tools,
        bricks=bricks,
        knobs={**({"thinking": subject.level} if subject.level else {}), **dict(subject.knobs)},
    )


def _said(messages: tuple[Message, ...], role: str) -> str:
    return "\n\n".join(message.content for message in messages if message.role == role)


def _relay(subject: Subject, model: RecordingModel, launch: Launch, upstreams: Upstreams, seconds: float) -> Relay:
    caps = Caps(seconds=max(1.0, seconds - _GRACE), usd=model.usd_left)
    if model.recorded is not None:
        wording = HostedWording(model.recorded.config)
        calls = [RelayedCall.from_json(document) for document in model.recorded.documents]
        return Relay(subject, Recording(wording, calls), agent_model=launch.model, caps=caps)
    provider = model.provider
    assert isinstance(provider, HttpProvider)
    relay = Relay(subject, upstreams.of(provider), agent_model=launch.model, caps=caps, price=provider.price)
    try:
        relay.check()
    except ProviderError as error:
        raise CallError("refused", "us", str(error)) from None
    return relay


def _recorded_api(model: RecordingModel) -> str:
    assert model.recorded is not None
    return model.recorded.config.api


def _refuse(agent: Driver, done: Finished, told: Told, summary: Summary) -> None:
    """Raises `CallError` for a run that is no measurement, whatever the agent or its exit code says."""
    ended = f"{agent.name} ended with {done.exit_code}"
    if summary.missing:
        raise CallError("not-recorded", "task", f"{agent.name} asked what was not recorded: {summary.missing[0]}")
    if summary.violations:
        raise CallError("violation", "infrastructure", summary.violations[0])
    if summary.ended_by is not None:
        raise CallError(
            "limit", "subject", f"the run was ended by its limit: {_LIMITS.get(summary.ended_by, summary.ended_by)}"
        )
    if not summary.calls:
        raise CallError("no-call", "infrastructure", f"{ended}, and asked nothing: {_last_words(done, told)}")
    if told.error is not None or not told.ended:
        raise CallError(
            "agent-failed", "infrastructure", f"{ended}: {told.error or 'its output broke off before its end'}"
        )
    usage = summary.usage
    if not summary.turns or not usage.input or not usage.output:
        raise CallError("no-reply", "infrastructure", f"{ended}, and no call of the model was answered and counted")


def _last_words(done: Finished, told: Told) -> str:
    said = (
        told.error or done.stderr.decode("utf-8", "replace").strip() or done.stdout.decode("utf-8", "replace").strip()
    )
    return said[-500:] or "it said nothing"
