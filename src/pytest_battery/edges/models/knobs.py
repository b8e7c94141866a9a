"""A subject's knobs as fields of the request, what is refused before any call, and the knobs read back from a body.

What each model takes is in `knobs.toml`.  Nothing is dropped or brought into range in silence: what cannot be sent as
asked is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from pytest_battery.edges.models.knob_rows import APIS, KnobRow, knob_rows, leaves_at, thinking_fields
from pytest_battery.errors import ProviderError
from pytest_battery.values.names import shortest_number
from pytest_battery.values.subjects import Subject

__all__ = ["APIS", "KnobRow", "knob_rows", "observed", "refuse", "wire_fields"]


def wire_fields(api: str, subject: Subject, dialect: str | None = None) -> dict[str, Any]:
    """The fields of the request's body for the subject's level and knobs, nested as on the wire.

    Raises `ProviderError` for what `refuse` refuses.
    """
    body: dict[str, Any] = {}
    for path, value in _checked(api, subject, dialect).items():
        *parents, name = path.split(".")
        here = body
        for parent in parents:
            here = here.setdefault(parent, {})
        here[name] = value
    return body


def refuse(api: str, subject: Subject, dialect: str | None = None) -> None:
    """Raise `ProviderError` for a level or a knob that *api* cannot honour for the subject's model.

    These are: a knob that is not known, a level that the family does not have, a value of the wrong type or out of
    range, knobs that exclude each other, and one that the API demands and the subject does not give.
    """
    _checked(api, subject, dialect)


def observed(api: str, model: str, body: Mapping[str, Any], dialect: str | None = None) -> dict[str, Any]:
    """Knob to value as *body*, the JSON that was sent, has it: the inverse of `wire_fields`.

    ``thinking`` is the name of a level; it is ``off`` too for a model that never thinks and is not told to.  A knob is
    left out where its field is missing, of another type, or without what must go with it.
    """
    found: dict[str, Any] = {}
    for row in knob_rows(api, model, dialect):
        if row.type == "level":
            if (level := _level_in(row, body)) is not None:
                found[row.knob] = level
        elif row.type != "refused":
            value = _knob_value(row, leaves_at(body, (row.field,)).get(row.field))
            if value is not None and _goes_along(row, body):
                found[row.knob] = value
    return found


@lru_cache(maxsize=1024)
def _checked(api: str, subject: Subject, dialect: str | None) -> Mapping[str, Any]:
    """Path to value for everything that the subject asks for."""
    rows = {row.knob: row for row in knob_rows(api, subject.model, dialect)}
    asked = dict(subject.knobs) | ({} if subject.level is None else {"thinking": subject.level})
    leaves: dict[str, Any] = {}
    for name, text in sorted(asked.items()):
        row = _known(subject, rows, name)
        fields = (
            row.levels[_level(subject, row, text)] if row.type == "level" else {row.field: _value(subject, row, text)}
        )
        if fields:
            leaves |= {**fields, **row.alongside}
    for name in asked:
        for fault in _conflicts(rows[name], asked):
            raise ProviderError(f"{subject}: {fault}")
    for row in rows.values():
        _demanded(subject, row, asked)
    for name in asked:
        _below(subject, rows[name], rows, leaves)
    return leaves


def _known(subject: Subject, rows: Mapping[str, KnobRow], name: str) -> KnobRow:
    row = rows.get(name)
    if row is None:
        where = next(iter(rows.values())).where
        known = ", ".join(name for name, row in rows.items() if row.type != "refused")
        what = f"the level :{subject.level}" if name == "thinking" else f"the knob {name}"
        raise ProviderError(
            f"{subject}: {what} is not known for this provider ({where}): take it away; known are {known}"
        )
    if row.type == "refused":
        raise ProviderError(f"{subject}: {row.where} refuses {name}: {row.note} ({row.cited}): take {name} away")
    return row


def _level(subject: Subject, row: KnobRow, level: str) -> str:
    if level not in row.levels:
        about = f": {row.note}" if row.note else ""
        raise ProviderError(
            f"{subject}: {row.where} has no level {level}{about} ({row.cited}): choose one of {row.allowed}, or none"
        )
    return level


def _value(subject: Subject, row: KnobRow, text: str) -> Any:
    value: Any = text
    if row.type == "texts":
        return [text]
    if row.type == "word":
        value = text if text in row.values else None
    elif row.type == "whole":
        value = int(text) if re.fullmatch(r"-?\d+", text) else None
    elif row.type == "number":
        value = _number(text)
    if value is None or (row.type != "word" and not _in_range(row, value)):
        raise ProviderError(f"{subject}: {row.knob} must be {row.allowed}, not {text} ({row.where}; {row.cited})")
    if row.type == "number" and shortest_number(str(value)) != text:
        raise ProviderError(
            f"{subject}: {row.knob}={text} has more digits than a number on the wire keeps: "
            f"write {shortest_number(str(value))}"
        )
    return value


def _number(text: str) -> int | float | None:
    if shortest_number(text) is None or not math.isfinite(number := float(text)):
        return None
    return int(number) if number.is_integer() else number


def _in_range(row: KnobRow, value: int | float) -> bool:
    if value in row.also:
        return True
    low, high = row.minimum, row.maximum
    if low is not None and (value < low or (row.above_minimum and value == low)):
        return False
    return high is None or value <= high


def _conflicts(row: KnobRow, asked: Mapping[str, str]) -> Iterator[str]:
    """Why the knobs *asked* for don't go together, seen from the knob of *row*."""
    level, budget = asked.get("thinking"), asked.get("budget")
    thinking_on = level not in (None, "off") or (budget not in (None, "0"))
    for other in row.excludes:
        if other == "thinking-on" and thinking_on:
            yield (
                f"{row.where} refuses {row.knob} with thinking on ({row.cited}): "
                f"take {row.knob} away, or make the level :off"
            )
        elif other == "thinking" and level is not None:
            yield f"{row.where} takes a level or {row.knob}, not both ({row.cited}): take one of them away"
        elif other in asked and other != "thinking":
            yield f"{row.where} refuses {row.knob} together with {other} ({row.cited}): take one of them away"
    for other in row.requires:
        name, equals, value = other.partition("=")
        if name not in asked or (equals and asked[name] != value):
            wanted = f"the level :{value}" if name == "thinking" else other
            yield f"{row.where} takes {row.knob} only with {wanted} ({row.cited}): write it, or take {row.knob} away"


def _demanded(subject: Subject, row: KnobRow, asked: Mapping[str, str]) -> None:
    if row.mandatory and row.knob not in asked:
        example = subject.with_knob(row.knob, "4096")
        raise ProviderError(
            f"{subject}: {row.where} demands {row.knob}, {row.allowed} ({row.cited}): write it, as in {example}"
        )


def _below(subject: Subject, row: KnobRow, rows: Mapping[str, KnobRow], leaves: Mapping[str, Any]) -> None:
    """A budget of thinking, given or a level's, is part of the tokens that may be generated."""
    if row.below is None:
        return
    fields = row.levels[subject.level] if row.type == "level" and subject.level else {row.field: leaves.get(row.field)}
    limit = leaves.get(rows[row.below].field)
    for value in fields.values():
        if isinstance(value, int) and isinstance(limit, int) and value >= limit:
            what = (
                f"the level :{subject.level} is a budget of {value} tokens, which" if row.type == "level" else row.knob
            )
            raise ProviderError(
                f"{subject}: {what} must be less than {row.below}={limit} ({row.where}; {row.cited}): "
                f"write {row.below} greater than {value}"
            )


def _level_in(row: KnobRow, body: Mapping[str, Any]) -> str | None:
    """The level that the thinking fields of *body* amount to; None where they amount to none, or to something else."""
    said = leaves_at(body, thinking_fields(row.api))
    for name, fields in row.levels.items():
        if said == fields and (not fields or _goes_along(row, body)):
            return name
    return None


def _goes_along(row: KnobRow, body: Mapping[str, Any]) -> bool:
    return leaves_at(body, row.alongside) == row.alongside


def _knob_value(row: KnobRow, value: Any) -> Any:
    """*value* if it has the JSON type of the row's knob; a list of one text is that text."""
    match row.type, value:
        case "texts", [str(text)]:
            return text
        case "texts" | "word", str():
            return value
        case "whole" | "number", int() | float() if not isinstance(value, bool):
            return value
    return None
