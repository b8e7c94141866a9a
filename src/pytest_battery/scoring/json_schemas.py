"""JSON Schemas (draft 2020-12) whose strings may be templates over the case.

A string that is exactly one ``{{ expression }}`` becomes the expression's value (a number stays a number); in any other
its values are written as text; under ``pattern`` they are escaped.  Patterns run on the linear-time engine of
`patterns`; ``patternProperties``, which cannot, is refused.  A ``$ref`` stays inside the schema: nothing is fetched.
``format`` describes and is not checked, as the draft has it; 1 and 1.0 are the same number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from jsonschema import Draft202012Validator, ValidationError, validators
from jsonschema.exceptions import SchemaError, best_match
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY

from pytest_battery.errors import ScoringError
from pytest_battery.scoring.patterns import control_character_fault, pattern_fault, searches
from pytest_battery.scoring.plain_text import excerpt, plain_text
from pytest_battery.scoring.templates import Template, pattern_template, text_template
from pytest_battery.values.cases import Case

__all__ = ["SchemaTemplate", "read_schema"]

_DATA = {"const", "default", "enum", "examples"}
"""Keywords whose value is data, in which nothing is a keyword."""


def _matches_pattern(_: Any, pattern: str, instance: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not searches(pattern, instance):
        yield ValidationError(f"{excerpt(instance, 60)} does not match {pattern!r}")


_extend: Any = validators.extend  # untyped
_Validator = _extend(Draft202012Validator, {"pattern": _matches_pattern})


class SchemaTemplate:
    """A schema as the task gives it.  ``where`` names the option in messages.

    Raises `ScoringError` for what is no schema; one with templates can be judged for a case only, by `check`.
    """

    def __init__(self, schema: Mapping[str, Any], where: str) -> None:
        self.source = schema
        self._where = where
        self._constant = True
        self._render = self._compiled(schema, where, pattern=False)
        if self._constant:
            _check_schema(dict(schema), where)

    def check(self, case: Case) -> None:
        """Raise `ScoringError` where the schema cannot be made, or is none, for *case*."""
        if not self._constant:
            _check_schema(self._render(case), self._where)

    def fault(self, value: Any, case: Case) -> str | None:
        """Where and why *value* does not follow the schema of *case*, in one sentence, or None if it does."""
        validator = _Validator(self._render(case), registry=EMPTY_REGISTRY)
        try:
            error = best_match(validator.iter_errors(value))
        except RecursionError:
            return "the JSON is nested too deeply to be checked"
        except OverflowError:
            return "a number in the JSON is too large to be checked"
        except Exception as error:  # a $ref that leads nowhere shows only when it is followed
            raise ScoringError(f"{self._where}: the schema cannot be applied: {error}") from error
        return None if error is None else _sentence(error)

    def _compiled(self, node: Any, where: str, pattern: bool) -> Callable[[Case], Any]:
        """A function that makes *node* for a case."""
        if isinstance(node, str):
            template: Template = (pattern_template if pattern else text_template)(node, where)
            if template.constant:
                text = plain_text(node)
                return lambda _: text
            self._constant = False
            return template.native
        if isinstance(node, Mapping):
            parts = {
                plain_text(key): self._compiled(value, f"{where}.{key}", pattern=key == "pattern")
                for key, value in node.items()
            }
            return lambda case: {key: part(case) for key, part in parts.items()}
        if isinstance(node, list | tuple):
            items = [self._compiled(value, f"{where}[{index}]", pattern=False) for index, value in enumerate(node)]
            return lambda case: [item(case) for item in items]
        if isinstance(node, float) and not math.isfinite(node):
            raise ScoringError(f"{where}: {node} is not JSON")
        if node is None or isinstance(node, bool | int | float):
            return lambda _: node
        raise ScoringError(
            f"{where}: {node!r} is a {type(node).__name__}; a schema holds strings, numbers, booleans, arrays "
            "and tables (write a date in quotes)"
        )


def read_schema(path: str, task_directory: Path, where: str) -> dict[str, Any]:
    """The schema in the ``.json`` file at *path*, relative to the task file; raises `ScoringError` naming the file.

    A path that is absolute or has a ``..`` is refused.
    """
    control = control_character_fault(path)
    if control:
        raise ScoringError(f"{where}: {control}")
    pure = PurePosixPath(path)
    if "\\" in path or ":" in path or pure.is_absolute() or ".." in pure.parts:
        raise ScoringError(
            f"{where}: {path!r} is not a path below the task file's directory: "
            "write it relative to the task file, with '/', without '..', as in 'schemas/label.json'"
        )
    if pure.suffix != ".json":
        raise ScoringError(f"{where}: {path!r} does not end in .json: give a .json file, or the schema as a table")
    file = task_directory / pure
    try:
        schema = json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ScoringError(f"{where}: {file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ScoringError(f"{where}: {file} is not UTF-8 text: save it as UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise ScoringError(f"{where}: {file} is not JSON: {error}") from error
    if not isinstance(schema, dict):
        raise ScoringError(f"{where}: {file} holds a JSON {type(schema).__name__}; a schema is an object")
    return schema


def _check_schema(schema: dict[str, Any], where: str) -> None:
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        at = ".".join([where, *map(str, error.absolute_path)])
        raise ScoringError(f"{at}: not a JSON Schema (draft 2020-12): {error.message}") from error
    root = EMPTY_REGISTRY.resolver_with_root(DRAFT202012.create_resource(schema))
    for key, value, at in _keywords(schema, where):
        if key == "patternProperties":
            raise ScoringError(f"{at}: patternProperties is not supported: name the properties")
        if not isinstance(value, str):
            continue
        if key == "pattern":
            fault = control_character_fault(value) or pattern_fault(value)
            if fault:
                raise ScoringError(f"{at}: {fault}")
        if key in ("$ref", "$dynamicRef"):
            try:
                if not value.startswith("#"):
                    raise ScoringError(f"{at}: {value!r} leaves the schema; nothing is fetched: copy it under '$defs'")
                root.lookup(value)
            except Unresolvable as error:
                raise ScoringError(f"{at}: {value!r} leads nowhere in the schema") from error


def _keywords(node: Any, where: str) -> Iterator[tuple[str, Any, str]]:
    if isinstance(node, dict):
        for key, value in node.items():
            at = f"{where}.{key}"
            yield key, value, at
            if key not in _DATA:
                yield from _keywords(value, at)
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from _keywords(item, f"{where}[{index}]")


def _sentence(error: ValidationError) -> str:
    where = error.json_path
    if error.validator == "const":
        return f"{where} is {_shown(error.instance)}, expected {_shown(error.validator_value)}"
    return f"{where}: {error.message}"


def _shown(value: Any) -> str:
    return excerpt(value, 40) if isinstance(value, str) else excerpt(json.dumps(value, ensure_ascii=False), 40)[1:-1]
