"""What a session knows: its options, its tasks, its store.  Made when the first task is found."""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_battery.doing.choosing import Choice, cells_of, permutations_of, read_choice, read_shard
from pytest_battery.doing.planning import Decision, Models, Plan, decide_all
from pytest_battery.doing.preparing import Prepared, prepare, prepare_python
from pytest_battery.doing.projecting import Projector
from pytest_battery.doing.providing import late_providers
from pytest_battery.edges.budget import Budget
from pytest_battery.edges.dask_cluster import Cluster
from pytest_battery.edges.manifest import MANIFEST, Manifest, load_manifest, stack_of
from pytest_battery.edges.models.client import Provider
from pytest_battery.edges.redaction import Secrets, secrets_of
from pytest_battery.edges.store import Store
from pytest_battery.errors import BatteryError, ManifestError, OptionError, SandboxError, TaskFileError
from pytest_battery.scoring.registry import Registry
from pytest_battery.values.permutations import Cell, Permutation
from pytest_battery.values.stacks import Stack
from pytest_battery.values.tasks import AgentTask

if TYPE_CHECKING:
    from pytest_battery.doing.agents import Agents
    from pytest_battery.doing.elsewhere import Other
    from pytest_battery.doing.measuring import RecordMode

__all__ = ["Battery", "battery_of", "check_options", "known_battery", "permutation_of"]

_KEY = pytest.StashKey["Battery"]()
WORKERINPUT = "battery"


def battery_of(config: pytest.Config) -> Battery:
    """The session's battery, made on first need.  Raises `BatteryError` for options that cannot be honoured."""
    if _KEY not in config.stash:
        battery = Battery(config)
        config.stash[_KEY] = battery
        from pytest_battery.plugin.activation import activate

        activate(config, battery)
    return config.stash[_KEY]


def known_battery(config: pytest.Config) -> Battery | None:
    """The battery, if anything was found to measure."""
    return config.stash.get(_KEY, None)


def check_options(config: pytest.Config) -> Choice:
    """What the command line chose.  Raises pytest.UsageError (exit 4)."""
    option = config.option
    try:
        if option.battery_jobs < 1:
            raise OptionError(f"--jobs {option.battery_jobs}: at least one run must be in flight")
        if option.battery_budget is not None and not 0 <= option.battery_budget < math.inf:
            raise OptionError(f"--budget {option.battery_budget:g}: an amount of USD, from 0 on")
        _check_cluster(config)
        if option.battery_shard is not None:
            read_shard(option.battery_shard)
            if option.battery_gate is not None:
                raise OptionError(
                    "--shard with --gate: a part cannot be judged; merge the parts, then run --gate over the whole"
                )
        _check_gate(option)
        return read_choice(option.battery_axes or (), option.battery_stack, option.battery_runs)
    except BatteryError as error:
        raise pytest.UsageError(str(error)) from None


def _check_cluster(config: pytest.Config) -> None:
    on = config.option.battery_on
    if on is None:
        return
    kind, _, address = on.partition("=")
    if kind != "dask" or "://" not in address:
        raise OptionError(f"--on {on}: write dask=tcp://HOST:PORT")
    if importlib.util.find_spec("distributed") is None:
        raise OptionError("--on dask needs the extra: pip install 'pytest-battery[dask]'")
    if hasattr(config, "workerinput") or config.getoption("numprocesses", None):
        raise OptionError("--on dask with -n: the cluster's workers ask; leave -n out")


def _check_gate(option: Any) -> None:
    gate, margin, looks = option.battery_gate, option.battery_gate_margin, option.battery_looks
    if gate not in (None, "on", "strict"):
        raise OptionError(f"--gate={gate}: write --gate, or --gate=strict")
    if gate is not None and option.collectonly:
        raise OptionError("--gate with --collect-only: nothing is measured, so there is nothing to judge")
    if margin is not None and gate is None:
        raise OptionError(f"--gate-margin {margin:g}: has a meaning with --gate only")
    if margin is not None and not 0 <= margin < math.inf:
        raise OptionError(f"--gate-margin {margin:g}: a loss is a number from 0 on, in the metric's own unit")
    if looks is not None and not 1 <= looks <= 100:
        raise OptionError(f"--looks {looks}: plan from 1 to 100 looks")


def _runs(number: int) -> str:
    return f"{number} run{'' if number == 1 else 's'}"


def permutation_of(item: pytest.Item) -> Permutation | None:
    """The permutation an item measures, or None for anybody else's item."""
    callspec = getattr(item, "callspec", None)
    found = callspec.params.get("permutation") if callspec else None
    return found if isinstance(found, Permutation) else None


@dataclass
class _Faults:
    """Faults of task files, each file once, in the order found."""

    by_path: dict[Path, tuple[str, ...]] = field(default_factory=dict)

    def add(self, error: TaskFileError) -> None:
        self.by_path.setdefault(error.path, error.faults)

    def text(self) -> str:
        lines = [fault for faults in self.by_path.values() for fault in faults]
        files = len(self.by_path)
        kind = "file" if any(path.name == MANIFEST for path in self.by_path) else "task file"
        head = f"{f'a {kind}' if files == 1 else f'{files} {kind}s'} cannot be used; nothing was asked or spent"
        return "\n".join([head, *(f"  {line}" for line in lines)])


class Battery:
    """Everything a session decides once, and what it found."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.root = config.rootpath
        self.choice = check_options(config)
        self.store = Store(Path(self.root, config.option.battery_store))
        self.jobs: int = config.option.battery_jobs
        self.shard = None if config.option.battery_shard is None else read_shard(config.option.battery_shard)
        self.mode: RecordMode = config.option.battery_record_mode
        shipped = getattr(config, "workerinput", {}).get(WORKERINPUT, {})
        started = shipped.get("started")
        self.started = datetime.fromisoformat(started) if started else datetime.now(UTC)
        self.refresh = self.started if config.option.battery_refresh else None
        self.hide: bool = config.option.battery_cached == "hide"
        self._hidden_by_controller: frozenset[str] | None = (
            frozenset(shipped["hidden"]) if "hidden" in shipped else None
        )
        self.tasks: dict[str, Prepared] = {}
        self.hidden: list[Permutation] = []
        self.deleted = 0
        self._paths: dict[Path, Prepared] = {}
        self._providers: dict[str, Provider] = {}
        self._registry: Registry | None = None
        self._other: Other | None = None
        self.faults = _Faults()
        try:
            self.manifest = load_manifest(self.root)
        except ManifestError as error:  # told with the faults of task files, which end the session
            self.manifest = Manifest()
            self.faults.by_path[error.path] = error.faults
        self.models = Models({}, late_providers(self.manifest))
        on = config.option.battery_on
        self.cluster = None if on is None else Cluster(on.partition("=")[2])
        self._budget: Budget | None = None
        self._began: float | None = shipped.get("began")
        self._secrets: tuple[dict[str, str], Secrets] | None = None
        self._agents: Agents | None = None
        self._ask_hooks()

    def secrets(self) -> Secrets:
        """What must not reach the disk: what the environment's names give away, and every key that was read."""
        named: dict[str, str] = {}
        for provider in self.models.providers.values():
            named |= getattr(provider, "secrets", dict)()
        if self._secrets is None or self._secrets[0] != named:
            self._secrets = (named, secrets_of(os.environ, named))
        return self._secrets[1]

    def budget(self) -> Budget | None:
        """What --budget allows, over all processes of the session and whoever else is on this store.

        Raises `StoreError`.
        """
        cap = self.config.option.battery_budget
        if cap is not None and self._budget is None:
            self.store.prepare()
            self._budget = Budget(self.store.root, cap, self._began)
        return self._budget

    # -- agents ------------------------------------------------------------------------------------

    def agents(self) -> Agents:
        """What the session's agents have in common, made when the first task of one is read."""
        if self._agents is None:
            from pytest_battery.doing.agents import Agents

            def provision(permutation: Permutation, path: Path) -> None:
                self.config.hook.pytest_battery_provision(permutation=permutation, path=path)

            hidden = (self.root, self.store.root, Path.home())
            self._agents = agents = Agents(self.root, [place for place in hidden if place != Path("/")], provision)
            self.config.add_cleanup(agents.close)
        return self._agents

    def _corpus_of(self, task: AgentTask) -> str:
        resolved = self.agents().resolve(task)
        return "" if resolved is None else resolved.digest

    def _stacks_of(self, task: AgentTask) -> tuple[Stack, ...]:
        """Those that --stack names, or the task's own.  Raises `ManifestError`."""
        from pytest_battery.doing.agents import VERSIONS

        keys = self.choice.stacks or task.stacks
        return tuple(stack_of(self.manifest, key, task.agent, self.root, VERSIONS) for key in keys)

    def _check_agents(self, permutations: Iterable[Permutation]) -> None:
        """Raises `BatteryError` for an agent that is not here, and for a subject that it cannot ask."""
        for permutation in permutations:
            prepared = self.tasks[permutation.task]
            if prepared.task.agent is not None and self.mode != "replay":
                self.agents().check(prepared, permutation, self.models.of(permutation.subject))

    def _check_sandboxes(self, prepared: Iterable[Prepared]) -> None:
        """Raises `SandboxError` where agents are about to run, and what they run in cannot be had."""
        tasks = [one.task for one in prepared if one.task.agent is not None]
        for task in tasks:
            if task.agent is not None and not task.agent.sandboxed and not self.config.option.battery_no_sandbox:
                raise SandboxError(
                    f'{self.shown(task.path)}: the task says sandbox = "none": its agent may do whatever you may do on this '
                    "machine; if that is what you want, say --no-sandbox too"
                )
        if any(task.agent is not None and task.agent.sandboxed for task in tasks):
            from pytest_battery.edges.sandboxes import ability

            able = ability()
            if not able.works:
                raise SandboxError(f"agents cannot be isolated here: {able.why}: {able.mend}")

    # -- what conftests and plugins give -----------------------------------------------------------

    def _ask_hooks(self) -> None:
        """Take in what conftests loaded since have to give; a name keeps the object it was first given."""
        for given in self.config.hook.pytest_battery_models():
            for name, provider in (given or {}).items():
                self._providers.setdefault(name, provider)
        for name, provider in self._providers.items():
            self.models.providers.setdefault(name, provider)

    @property
    def registry(self) -> Registry:
        if self._registry is None:
            scorers: dict[str, Callable[..., Any]] = {}
            for given in self.config.hook.pytest_battery_scorers():
                scorers.update(given or {})
            self._registry = Registry(scorers).with_project(self.root / "scorers")
        return self._registry

    # -- tasks -------------------------------------------------------------------------------------

    def load(self, path: Path) -> Prepared:
        """The task file at *path*, read once.  Raises `TaskFileError`."""
        prepared = self._paths.get(path)
        if prepared is None:
            self._ask_hooks()
            try:
                prepared = prepare(path, self.root, self.registry, self._corpus_of, self._stacks_of)
                self._check_subjects(prepared)
            except TaskFileError as error:
                self.faults.add(error)
                raise
            except BatteryError as error:
                failure = TaskFileError(path, [f"{self.shown(path)}: {error}"])
                self.faults.add(failure)
                raise failure from None
            self._paths[path] = prepared
            if prepared.task.kind != "python":
                self._name(prepared)
            for tag in prepared.task.tags:
                self.config.addinivalue_line("markers", f"{tag}: a tag of battery tasks")
        return prepared

    def load_python(self, path: Path, function: str, source: str) -> Prepared:
        """The task a Python test asks, under its own name.  Raises `TaskFileError`."""
        prepared = prepare_python(self.load(path), function, source)
        self._name(prepared)
        return prepared

    def _name(self, prepared: Prepared) -> None:
        twin = self.tasks.setdefault(prepared.task.name, prepared)
        if twin.task.path != prepared.task.path or twin.source != prepared.source:
            error = TaskFileError(
                prepared.task.path,
                [
                    f"{self.shown(prepared.task.path)}: the task {prepared.task.name!r} is also asked by "
                    f"{self.shown(twin.task.path)}; the store keeps tasks by name: rename one of them"
                ],
            )
            self.faults.add(error)
            raise error

    def shown(self, path: Path) -> str:
        """How messages call a file."""
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)

    def _check_subjects(self, prepared: Prepared) -> None:
        for cell in cells_of(prepared.task, self.choice):
            self.models.identity(cell.subject)

    def unasked(self) -> Iterator[Prepared]:
        """Task files that leave the asking to a Python test, and no test that was collected asks them."""
        asked = {prepared.task.path for prepared in self.tasks.values()}
        for path, prepared in self._paths.items():
            if prepared.task.kind == "python" and path not in asked:
                yield prepared

    def permutations(self, prepared: Prepared) -> tuple[Permutation, ...]:
        """Those of this session: of its shard, where it has one."""
        found = permutations_of(prepared.task, self.choice)
        shard = self.shard
        if shard is None:
            return found
        return tuple(one for one in found if shard.has(one.task, one.case.id))

    def other(self) -> Other | None:
        """What ``--against`` names, found once.  Raises `BatteryError`."""
        named = self.config.option.battery_against
        if named is not None and self._other is None:
            from pytest_battery.plugin.against import other_of

            try:
                self._other = other_of(self, named)
            except BatteryError as error:
                raise type(error)(f"--against {named}: {error}") from None
        return self._other

    # -- decisions ---------------------------------------------------------------------------------

    def decide(self, permutation: Permutation) -> tuple[Decision, ...]:
        """What each run needs, from the store as it is now.  Raises `StoreError`."""
        return decide_all(self.store, self.models, self.tasks[permutation.task], permutation, refresh=self.refresh)

    def is_hidden(self, permutation: Permutation, nodeid: str) -> bool:
        """Under --cached=hide: whether all of it is fresh.  Workers take the controller's word for it, since all
        of them must collect the same."""
        if not self.hide:
            return False
        if self._hidden_by_controller is not None:
            hidden = nodeid in self._hidden_by_controller
        else:
            hidden = all(decision.action == "keep" for decision in self.decide(permutation))
        if hidden:
            self.hidden.append(permutation)
        return hidden

    def make_plan(self, permutations: Iterable[Permutation]) -> tuple[Plan, dict[Permutation, tuple[Decision, ...]]]:
        """Decide for all of them; refuse, before anything is asked, what can't be asked or stored.

        Raises pytest.UsageError (exit 4).
        """
        plan, decisions = Plan(), {}
        writes: dict[Cell, Permutation] = {}
        try:
            self.other()
            for permutation in permutations:
                decisions[permutation] = decided = self.decide(permutation)
                plan.add(decided)
                if any(decision.action != "keep" for decision in decided):
                    longest = writes.setdefault(permutation.cell, permutation)
                    if len(permutation.case.id) > len(longest.case.id):
                        writes[permutation.cell] = permutation
            if plan.measured:
                plan.warnings += self._design_faults()
            self._check_sandboxes(
                {
                    self.tasks[permutation.task].task.name: self.tasks[permutation.task]
                    for permutation in writes.values()
                }.values()
            )
            self._check_agents(writes.values())
            if self.mode != "replay":
                self._project(plan, decisions)
            if self.cluster is not None:
                self._check_errands(plan, decisions)
            elif self.mode != "replay":
                for subject in plan.subjects:
                    self.models.of(subject).check(subject)
            for permutation in writes.values():
                self.store.prove_writable(permutation)
        except BatteryError as error:
            raise pytest.UsageError(str(error)) from None
        return plan, decisions

    def _check_errands(self, plan: Plan, decisions: Mapping[Permutation, tuple[Decision, ...]]) -> None:
        """Raises `OptionError` for what workers elsewhere could not ask."""
        names = {subject.provider for subject in plan.subjects}
        if made_here := sorted(names & self._providers.keys()):
            raise OptionError(
                f"--on dask: {', '.join(made_here)} is made in a conftest, which the cluster's workers don't have"
            )
        for permutation in decisions:
            task = self.tasks[permutation.task].task
            if task.kind == "python" or task.driver is not None:
                raise OptionError(
                    f"--on dask: {task.name} asks with code of this project, which the cluster's workers don't have"
                )
            if task.agent is not None:
                raise OptionError(f"--on dask: {task.name} is asked by an agent, which runs on this machine only")

    def _project(self, plan: Plan, decisions: Mapping[Permutation, tuple[Decision, ...]]) -> None:
        """The price of the plan.  Raises `OptionError` where it passes the budget, or can't be told under one."""
        projector = Projector(self.store, self.models)
        plan.projected = projected = projector.total(
            (self.tasks[permutation.task], decided) for permutation, decided in decisions.items()
        )
        cap = self.config.option.battery_budget
        if cap is None:
            return
        faults = [
            f"{key}: no price is known for {_runs(runs)}; declare one in battery.toml (price = 0 if it is free)"
            for key, runs in projected.unpriced.items()
        ]
        faults += [
            f"{key}: nothing tells how much {_runs(runs)} use; measure one without --budget, or say in the task "
            "expect = { input = 800, output = 200 }"
            for key, runs in projected.unknown.items()
        ]
        if projected.likely > cap:
            faults.append(
                f"the plan probably costs ${projected.likely:.4f} (${projected.low:.4f} to ${projected.high:.4f}), more than "
                f"--budget {cap:g}"
            )
        if faults:
            raise OptionError("\n".join([*faults, "nothing was asked or spent"]))
        self.budget()

    def _design_faults(self) -> list[str]:
        """Tasks too small to establish anything: told before they cost.  Raises `OptionError` under --gate=strict."""
        from pytest_battery.doing.designs import design_faults

        option = self.config.option
        against = option.battery_against is not None
        found = design_faults(list(self.tasks.values()), self.choice, against=against, looks=option.battery_looks)
        told = [f"{self.shown(self.tasks[name].task.path)}: {fault}" for name, fault in found.items()]
        if told and option.battery_gate == "strict":
            raise OptionError("--gate=strict: " + "\n".join(told) + "\nnothing was asked or spent")
        return told

    def delete(self, permutations: Iterable[Permutation]) -> None:
        """--force.  Raises pytest.UsageError where the store can't be written."""
        try:
            self.deleted += sum(self.store.delete(permutation) for permutation in permutations)
        except BatteryError as error:
            raise pytest.UsageError(str(error)) from None

    def permutations_by_nodeid(self) -> Iterator[tuple[str, Permutation]]:
        """Node ids of all permutations of the task files loaded so far."""
        for path, prepared in self._paths.items():
            if prepared.task.kind != "python":
                for permutation in self.permutations(prepared):
                    yield f"{self.shown(path)}::{permutation.id}", permutation
