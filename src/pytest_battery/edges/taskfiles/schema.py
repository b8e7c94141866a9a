"""The format of a task file, as pydantic models; unknown keys are refused."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from datetime import date, time
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from pytest_battery.edges.taskfiles.text import toml_type
from pytest_battery.errors import SubjectError
from pytest_battery.values.names import id_fault
from pytest_battery.values.subjects import parse_subject

__all__ = ["CaseModel", "CorpusTable", "Document", "TaskTable", "faults_of"]

_TAG = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
_TAKEN = frozenset(
    [
        "and",
        "anyio",
        "asyncio",
        "battery",
        "filterwarnings",
        "flaky",
        "not",
        "or",
        "parametrize",
        "skip",
        "skipif",
        "stack",
        "subject",
        "timeout",
        "usefixtures",
        "xfail",
    ]
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_KEPT_VARIABLES = frozenset({"HOME", "LANG", "LOGNAME", "SHELL", "TERM", "TMPDIR", "USER"})
_LEADS_ASTRAY = re.compile(
    r"(LD_|DYLD_).*|[A-Z_]*PATH|([A-Z_]*_)?(OPTIONS|OPTS)|BASH_ENV|ENV|IFS|PYTHON(HOME|STARTUP)", re.IGNORECASE
)
"""Variables that say where programs, or code to be run before them, are looked for."""
_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)\Z", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\t\n\r]")


def _refuse(message: str) -> PydanticCustomError:
    return PydanticCustomError("battery", "{message}", {"message": message})


def _relative(path: str) -> str:
    if found := _CONTROL.search(path):
        raise _refuse(
            f"{path!r} holds the control character {found.group()!r}: a backslash in double quotes is an escape; "
            "write paths in 'single quotes', with /"
        )
    if path.startswith(("/", "\\", "~")) or re.match(r"[A-Za-z]:", path):
        raise _refuse(f"{path!r} is absolute; a path is relative to the task file and stays inside the project")
    return path


def _tag(tag: str) -> str:
    if not _TAG.match(tag):
        raise _refuse(f"{tag!r} cannot be a mark: use letters, digits and _, beginning with a letter")
    if tag in _TAKEN:
        raise _refuse(f"{tag!r} is a mark that pytest or a plugin gives another meaning; choose another name")
    return tag


def _id(text: str) -> str:
    if fault := id_fault(text):
        raise _refuse(fault)
    return text


def _subject(text: str) -> str:
    try:
        parse_subject(text)
    except SubjectError as error:
        raise _refuse(str(error)) from None
    return text


PathText = Annotated[StrictStr, AfterValidator(_relative)]
Number = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Id = Annotated[StrictStr, AfterValidator(_id)]
SubjectText = Annotated[StrictStr, AfterValidator(_subject)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TextSource(_Table):
    """Exactly one of ``text``, ``file`` and ``production``."""

    text: StrictStr | None = None
    file: PathText | None = None
    production: StrictStr | None = None
    style: Literal["jinja", "format", "plain"] = "jinja"


def _schema(value: Any) -> Any:
    if isinstance(value, str):
        return _relative(value)
    if isinstance(value, dict):
        return value
    raise _refuse(f"should be the path of a .json file, or a table; found {toml_type(value)}, {value!r}")


class Output(_Table):
    json_schema: Annotated[Any, AfterValidator(_schema)]


class ExpectTable(_Table):
    """Tokens of a run, before any was measured."""

    input: Annotated[StrictInt, Field(ge=0)]
    output: Annotated[StrictInt, Field(ge=0)]


def _env(found: dict[str, str]) -> dict[str, str]:
    for name in found:
        if not _VARIABLE.match(name):
            raise _refuse(f"names {name!r}, which is no name of a variable")
        if name.upper().startswith("GIT_") or name in _KEPT_VARIABLES or _LEADS_ASTRAY.fullmatch(name):
            raise _refuse(f"sets {name}, which is the sandbox's own")
        if _SECRET.search(name):
            raise _refuse(f"sets {name}: no credential goes into a sandbox; the relay adds it outside")
        if "\0" in found[name]:
            raise _refuse(f"sets {name} to a text with a NUL character, which no variable can hold")
    return found


def _once(found: list[str]) -> list[str]:
    for index, name in enumerate(found):
        if name in found[:index]:
            raise _refuse(f"names {name!r} twice")
    return found


class CorpusTable(_Table):
    """What an agent works on: a repository, a bundle or a directory of the project, and a tag or commit of it."""

    repo: PathText
    pin: Annotated[StrictStr, Field(min_length=1)] | None = None


class TaskTable(_Table):
    title: Annotated[StrictStr, Field(min_length=1)]
    kind: Literal["call", "steps", "python", "agent"]
    runs: Annotated[StrictInt, Field(ge=1, le=10_000)]
    timeout: Number
    tags: list[Annotated[StrictStr, AfterValidator(_tag)]] = []
    cases: PathText | None = None
    subjects: list[SubjectText] = []
    prompt: TextSource | None = None
    driver: StrictStr | None = None
    append: StrictStr | None = None
    system: TextSource | None = None
    output: Output | None = None
    expect: ExpectTable | None = None
    agent: Literal["loop", "pi", "claude-code", "codex", "mini-swe-agent"] | None = None
    corpus: CorpusTable | None = None
    tools: Annotated[list[StrictStr], AfterValidator(_once)] | None = None
    env: Annotated[dict[StrictStr, StrictStr], AfterValidator(_env)] | None = None
    max_turns: Annotated[StrictInt, Field(ge=1)] | None = None
    sandbox: Literal["none"] | None = None
    stacks: Annotated[list[Id], Field(min_length=1), AfterValidator(_once)] | None = None
    hidden: list[PathText] | None = None


class StepTable(_Table):
    id: Id
    prompt: TextSource


class ScorerTable(BaseModel):
    """``use`` names a registered scorer; what stands beside it is the scorer's to check."""

    model_config = ConfigDict(extra="allow", frozen=True)
    use: StrictStr


class MetricTable(_Table):
    better: Literal["higher", "lower"]
    primary: StrictBool = False
    aggregate: Literal["median", "mean"] = "median"
    care: Number | None = None


class ReferenceTable(_Table):
    subject: SubjectText | None = None
    stack: StrictStr | None = None


class VerdictTable(_Table):
    reference: ReferenceTable


class ControlsTable(_Table):
    """Subjects that are measured to see whether the battery can tell: what they must come out as is known."""

    worse: list[SubjectText] = []
    same: list[SubjectText] = []


class CaseModel(BaseModel):
    """A case as written: an id, and whatever fields it has."""

    model_config = ConfigDict(extra="allow", frozen=True)
    id: Id


class Document(_Table):
    """A whole task file."""

    task: TaskTable
    scorer: ScorerTable
    metrics: Annotated[dict[Id, MetricTable], Field(min_length=1)]
    verdict: VerdictTable | None = None
    controls: ControlsTable | None = None
    step: list[StepTable] = []
    case: list[dict[str, Any]] = []


def faults_of(error: ValidationError) -> Iterable[tuple[tuple[str | int, ...], str]]:
    """Each fault as (path of the key, what was found and what is allowed)."""
    for detail in error.errors(include_url=False):
        yield detail["loc"], _sentence(detail, detail["loc"])


def _sentence(detail: ErrorDetails, path: tuple[str | int, ...]) -> str:
    kind, found = detail["type"], detail["input"]
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return f"is not known here{_did_you_mean(path)}"
    if kind == "battery":
        return str(detail["msg"])
    if kind in ("string_too_short", "too_short"):
        return "is empty"
    if isinstance(found, date | time):
        return f"should be {_wanted(detail)}; found {toml_type(found)}, {found} (write it in quotes)"
    shown = f"{toml_type(found)}" if isinstance(found, dict | list) else f"{toml_type(found)}, {found!r}"
    return f"should be {_wanted(detail)}; found {shown}"


def _wanted(detail: ErrorDetails) -> str:
    message = detail["msg"].removeprefix("Input should be ").replace("a valid integer", "an integer")
    return message.replace("a valid list", "an array").replace("a valid dictionary", "a table").replace("valid ", "")


_KNOWN: Mapping[tuple[str, ...], type[BaseModel]] = {
    (): Document,
    ("task",): TaskTable,
    ("task", "prompt"): TextSource,
    ("task", "system"): TextSource,
    ("task", "output"): Output,
    ("task", "expect"): ExpectTable,
    ("task", "corpus"): CorpusTable,
    ("metrics", "*"): MetricTable,
    ("verdict",): VerdictTable,
    ("controls",): ControlsTable,
    ("step", "*"): StepTable,
    ("step", "*", "prompt"): TextSource,
    ("verdict", "reference"): ReferenceTable,
}


def _did_you_mean(path: tuple[str | int, ...]) -> str:
    above = tuple(str(part) for part in path[:-1])
    listed = (above[0], "*", *above[2:]) if above[:1] in (("metrics",), ("step",)) and len(above) > 1 else above
    model = _KNOWN.get(listed)
    if model is None:
        return ""
    names = list(model.model_fields)
    close = difflib.get_close_matches(str(path[-1]), names, n=1, cutoff=0.7)
    guess = f"; did you mean {close[0]!r}?" if close else ""
    return f"{guess or ';'} known keys: {', '.join(names)}"
