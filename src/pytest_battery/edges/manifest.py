"""``battery.toml`` at the project's root: where things are, and what the battery should hold.

It may never set what a task must say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, ValidationError
from pydantic_core import PydanticCustomError

from pytest_battery.edges.taskfiles.text import KeyLines, parse_toml, toml_type
from pytest_battery.errors import ManifestError, SubjectError
from pytest_battery.values.names import id_fault
from pytest_battery.values.subjects import parse_subject, parse_sweep

__all__ = ["MANIFEST", "Manifest", "PriceTable", "ProviderTable", "SliceTable", "load_manifest"]

MANIFEST = "battery.toml"

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
_PROVIDER = re.compile(r"[a-z0-9][a-z0-9_-]*\Z")
_SECRET_HEADERS = frozenset(
    {"authorization", "x-api-key", "x-goog-api-key", "cookie", "proxy-authorization", "api-key"}
)
_OWN = ("local",)


def _refuse(message: str) -> PydanticCustomError:
    return PydanticCustomError("battery", "{message}", {"message": message})


def _url(text: str) -> str:
    if not re.match(r"https?://[^/]", text):
        raise _refuse(f"is {text!r}; it begins with http:// or https://")
    host = text.partition("://")[2].partition("/")[0]
    if "@" in host or "?" in text or "#" in text:
        raise _refuse("holds credentials or a query; a base URL is scheme, host and path, and keys come from key_env")
    return text


def _variable(text: str) -> str:
    if not _VARIABLE.match(text):
        raise _refuse(
            "is not the name of a variable; the key itself never stands in a file: write the variable that holds it"
        )
    return text


def _headers(found: dict[str, str]) -> dict[str, str]:
    for name in found:
        if name.lower() in _SECRET_HEADERS:
            raise _refuse(f"holds {name}, which is a credential: use key_env or key_command")
    return found


def _subject(text: str) -> str:
    try:
        parse_subject(text)
    except SubjectError as error:
        raise _refuse(str(error)) from None
    return text


def _sweeps(found: dict[str, list[Any]]) -> dict[str, list[Any]]:
    for knob, values in found.items():
        try:
            parse_sweep(f"{knob}={','.join(map(str, values))}")
        except SubjectError as error:
            raise _refuse(str(error)) from None
    return found


def _name(text: str) -> str:
    if fault := id_fault(text):
        raise _refuse(fault)
    return text


Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Subject = Annotated[StrictStr, AfterValidator(_subject)]
Id = Annotated[StrictStr, AfterValidator(_name)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PriceTable(_Table):
    """USD per million tokens; the cache's are the input's where they are not given."""

    input: Amount
    output: Amount
    cache_read: Amount | None = None
    cache_write: Amount | None = None


class ProviderTable(_Table):
    api: Literal["openai-chat", "openai-responses", "anthropic", "google"]
    base_url: Annotated[StrictStr, AfterValidator(_url)]
    key_env: Annotated[StrictStr, AfterValidator(_variable)] | None = None
    key_command: Annotated[list[StrictStr], Field(min_length=1)] | None = None
    price: PriceTable | Literal[0] | None = None
    max_in_flight: Annotated[StrictInt, Field(ge=1)] | None = None
    dialect: Literal["openrouter", "ollama", "vllm", "llamacpp"] | None = None
    stream: StrictBool = False
    headers: Annotated[dict[StrictStr, StrictStr], AfterValidator(_headers)] = {}


class ProductionTable(_Table):
    subject: Subject
    stack: Id = "none"
    why: StrictStr = ""


class SliceTable(_Table):
    """What of one task the battery should hold."""

    task: Id
    subjects: Annotated[list[Subject], Field(min_length=1)]
    sweep: Annotated[dict[StrictStr, list[Any]], AfterValidator(_sweeps)] = {}
    stacks: list[Id] = ["none"]
    runs: Annotated[StrictInt, Field(ge=1)] | None = None
    production: ProductionTable | None = None


class Manifest(_Table):
    """A whole manifest; an empty one where there is no file.  ``stacks`` and ``lab`` are for those that read them."""

    providers: dict[StrictStr, ProviderTable] = {}
    slice: list[SliceTable] = []
    stacks: dict[StrictStr, dict[str, Any]] = {}
    lab: dict[str, Any] = {}


def load_manifest(root: Path) -> Manifest:
    """The manifest of the project at *root*.  Raises `ManifestError` with every fault found, each as FILE:LINE: KEY WHAT."""
    path = root / MANIFEST
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return Manifest()
    except OSError as error:
        raise ManifestError(path, [f"{MANIFEST}: cannot be read: {error.strerror}"]) from None
    try:
        document = parse_toml(content)
    except ValueError as error:
        raise ManifestError(path, [f"{MANIFEST}:{error}"]) from None
    lines = KeyLines(content.decode("utf-8"))
    faults = []
    try:
        manifest = Manifest.model_validate(document)
    except ValidationError as error:
        for found in error.errors(include_url=False):
            where = [part for part in found["loc"] if part not in ("PriceTable", "literal[0]")]
            key = ".".join(map(str, where))
            faults.append(f"{MANIFEST}:{lines.of(*where)}: {key} {_sentence(found)}")
        raise ManifestError(path, list(dict.fromkeys(faults))) from None
    faults += [
        f"{MANIFEST}:{lines.of(*where)}: {'.'.join(map(str, where))} {what}"
        for where, what in _contradictions(manifest)
    ]
    if faults:
        raise ManifestError(path, faults)
    return manifest


def _contradictions(manifest: Manifest) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for name, provider in manifest.providers.items():
        place = ("providers", name)
        if not _PROVIDER.match(name) or name in _OWN:
            yield place, "cannot be a provider's name: small letters, digits, - and _; local is the plugin's own"
        if provider.key_env and provider.key_command:
            yield (*place, "key_command"), "and key_env are both given; keep one of them"
        if provider.dialect and provider.api != "openai-chat":
            yield (*place, "dialect"), f'is for api = "openai-chat"; this one is {provider.api!r}'
    seen: set[tuple[str, str, str]] = set()
    for index, one in enumerate(manifest.slice):
        for stack in one.stacks:
            for subject in one.subjects:
                key = (one.task, parse_subject(subject).key, stack)
                if key in seen:
                    yield (
                        ("slice", index),
                        f"lists {key[0]} with {key[1]} under {key[2]}, which another place lists too",
                    )
                seen.add(key)


def _sentence(found: Any) -> str:
    kind, value = found["type"], found["input"]
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        known = {1: ", ".join(Manifest.model_fields), 3: ", ".join(ProviderTable.model_fields)}
        if found["loc"][:1] == ("slice",):
            known[3] = ", ".join(SliceTable.model_fields)
        names = known.get(len(found["loc"]))
        return "is not known here" + (f"; known: {names}" if names else "")
    if kind == "battery":
        return str(found["msg"])
    message = str(found["msg"]).removeprefix("Input should be ").replace("valid ", "")
    return f"should be {message}; found {toml_type(value)}"
