"""`knobs.toml`, read and checked: what it says, before it is laid out by model in `knob_rows`."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal

import tomli
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from pytest_battery.values.subjects import LEVELS

__all__ = ["ANY", "DialectFact", "Facts", "FamilyFact", "RowFact", "SourceFact", "facts"]

ApiName = Literal["openai-chat", "openai-responses", "anthropic", "google"]
Kind = Literal["level", "whole", "number", "word", "texts", "refused"]

ANY = "any model"
"""The name of the family that holds every model, the last one of each API and dialect."""


def _level(name: str) -> str:
    if name not in LEVELS:
        raise ValueError(f"{name!r} is not a level; the levels are {', '.join(LEVELS)}")
    return name


Level = Annotated[str, AfterValidator(_level)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SourceFact(_Table):
    title: str
    date: datetime.date


class DialectFact(_Table):
    """A server that speaks *api* with fields of its own; ``alongside`` goes with every knob."""

    api: ApiName
    name: str
    source: list[str] = Field(min_length=1)
    alongside: dict[str, Any] = {}
    note: str = ""


class FamilyFact(_Table):
    """Models that are set alike."""

    apis: list[ApiName] = Field(min_length=1)
    name: str
    source: list[str] = Field(min_length=1)
    dialect: str = ""
    models: list[str] = []
    ids: list[str] = []
    levels: list[Level] | None = None
    thinks: bool = True
    max_tokens: int | None = None
    note: str = ""

    def holds(self, model: str) -> bool:
        """Whether *model* is one of them."""
        return (
            self.name == ANY
            or model.partition(":")[0] in self.ids
            or any(re.fullmatch(pattern, model) for pattern in self.models)
        )


class RowFact(_Table):
    """Some knobs of some families of one API."""

    api: ApiName
    families: list[str] = Field(min_length=1)
    knobs: list[str] = Field(min_length=1)
    type: Kind
    source: list[str] = Field(min_length=1)
    dialect: str = ""
    field: str = ""
    min: int | float | None = None
    max: int | float | None = None
    above_min: bool = False
    also: list[int] = []
    values: list[str] = []
    levels: dict[Level, dict[str, Any]] = {}
    excludes: list[str] = []
    requires: list[str] = []
    below: str = ""
    mandatory: bool = False
    alongside: dict[str, Any] = {}
    note: str = ""

    @model_validator(mode="after")
    def _whole(self) -> RowFact:
        if (self.type == "level") != (self.knobs == ["thinking"]):
            raise ValueError("a row of the type level is for the one knob thinking, and that knob has no other type")
        if (self.type == "level") != bool(self.levels) or (self.type == "word") != bool(self.values):
            raise ValueError("levels are for the type level and values for the type word")
        if self.type == "refused" and not self.note:
            raise ValueError("a row that refuses says why in its note")
        return self


class Facts(_Table):
    sources: dict[str, SourceFact]
    dialect: list[DialectFact]
    family: list[FamilyFact]
    row: list[RowFact]

    @model_validator(mode="after")
    def _consistent(self) -> Facts:
        dialects = {(dialect.api, dialect.name) for dialect in self.dialect}
        families: dict[tuple[str, str], list[str]] = {}
        for family in self.family:
            for api in family.apis:
                if family.dialect and (api, family.dialect) not in dialects:
                    raise ValueError(f"family {family.name}: {family.dialect} is no dialect of {api}")
                families.setdefault((api, family.dialect), []).append(family.name)
        for where, names in families.items():
            if names[-1] != ANY or ANY in names[:-1]:
                raise ValueError(f"{where}: the last family, and no other, is {ANY!r}")
            if len(set(names)) != len(names):
                raise ValueError(f"{where}: a family is there twice")
        seen: set[tuple[str, str, str, str]] = set()
        for row in self.row:
            known = families.get((row.api, row.dialect), [])
            for name in row.families:
                if name != "*" and name not in known:
                    raise ValueError(f"a row for {', '.join(row.knobs)}: {row.api} has no family {name}")
                for knob in row.knobs:
                    if (key := (row.api, row.dialect, name, knob)) in seen:
                        raise ValueError(f"{key}: there are two rows")
                    seen.add(key)
        citing: list[DialectFact | FamilyFact | RowFact] = [*self.dialect, *self.family, *self.row]
        cited = [name for fact in citing for name in fact.source]
        if unknown := sorted(set(cited) - set(self.sources)):
            raise ValueError(f"no such source: {', '.join(unknown)}")
        return self

    def families_of(self, api: str, dialect: str) -> list[FamilyFact]:
        """In the order in which a model is looked for."""
        return [family for family in self.family if api in family.apis and family.dialect == dialect]

    def rows_of(self, api: str, family: FamilyFact) -> list[tuple[str, RowFact]]:
        """Each knob of *family* with its row; a row that names the family comes before one for all."""
        found: dict[str, RowFact] = {}
        here = [row for row in self.row if row.api == api and row.dialect == family.dialect]
        for wanted in (family.name, "*"):
            for row in here:
                if wanted in row.families:
                    for knob in row.knobs:
                        found.setdefault(knob, row)
        return list(found.items())

    def alongside(self, api: str, dialect: str) -> Mapping[str, Any]:
        """What goes with every knob of *dialect*."""
        for fact in self.dialect:
            if (fact.api, fact.name) == (api, dialect):
                return fact.alongside
        return {}


@cache
def facts() -> Facts:
    """What the package's `knobs.toml` says."""
    text = files("pytest_battery.edges.models").joinpath("knobs.toml").read_text(encoding="utf-8")
    return Facts.model_validate(tomli.loads(text))
