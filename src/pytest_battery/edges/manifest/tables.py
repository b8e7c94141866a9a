"""The format of the manifest, as pydantic models; unknown keys are refused.

It may never set what a task must say.
"""

from __future__ import annotations

import difflib
import re
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationInfo,
)
from pydantic_core import PydanticCustomError

from pytest_battery.edges.manifest.credentials import carries_credentials, looks_like_a_key, names_a_variable
from pytest_battery.edges.taskfiles.text import toml_type
from pytest_battery.errors import SubjectError
from pytest_battery.values.names import id_fault
from pytest_battery.values.stacks import AGENTS, BARE, BRICK_KINDS, NONE, BrickKind
from pytest_battery.values.subjects import Subject, Sweep, cross, parse_subject, parse_sweep

__all__ = ["BrickTable", "Manifest", "PriceTable", "ProductionTable", "ProviderTable", "SliceTable", "StackTable"]

_PROVIDER = re.compile(r"[a-z0-9_-]+\Z")
_OWN = "local"
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]*\Z")
_EXTENSIONS = (".cjs", ".js", ".mjs", ".mts", ".ts")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def _refuse(message: str) -> PydanticCustomError:
    return PydanticCustomError("battery", "{message}", {"message": message})


def _provider(name: str) -> str:
    if not _PROVIDER.match(name) or name == _OWN:
        raise _refuse(
            f"cannot be a provider's name: small letters, digits, - and _; {_OWN} is the plugin's own provider"
        )
    return name


def _url(text: str) -> str:
    # Before anything is repeated: a URL that cannot be read may hold a password all the same.
    if any(sign in text for sign in "@?#") or any(map(looks_like_a_key, text.split("/"))):
        raise _refuse("holds credentials or a query; a base URL is scheme, host and path, and keys come from key_env")
    try:
        parts = urlsplit(text)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole or re.search(r"[\s\\\x00-\x1f\x7f]", text):
        raise _refuse(
            f"is {text!r}; it begins with http:// or https://, and goes on with a host, a port or none, a path"
        )
    return text


def _variable(text: str) -> str:
    if not names_a_variable(text):
        raise _refuse(
            "is not the name of a variable; the key itself never stands in a file: write the variable that holds it"
        )
    return text


def _argument(text: str) -> str:
    if looks_like_a_key(text):
        raise _refuse("looks like a credential, which never stands in a file: write a command that prints it")
    return text


def _headers(found: dict[str, str]) -> dict[str, str]:
    for name, value in found.items():
        if carries_credentials(name):
            raise _refuse(f"holds {name}, which is for a credential: use key_env or key_command")
        if looks_like_a_key(value):
            raise _refuse(f"holds {name}, whose value looks like a credential: use key_env or key_command")
    return found


def _key_command(found: list[str] | None, info: ValidationInfo) -> list[str] | None:
    if found is not None and info.data.get("key_env") is not None:
        raise _refuse("and key_env are both given; keep one of them")
    return found


def _dialect(found: str | None, info: ValidationInfo) -> str | None:
    if found is not None and (api := info.data.get("api", "openai-chat")) != "openai-chat":
        raise _refuse(f'is for api = "openai-chat"; this one is {api!r}')
    return found


def _price(found: Any) -> Any:
    if isinstance(found, dict):
        return found
    if type(found) in (int, float) and found == 0:
        return {"input": 0, "output": 0}
    raise _refuse(f"should be a table {{ input, output, cache_read, cache_write }}, or 0; found {toml_type(found)}")


def _subject(text: str) -> str:
    try:
        parse_subject(text)
    except SubjectError as error:
        raise _refuse(str(error)) from None
    return text


def _once(found: list[str]) -> list[str]:
    for text in found:
        if found.count(text) > 1:
            raise _refuse(f"lists {text} twice")
    return found


def _subjects(found: list[str]) -> list[str]:
    _once([parse_subject(text).key for text in found])
    return found


def _sweep(found: dict[str, list[Any]]) -> dict[str, list[Any]]:
    knobs = [sweep.knob for sweep in _sweeps(found)]
    for knob in knobs:
        if knobs.count(knob) > 1:
            raise _refuse(f"gives the knob {knob} twice")
    return found


def _sweeps(found: dict[str, list[Any]]) -> list[Sweep]:
    sweeps = []
    for knob, values in found.items():
        texts = []
        for value in values:
            if not isinstance(value, str | int | float) or (isinstance(value, str) and "," in value):
                raise _refuse(
                    f"{knob} has {toml_type(value)}, {value!r}, for a value; one is a word without a comma, a number or a boolean"
                )
            texts.append(str(value).lower() if isinstance(value, bool) else str(value))
        try:
            sweeps.append(parse_sweep(f"{knob}={','.join(texts)}"))
        except SubjectError as error:
            raise _refuse(str(error).removeprefix("--sweep ")) from None
    return sweeps


def _name(text: str) -> str:
    if fault := id_fault(text):
        raise _refuse(fault)
    return text


def _stack(name: str) -> str:
    if name in (BARE, NONE.key):
        what = "an agent without bricks" if name == BARE else "a plain call without an agent"
        raise _refuse(f"is a name of the plugin's own, for {what}; choose another one")
    return _name(name)


def _agent(found: str) -> str:
    if found not in AGENTS:
        close = difflib.get_close_matches(found, AGENTS, n=1, cutoff=0.6)
        guess = f"; did you mean {close[0]!r}?" if close else ";"
        raise _refuse(f"is {found!r}{guess} agents: {', '.join(AGENTS)}")
    return found


def _version(text: str) -> str:
    if not _VERSION.match(text):
        raise _refuse(f"is {text!r}; one version, as in 1.6.0: letters, digits and . + _ -")
    return text


def _brick(found: Any) -> Any:
    """``"a.ts"`` and ``{ skill = "b" }`` as tables of kind and path."""
    kinds = ", ".join(BRICK_KINDS)
    if isinstance(found, str):
        if not found.lower().endswith(_EXTENSIONS):
            raise _refuse(
                f"is {found!r}, whose kind its name does not tell: write {{ KIND = {found!r} }}, KIND one of {kinds}"
            )
        return {"kind": "extension", "path": found}
    if not isinstance(found, dict):
        raise _refuse(f'should be a path, or a table as {{ skill = "PATH" }}; found {toml_type(found)}, {found!r}')
    for name in found:
        if name not in BRICK_KINDS:
            close = difflib.get_close_matches(name, BRICK_KINDS, n=1, cutoff=0.7)
            guess = f"; did you mean {close[0]!r}?" if close else ";"
            raise _refuse(f"has the kind {name!r}, which is not known here{guess} known: {kinds}")
    if len(found) != 1:
        raise _refuse(f"has {len(found)} kinds; a brick has one of {kinds}")
    ((kind, path),) = found.items()
    if not isinstance(path, str):
        raise _refuse(f"has {toml_type(path)} for its path, {path!r}; a path is a string")
    return {"kind": kind, "path": path}


def _below_the_root(path: str) -> str:
    if found := _CONTROL.search(path):
        raise _refuse(
            f"{path!r} holds the control character {found.group()!r}: a backslash in double quotes is an escape; "
            "write paths in 'single quotes', with /"
        )
    if path.startswith(("/", "\\", "~")) or re.match(r"[A-Za-z]:", path):
        raise _refuse(f"{path!r} is absolute; a brick's path is relative to the project's root, and stays inside")
    if ".." in re.split(r"[/\\]", path) or PurePosixPath(path) == PurePosixPath("."):
        raise _refuse(f"{path!r} is no path below the project's root; write one without ..")
    return path


def _bricks_once(found: list[BrickTable]) -> list[BrickTable]:
    places = [PurePosixPath(brick.path) for brick in found]
    for place in places:
        if places.count(place) > 1:
            raise _refuse(f"lists {place} twice")
    return found


Amount = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
SubjectText = Annotated[StrictStr, AfterValidator(_subject)]
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
    """Where a provider is, and how it is asked.  ``price = 0`` is read as a table of zeros."""

    api: Literal["openai-chat", "openai-responses", "anthropic", "google"]
    base_url: Annotated[StrictStr, AfterValidator(_url)]
    key_env: Annotated[StrictStr, AfterValidator(_variable)] | None = None
    key_command: Annotated[
        Annotated[list[Annotated[StrictStr, AfterValidator(_argument)]], Field(min_length=1)] | None,
        AfterValidator(_key_command),
    ] = None
    price: Annotated[PriceTable, BeforeValidator(_price)] | None = None
    max_in_flight: Annotated[StrictInt, Field(ge=1)] | None = None
    dialect: Annotated[Literal["openrouter", "ollama", "vllm", "llamacpp"] | None, AfterValidator(_dialect)] = None
    stream: StrictBool = False
    headers: Annotated[dict[StrictStr, StrictStr], AfterValidator(_headers)] = {}


class ProductionTable(_Table):
    subject: SubjectText
    stack: Id = "none"
    why: StrictStr = ""


class SliceTable(_Table):
    """What of one task the battery should hold."""

    task: Id
    subjects: Annotated[list[SubjectText], Field(min_length=1), AfterValidator(_subjects)]
    sweep: Annotated[dict[StrictStr, list[Any]], AfterValidator(_sweep)] = {}
    stacks: Annotated[list[Id], Field(min_length=1), AfterValidator(_once)] = ["none"]
    runs: Annotated[StrictInt, Field(ge=1)] | None = None
    production: ProductionTable | None = None

    def swept(self) -> tuple[Subject, ...]:
        """The subjects to be measured: each with every combination of the sweep's values, once."""
        return cross(map(parse_subject, self.subjects), _sweeps(self.sweep))


class BrickTable(_Table):
    """One piece of harness, by its path from the project's root; written as ``"a.ts"`` or ``{ skill = "b" }``."""

    kind: BrickKind
    path: Annotated[StrictStr, AfterValidator(_below_the_root)]


class StackTable(_Table):
    """The harness that an agent runs under."""

    agent: Annotated[StrictStr, AfterValidator(_agent)]
    version: Annotated[StrictStr, AfterValidator(_version)] | None = None
    bricks: Annotated[list[Annotated[BrickTable, BeforeValidator(_brick)]], AfterValidator(_bricks_once)] = []


class Manifest(_Table):
    """A whole manifest; an empty one where there is no file.  ``lab`` is for those that read it."""

    providers: dict[Annotated[StrictStr, AfterValidator(_provider)], ProviderTable] = {}
    slice: list[SliceTable] = []
    stacks: dict[Annotated[StrictStr, AfterValidator(_stack)], StackTable] = {}
    lab: dict[str, Any] = {}
