r"""The scorer ``matchers``: what the reply must be, hold or match.

    [scorer]
    use = "matchers"
    regex = '^\s*{{ case.team }}\s*$'     # one pattern or a list; each must match somewhere in the reply
    equals = "{{ case.expect }}"          # the reply without the white space around it
    contains = ["{{ case.name }}"]        # one text or a list; each must stand in the reply
    paths = "{{ case.paths }}"            # a list, or a template giving one; each must be cited whole
    json_schema = "schemas/label.json"    # a file below the task file's directory, or an inline table
    ignore_case = true                    # for regex, equals and contains

Metrics: ``correct``, true when all given matchers are, and one boolean per given matcher, named like its option.

Values may be templates over ``case`` (see `templates`): what they put into a pattern is escaped.  Both sides are
compared in Unicode form NFC with LF line ends (see `plain_text`); ``11`` equals neither ``11.0`` nor ``711``.  The
dialect of patterns is described in `patterns`, how paths are read in `paths_cited`, which JSON of a reply counts in
`json_text`, and what a schema may hold in `json_schemas`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_battery.errors import ScoringError
from pytest_battery.scoring.json_text import NoJsonError, find_json
from pytest_battery.scoring.paths_cited import cited_paths, plain_path
from pytest_battery.scoring.patterns import control_character_fault, pattern_fault, searches
from pytest_battery.scoring.plain_text import excerpt, fold_case, plain_text
from pytest_battery.scoring.scorers import Score, View
from pytest_battery.scoring.templates import Template, did_you_mean, pattern_template, text_template
from pytest_battery.values.canonical import digest
from pytest_battery.values.cases import Case

if TYPE_CHECKING:
    from pytest_battery.scoring.json_schemas import SchemaTemplate

__all__ = ["MAX_REASON", "Matchers"]

MAX_REASON = 120
"""Characters of a reason at most."""

_PASSES_ALL = "any reply would pass; expect something, or leave the option out"
_IGNORING_CASE = ("regex", "equals", "contains")
_ENDINGS = {
    "length": "cut at max_tokens (stop reason length)",
    "refusal": "refused",
    "filtered": "blocked by the provider (stop reason filtered)",
}
_SOURCES = ("json_schemas", "json_text", "matchers", "paths_cited", "patterns", "plain_text", "templates")


@dataclass(frozen=True, slots=True)
class _Matcher:
    """``check`` raises `ScoringError`; ``fault`` says what is wrong with a (plain) text, None when it matches."""

    check: Callable[[Case], object]
    fault: Callable[[Case, str], str | None]


class Matchers:
    """A `Scorer`; raises `ScoringError` for options that are unknown, of a wrong type, or cannot work for any case."""

    name = "matchers"

    def __init__(self, options: Mapping[str, Any], task_directory: Path) -> None:
        self._options = dict(options)
        self._directory = task_directory
        makers: dict[str, Callable[[Any], _Matcher]] = {
            "regex": self._regex,
            "equals": self._equals,
            "contains": self._contains,
            "paths": self._paths,
            "json_schema": self._json_schema,
        }
        allowed = [*makers, "ignore_case"]
        for option in options:
            if option not in allowed:
                near = did_you_mean(option, allowed)
                raise ScoringError(f"'matchers' has no option {option!r}{near}; its options are {', '.join(allowed)}")
        self._ignore_case = self._flag()
        self._schema: SchemaTemplate | None = None
        self._matchers = {option: make(options[option]) for option, make in makers.items() if option in options}
        if not self._matchers:
            raise ScoringError(f"scorer 'matchers' is given nothing to match: give at least one of {', '.join(makers)}")

    def check(self, case: Case) -> None:
        for matcher in self._matchers.values():
            matcher.check(case)

    def score(self, case: Case, view: View) -> Score:
        text = plain_text(view.text)
        ending = _ending(text, view.stop_reason)
        metrics: dict[str, bool] = {}
        reasons: dict[str, str] = {}
        for option, matcher in self._matchers.items():
            fault = matcher.fault(case, text)
            metrics[option] = fault is None
            if fault is not None:
                reasons[option] = _cut(fault if not ending else f"{ending}; {fault}" if text.strip() else ending)
        correct = all(metrics.values())
        if not correct:
            reasons["correct"] = _cut(ending or "; ".join(f"{option}: {reason}" for option, reason in reasons.items()))
        return Score({"correct": correct, **metrics}, reasons)

    def identity(self) -> Mapping[str, Any]:
        options = dict(self._options)
        if self._schema is not None:
            options["json_schema"] = self._schema.source  # the content, wherever the file lies
        return {"source": _source_digest(), "options": options}

    def _flag(self) -> bool:
        flag = self._options.get("ignore_case", False)
        if not isinstance(flag, bool):
            raise ScoringError(f"ignore_case is {flag!r}; it is true or false")
        if flag and not any(option in self._options for option in _IGNORING_CASE):
            raise ScoringError(f"ignore_case changes nothing here: it is for {', '.join(_IGNORING_CASE)}")
        return flag

    def _regex(self, option: Any) -> _Matcher:
        for source in _texts("regex", option):
            _refuse_control_characters("regex", source)
        patterns = _listed("regex", option, pattern_template)

        def check(case: Case) -> None:
            for pattern in patterns(case):
                fault = pattern_fault(pattern)
                if fault:
                    raise ScoringError(f"regex: {fault}")

        def fault(case: Case, text: str) -> str | None:
            missing = [pattern for pattern in patterns(case) if not searches(pattern, text, self._ignore_case)]
            return f"found {excerpt(text, 50)}, no match for {excerpt(missing[0], 50)}" if missing else None

        return _Matcher(check, fault)

    def _equals(self, option: Any) -> _Matcher:
        if not isinstance(option, str):
            raise ScoringError(f"equals is {option!r}, a {type(option).__name__}; it is a string")
        template = text_template(option, "equals")

        def fault(case: Case, text: str) -> str | None:
            expected, found = template.render(case).strip(), text.strip()
            same = self._folded(expected) == self._folded(found)
            return None if same else f"found {excerpt(found, 50)}, expected {excerpt(expected, 50)}"

        return _Matcher(template.render, fault)

    def _contains(self, option: Any) -> _Matcher:
        parts = _listed("contains", option, text_template)

        def fault(case: Case, text: str) -> str | None:
            whole = self._folded(text)
            missing = [part for part in parts(case) if self._folded(part) not in whole]
            return f"found {excerpt(text, 50)}, without {excerpt(missing[0], 50)}" if missing else None

        return _Matcher(parts, fault)

    def _paths(self, option: Any) -> _Matcher:
        for source in _texts("paths", option):
            _refuse_control_characters("paths", source)
        templated = _listed("paths", option, text_template)

        def paths(case: Case) -> list[str]:
            return [_whole_path(path) for path in templated(case)]

        def fault(case: Case, text: str) -> str | None:
            wanted = paths(case)
            cited = cited_paths(text, wanted)
            missing = [path for path in wanted if path not in cited]
            return f"found {excerpt(text, 50)}, which does not cite {excerpt(missing[0], 50)}" if missing else None

        return _Matcher(paths, fault)

    def _json_schema(self, option: Any) -> _Matcher:
        from pytest_battery.scoring.json_schemas import SchemaTemplate, read_schema  # a tenth of a second to import

        if isinstance(option, str):
            option = read_schema(option, self._directory, "json_schema")
        elif not isinstance(option, Mapping):
            kind = type(option).__name__
            raise ScoringError(f"json_schema is a {kind}; it is the path of a .json file, or the schema as a table")
        schema = self._schema = SchemaTemplate(option, "json_schema")

        def fault(case: Case, text: str) -> str | None:
            try:
                return schema.fault(find_json(text), case)
            except NoJsonError as error:
                return f"{error}: {excerpt(text, 60)}"

        return _Matcher(schema.check, fault)

    def _folded(self, text: str) -> str:
        return fold_case(text) if self._ignore_case else text


def _texts(name: str, option: Any) -> list[str]:
    texts = option if isinstance(option, list | tuple) else [option]
    for text in texts:
        if not isinstance(text, str):
            raise ScoringError(f"{name}: {text!r} is a {type(text).__name__}; {name} is a string or a list of strings")
    return list(texts)


def _listed(name: str, option: Any, make: Callable[[str, str], Template]) -> Callable[[Case], list[str]]:
    """A function that gives the texts of *option* for a case: at least one, none empty."""
    templates = [make(text, name) for text in _texts(name, option)]

    def texts(case: Case) -> list[str]:
        found = [text for template in templates for text in template.texts(case)]
        if not found or not all(found):
            what = "an empty list" if not found else "an empty text"
            raise ScoringError(f"{name} is {what}: {_PASSES_ALL}")
        return found

    if not templates or not all(template.source for template in templates):
        raise ScoringError(f"{name} is empty: {_PASSES_ALL}")
    return texts


def _refuse_control_characters(name: str, source: str) -> None:
    fault = control_character_fault(source)
    if fault:
        raise ScoringError(f"{name}: {fault}")


def _whole_path(path: str) -> str:
    plain = plain_path(path)
    if plain is None:
        raise ScoringError(
            f"paths: {path!r} cannot be expected: write a path relative to the root of the files, that stays inside it"
        )
    return plain


def _ending(text: str, stop_reason: str) -> str:
    """What is to say of a reply that is no whole answer; "" for one that is."""
    said = [] if text.strip() else ["no answer: the reply was empty"]
    if stop_reason in _ENDINGS:
        said.append(_ENDINGS[stop_reason])
    return "; ".join(said)


def _cut(reason: str) -> str:
    return reason if len(reason) <= MAX_REASON else reason[: MAX_REASON - 3] + "..."


@functools.cache
def _source_digest() -> str:
    here = Path(__file__).parent
    return digest([(here / f"{name}.py").read_text(encoding="utf-8") for name in _SOURCES])
