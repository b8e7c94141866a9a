"""What can be set on a model: one row for each knob, with its field on the wire, its values and where that is from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, get_args

from pytest_battery.edges.models.knob_facts import ApiName, FamilyFact, Kind, RowFact, facts
from pytest_battery.errors import ProviderError
from pytest_battery.values.subjects import LEVELS

__all__ = ["APIS", "KnobRow", "dialects", "knob_rows", "leaves_at", "thinking_fields"]

APIS: tuple[str, ...] = get_args(ApiName)


@dataclasses.dataclass(frozen=True, slots=True)
class KnobRow:
    """One knob of one family of models under one API.

    ``type`` is ``whole``, ``number``, ``word`` (one of ``values``), ``texts`` (a list of one text on the wire),
    ``level`` (``levels`` maps each level to its fields) or ``refused`` (``note`` says why).  ``field`` and the keys of
    ``levels`` and ``alongside`` are paths from the top of the body; ``also`` are values beyond the range; ``alongside``
    is sent with the knob.  ``excludes`` and ``requires`` name what the knob does not go with and does not go without;
    its value must be less than that of ``below``.  ``date`` is that of the oldest source, as YYYY-MM-DD.
    """

    api: str
    dialect: str | None
    family: str
    knob: str
    field: str
    type: Kind
    source: str
    date: str
    minimum: int | float | None = None
    maximum: int | float | None = None
    above_minimum: bool = False
    also: tuple[int, ...] = ()
    values: tuple[str, ...] = ()
    levels: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    excludes: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    below: str | None = None
    mandatory: bool = False
    alongside: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    note: str = ""

    @property
    def where(self) -> str:
        """The API, the dialect and the family, as messages name them."""
        api = f"{self.api} ({self.dialect})" if self.dialect else self.api
        return f"{api}, {self.family}"

    @property
    def cited(self) -> str:
        """The packages of ``source``, without the files, and the date."""
        packages = dict.fromkeys(title.partition(", ")[0] for title in self.source.split("; "))
        return f"{', '.join(packages)}; {self.date}"

    @property
    def allowed(self) -> str:
        """What the value may be, in words."""
        match self.type:
            case "level":
                return ", ".join(self.levels)
            case "word":
                return ", ".join(self.values)
            case "texts":
                return "a text"
            case "refused":
                return "refused"
        kind = "a whole number" if self.type == "whole" else "a number"
        low, high = self.minimum, self.maximum
        start = "" if low is None else f" {'above' if self.above_minimum else 'from'} {low}"
        end = (
            ""
            if high is None
            else f"{'' if low is None else ','} up to {high}"
            if self.above_minimum
            else f" to {high}"
        )
        more = f", or {' or '.join(map(str, self.also))}" if self.also else ""
        upwards = " upwards" if low is not None and high is None and not self.above_minimum else ""
        return f"{kind}{start}{end}{upwards}{more}"


def dialects(api: str) -> tuple[str, ...]:
    """The dialects of *api*, besides its own."""
    return tuple(dialect.name for dialect in facts().dialect if dialect.api == api)


@cache
def knob_rows(api: str, model: str, dialect: str | None = None) -> tuple[KnobRow, ...]:
    """What can be set on *model*, and what is refused by name, sorted by knob.

    Raises `ProviderError` for an API or a dialect that there is not.
    """
    if api not in APIS:
        raise ProviderError(f"{api!r} is not an API of models; the APIs are {', '.join(APIS)}")
    if dialect is not None and dialect not in dialects(api):
        known = ", ".join(dialects(api)) or "none"
        raise ProviderError(f"{dialect!r} is not a dialect of {api}; its dialects are {known}")
    family = next(family for family in facts().families_of(api, dialect or "") if family.holds(model))
    rows = [_row(api, family, knob, fact) for knob, fact in facts().rows_of(api, family)]
    return tuple(sorted(rows, key=lambda row: row.knob))


@cache
def thinking_fields(api: str) -> frozenset[str]:
    """Every field by which some model of *api* is told how to think."""
    found: set[str] = set()
    for row in facts().row:
        if row.api == api and row.type == "level":
            found.update(path for level in row.levels.values() for path in level)
        elif row.api == api and row.type != "refused" and "budget" in row.knobs:
            found.update((row.field, *row.alongside))
    return frozenset(found)


def leaves_at(body: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    """The value at each of *paths* that *body* has."""
    found: dict[str, Any] = {}
    for path in paths:
        here: Any = body
        for name in path.split("."):
            if not isinstance(here, Mapping) or name not in here:
                break
            here = here[name]
        else:
            found[path] = here
    return found


def _row(api: str, family: FamilyFact, knob: str, fact: RowFact) -> KnobRow:
    levels = {} if fact.type != "level" else _levels(family, fact)
    fields = dict.fromkeys(path for level in levels.values() for path in level)
    cited = dict.fromkeys((*fact.source, *(family.source if knob in ("thinking", "max_tokens") else ())))
    sources = [facts().sources[name] for name in cited]
    return KnobRow(
        api=api,
        dialect=family.dialect or None,
        family=family.name,
        knob=knob,
        field=", ".join(fields) if fact.type == "level" else "" if fact.type == "refused" else fact.field or knob,
        type=fact.type,
        source="; ".join(source.title for source in sources),
        date=min(source.date for source in sources).isoformat(),
        minimum=fact.min,
        maximum=family.max_tokens if knob == "max_tokens" and family.max_tokens else fact.max,
        above_minimum=fact.above_min,
        also=tuple(fact.also),
        values=tuple(fact.values),
        levels=levels,
        excludes=tuple(fact.excludes),
        requires=tuple(fact.requires),
        below=fact.below or None,
        mandatory=fact.mandatory,
        alongside={} if fact.type == "refused" else {**facts().alongside(api, family.dialect), **fact.alongside},
        note="; ".join(note for note in (family.note if knob == "thinking" else "", fact.note) if note),
    )


def _levels(family: FamilyFact, fact: RowFact) -> dict[str, dict[str, Any]]:
    if not family.thinks:
        return {"off": {}}
    return {
        name: fact.levels[name]
        for name in LEVELS
        if name in fact.levels and (family.levels is None or name in family.levels)
    }
