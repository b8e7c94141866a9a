"""A subject's knobs in the body of a request that an agent wrote: they go before what it says itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

from pytest_battery.edges.models import local_wire
from pytest_battery.edges.models.knob_facts import facts
from pytest_battery.edges.models.knob_rows import KnobRow, knob_rows, thinking_fields
from pytest_battery.edges.models.knobs import observed, refuse, wire_fields
from pytest_battery.edges.models.providers import ProviderConfig
from pytest_battery.edges.models.weights import local_model
from pytest_battery.errors import ProviderError
from pytest_battery.values.subjects import Subject

__all__ = ["HostedWording", "LocalWording", "Wording", "speaks"]

_THINKING = ("budget", "thinking")


class Wording(Protocol):
    """How knobs are written for one provider.  Stateless; nothing is sent."""

    @property
    def api(self) -> str: ...

    def check(self, subject: Subject) -> None:
        """Raises `ProviderError` for a knob that cannot be honoured."""
        ...

    def put(self, subject: Subject, body: Mapping[str, Any]) -> dict[str, Any]:
        """*body* with the subject's knobs, and without what contradicts them.  Raises `ProviderError`."""
        ...

    def observed(self, subject: Subject, body: Mapping[str, Any]) -> dict[str, Any]:
        """Knob to value as *body* has it, whoever put it there."""
        ...


def speaks(config: ProviderConfig, api: str) -> None:
    """Raises `ProviderError` where an agent that asks by *api* cannot be answered by the provider of *config*."""
    if config.api != api:
        raise ProviderError(
            f"the agent asks by the API {api}, and the provider {config.name} speaks {config.api}: take an agent that "
            f"speaks {config.api}, or declare a provider with api = {api!r} in battery.toml"
        )


class HostedWording:
    """By the rows of `knobs.toml`, as calls without an agent have it."""

    def __init__(self, config: ProviderConfig) -> None:
        self.api, self._dialect = config.api, config.dialect

    def check(self, subject: Subject) -> None:
        refuse(self.api, subject, self._dialect)

    def put(self, subject: Subject, body: Mapping[str, Any]) -> dict[str, Any]:
        fields = wire_fields(self.api, subject, self._dialect)
        rows = {row.knob: row for row in knob_rows(self.api, subject.model, self._dialect)}
        asked = dict(subject.knobs) | ({} if subject.level is None else {"thinking": subject.level})
        gone: set[str] = set()
        for knob in asked:
            gone |= _paths(self.api, knob)
        for row in rows.values():
            if row.knob not in asked and _contradicts(row, rows, asked):
                gone |= _paths(self.api, row.knob)
        changed = _merged(_without(body, gone), fields)
        return _tidied(self.api, changed)

    def observed(self, subject: Subject, body: Mapping[str, Any]) -> dict[str, Any]:
        return observed(self.api, subject.model, body, self._dialect)


class LocalWording:
    """For the models that llama.cpp runs here, which speak chat completions."""

    api = "openai-chat"

    def check(self, subject: Subject) -> None:
        local_wire.knobs(subject, local_model(subject.model))

    def put(self, subject: Subject, body: Mapping[str, Any]) -> dict[str, Any]:
        fields = local_wire.knobs(subject, local_model(subject.model))
        changed = _without(body, ["max_completion_tokens"] if "max_tokens" in fields else [])
        return {**changed, **fields, "cache_prompt": True}

    def observed(self, subject: Subject, body: Mapping[str, Any]) -> dict[str, Any]:
        return {name: body[name] for name, _ in subject.knobs if name in body}


@cache
def _paths(api: str, knob: str) -> frozenset[str]:
    """Every field in which some model or server of *api* is told of *knob*: an agent may write another than ours."""
    if knob in _THINKING:
        return thinking_fields(api)
    return frozenset(row.field or knob for row in facts().row if row.api == api and knob in row.knobs)


def _contradicts(row: KnobRow, rows: Mapping[str, KnobRow], asked: Mapping[str, str]) -> bool:
    """Whether the knob of *row*, which the subject does not name, does not go with what it does name."""
    thinks = asked.get("thinking", "off") != "off" or asked.get("budget", "0") != "0"
    if any(other in asked or (other == "thinking-on" and thinks) for other in row.excludes):
        return True
    names = {row.knob, *(("thinking-on", "thinking") if row.knob in _THINKING else ())}
    return any(names.intersection(rows[name].excludes) for name in asked if name in rows)


def _without(body: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    """*body* without what stands at *paths*, and without objects that so become empty; *body* itself stays."""
    result = dict(body)
    for path in paths:
        _drop(result, path.split("."))
    return result


def _drop(body: dict[str, Any], path: Sequence[str]) -> None:
    name, *below = path
    if not below:
        body.pop(name, None)
    elif isinstance(inner := body.get(name), Mapping) and below[0] in inner:
        changed = dict(inner)
        _drop(changed, below)
        body[name] = changed
        if not changed:
            del body[name]


def _merged(body: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(body)
    for name, value in fields.items():
        there = result.get(name)
        both = isinstance(there, Mapping) and isinstance(value, Mapping)
        result[name] = _merged(there, value) if both else value  # type: ignore[arg-type]
    return result


def _tidied(api: str, body: dict[str, Any]) -> dict[str, Any]:
    """Without what only goes with thinking where there is none: the providers refuse it."""
    if api == "anthropic":
        thinking = body.get("thinking")
        kind = thinking.get("type") if isinstance(thinking, Mapping) else None
        if kind in ("adaptive", "enabled"):
            return body
        if isinstance(thinking, Mapping):
            body["thinking"] = {"type": kind}
            if kind is None:
                del body["thinking"]
        return _without_thinking_to_clear(body)
    if api == "google":
        told = body.get("generationConfig")
        thinking = told.get("thinkingConfig") if isinstance(told, Mapping) else None
        if isinstance(thinking, Mapping) and thinking.get("thinkingBudget") == 0:
            return _without(body, ["generationConfig.thinkingConfig.includeThoughts"])
    return body


def _without_thinking_to_clear(body: dict[str, Any]) -> dict[str, Any]:
    managed = body.get("context_management")
    edits = managed.get("edits") if isinstance(managed, Mapping) else None
    if not isinstance(managed, Mapping) or not isinstance(edits, list):
        return body
    kept = [
        edit for edit in edits if not (isinstance(edit, Mapping) and str(edit.get("type")).startswith("clear_thinking"))
    ]
    if len(kept) < len(edits):
        body["context_management"] = {**managed, "edits": kept}
        if not kept:
            del body["context_management"]
    return body
