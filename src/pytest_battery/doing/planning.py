"""Keep, score again or measure: what each run needs, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from pytest_battery.doing.preparing import Prepared
from pytest_battery.edges.models.client import Provider
from pytest_battery.edges.store import Problem, Store
from pytest_battery.errors import ProviderError
from pytest_battery.values.canonical import digest
from pytest_battery.values.fingerprints import Fingerprint
from pytest_battery.values.permutations import Cell, Lane, Permutation
from pytest_battery.values.records import Record
from pytest_battery.values.subjects import Subject

if TYPE_CHECKING:
    from pytest_battery.doing.projecting import Projected

__all__ = ["Action", "Decision", "Models", "Plan", "decide", "decide_all", "is_whole"]

Action = Literal["keep", "re-score", "measure"]


@dataclass(frozen=True, slots=True)
class Decision:
    """``why`` is a short phrase for people; ``changed`` the parts of the fingerprint that differ.

    ``record`` is the one that is kept, scored again or replaced, if there is one.
    """

    lane: Lane
    action: Action
    why: str
    changed: tuple[str, ...] = ()
    record: Record | None = None

    @property
    def stale(self) -> bool:
        return bool(self.changed)


class Models:
    """The providers of a session, by name, and what identifies the model of each subject (asked once)."""

    def __init__(
        self, providers: Mapping[str, Provider], late: Mapping[str, Callable[[], Provider]] = MappingProxyType({})
    ) -> None:
        """*late* providers are made when a subject first names them."""
        self.providers = dict(providers)
        self._late = late
        self._identities: dict[Subject, str] = {}
        self._fingerprints: dict[tuple[str, str, str, str, str], Fingerprint] = {}
        self._last: tuple[Cell, str] | None = None

    def of(self, subject: Subject) -> Provider:
        """Raises `ProviderError` for a provider that nobody offers."""
        name = subject.provider
        if name not in self.providers and name in self._late:
            self.providers[name] = self._late[name]()
        if name not in self.providers:
            known = ", ".join(sorted({*self.providers, *self._late}))
            raise ProviderError(f"{subject.key}: no provider is called {name!r}; known: {known}")
        return self.providers[name]

    def identity(self, subject: Subject) -> str:
        """The ``model`` part of a fingerprint.  Raises `ProviderError`."""
        found = self._identities.get(subject)
        if found is None:
            identity = self.of(subject).identify(subject)
            found = self._identities[subject] = digest(identity) if identity else ""
        return found

    def fingerprint(self, prepared: Prepared, permutation: Permutation) -> Fingerprint:
        cell = permutation.cell
        if self._last is None or self._last[0] is not cell:
            self._last = (cell, self.identity(cell.subject))
        asked = prepared.asked[permutation.case.id]
        parts = (asked.prompt, asked.case, prepared.corpus, cell.stack.fingerprint, self._last[1])
        found = self._fingerprints.get(parts)
        if found is None:
            prompt, case, corpus, stack, model = parts
            found = Fingerprint.model_construct(prompt=prompt, case=case, corpus=corpus, stack=stack, model=model)
            self._fingerprints[parts] = found
        return found


def decide(
    lane: Lane,
    found: Record | Problem | None,
    fingerprint: Fingerprint,
    scorer: str,
    *,
    whole: bool = True,
    refresh: datetime | None = None,
) -> Decision:
    """What the run needs.  *scorer* is the digest of how it would be graded now; *whole* whether the whole reply of
    the record is at hand; *refresh* measures again what is fresh and older than that moment, or from a time that has not
    come yet: the clock was set back since."""
    if found is None:
        return Decision(lane, "measure", "missing")
    if isinstance(found, Problem):
        return Decision(lane, "measure", f"{found.path.name} {found.what}")
    if changed := found.fingerprint.changed(fingerprint):
        return Decision(lane, "measure", f"stale: {', '.join(changed)} changed", changed, found)
    kind = found.error.kind if found.error else "no error kept"
    if found.state == "invalid" and not found.gradable:
        return Decision(lane, "measure", f"invalid: {kind}", (), found)
    if refresh is not None and not refresh <= found.measured_at <= datetime.now(UTC):
        return Decision(lane, "measure", "fresh, measured again under --refresh", (), found)
    if found.scorer.sha != scorer or found.state == "invalid":
        if not whole or not found.gradable:
            return Decision(
                lane,
                "measure",
                "the scorer changed and the evidence with the whole reply is missing",
                ("scorer",),
                found,
            )
        # A grade that failed is tried again even by the same scorer: it may have wanted for a file or a package.
        why = "the scorer changed" if found.scorer.sha != scorer else f"not graded: {kind}"
        return Decision(lane, "re-score", why, (), found)
    return Decision(lane, "keep", "fresh", (), found)


def decide_all(
    store: Store, models: Models, prepared: Prepared, permutation: Permutation, *, refresh: datetime | None = None
) -> tuple[Decision, ...]:
    """One decision per run of *permutation*, from what is on disk now.  Raises `StoreError`, `ProviderError`."""
    fingerprint = models.fingerprint(prepared, permutation)
    scorer = prepared.asked[permutation.case.id].scorer
    found = store.read(permutation)
    return tuple(
        decide(
            lane,
            record := found.get(lane.run),
            fingerprint,
            scorer,
            whole=is_whole(store, lane, record),
            refresh=refresh,
        )
        for lane in permutation.lanes()
    )


def is_whole(store: Store, lane: Lane, found: Record | Problem | None) -> bool:
    """Whether the whole reply of the record found is at hand; of what has no reply, nothing is wanting."""
    return not isinstance(found, Record) or not found.reply_cut or store.whole_reply(lane, found) is not None


@dataclass
class Plan:
    """What a session is about to do, counted in runs."""

    permutations: int = 0
    kept: int = 0
    rescored: int = 0
    stale: int = 0
    measured: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    subjects: dict[Subject, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    saved: float = 0.0
    projected: Projected | None = None

    def add(self, decisions: Iterable[Decision]) -> None:
        self.permutations += 1
        for decision in decisions:
            if decision.action == "keep":
                self.kept += 1
                self.saved += decision.record.cost.usd or 0.0 if decision.record else 0.0
                continue
            self.reasons[decision.why] += 1
            if decision.action == "re-score":
                self.rescored += 1
                continue
            self.measured += 1
            self.stale += decision.stale
            subject = decision.lane.permutation.subject
            self.subjects[subject] = self.subjects.get(subject, 0) + 1
