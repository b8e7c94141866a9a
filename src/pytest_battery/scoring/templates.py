"""Options are Jinja2 templates over ``case``: sandboxed, and an undefined field is an error.

What a template puts into a regular expression is escaped: a case's value always stands for itself.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.sandbox import SandboxedEnvironment

from pytest_battery.errors import ScoringError
from pytest_battery.scoring.patterns import escaped
from pytest_battery.scoring.plain_text import plain_text
from pytest_battery.values.cases import Case

__all__ = ["Template", "did_you_mean", "pattern_template", "text_template"]


def did_you_mean(found: str, allowed: Mapping[str, Any] | list[str]) -> str:
    """`` (did you mean 'regex'?)``, or nothing where nothing is near."""
    near = difflib.get_close_matches(found, list(allowed), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


class _Fields(dict[str, Any]):
    """The fields of a case, and only those: ``case.items`` is the field, not a method of a dict."""


class _Environment(SandboxedEnvironment):
    def __init__(self, finalize: Callable[[Any], str]) -> None:
        super().__init__(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, finalize=finalize)
        # A grade must not depend on chance.
        self.filters.pop("random")
        self.globals.pop("lipsum")

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self._field(obj, attribute) if isinstance(obj, _Fields) else super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        return self._field(obj, argument) if isinstance(obj, _Fields) else super().getitem(obj, argument)

    def _field(self, fields: _Fields, name: Any) -> Any:
        if name in fields:
            return fields[name]
        near, allowed = did_you_mean(str(name), fields), ", ".join(sorted(fields))
        hint = f"case.{name} is not a field of the case{near}; its fields are {allowed}"
        return self.undefined(hint=hint, name=str(name))


def _as_text(value: Any) -> str:
    """A scalar as JSON writes it; the text of a list or of nothing is nobody's expectation, so it is an error."""
    if isinstance(value, jinja2.Undefined):
        return str(value)  # raises, with the name
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, int | float):
        return str(value)
    kind = "null" if value is None else f"a {type(value).__name__}"
    raise ScoringError(f"{kind} cannot be written into text; a string or a number can")


def _as_pattern(value: Any) -> str:
    return escaped(_as_text(value))


_TEXT = _Environment(_as_text)
_PATTERN = _Environment(_as_pattern)


class Template:
    """One option's text.  ``where`` names it in messages; raises `ScoringError` if it is no template.

    ``constant`` is true when it holds no expression.
    """

    def __init__(self, source: str, where: str, environment: SandboxedEnvironment) -> None:
        self.source, self.where = plain_text(source), where
        self._finalize = environment.finalize
        try:
            body = environment.parse(self.source).body
            self._template = environment.from_string(self.source)
            self._expression = None
            if _is_one_expression(body) and self.source.startswith("{{") and self.source.endswith("}}"):
                inner = self.source[2:-2].strip("-+")
                self._expression = environment.compile_expression(inner, undefined_to_none=False)
        except jinja2.TemplateSyntaxError as error:
            raise ScoringError(
                f"{where}: {self.source!r} is not a template: {error.message}; "
                "write {{ case.FIELD }}, and {{ '{#' }} for a literal '{#', '{{' or '{%'"
            ) from error
        self.constant = all(
            isinstance(node, nodes.Output) and all(isinstance(part, nodes.TemplateData) for part in node.nodes)
            for node in body
        )

    def render(self, case: Case) -> str:
        """The text for *case*; raises `ScoringError` for a field it does not have."""
        return str(self._guarded(case, lambda fields: self._template.render(case=fields)))

    def native(self, case: Case) -> Any:
        """The value of a template that is exactly one ``{{ expression }}``, else its text.

        Strings come as the template's kind writes them (escaped in a pattern), in lists too; numbers stay numbers.
        """
        if self._expression is None:
            return self.render(case)
        return self._guarded(case, self._value)

    def texts(self, case: Case) -> list[str]:
        """The text, or those of a template that is one expression giving a list."""
        if self._expression is None:
            return [self.render(case)]
        value = self._guarded(case, self._raw)
        items = value if isinstance(value, list | tuple) else [value]
        return list(self._guarded(case, lambda _: [self._written(item) for item in items]))

    def _raw(self, fields: _Fields) -> Any:
        assert self._expression is not None
        value = self._expression(case=fields)
        if isinstance(value, jinja2.Undefined):
            str(value)  # raises, with the name
        return value

    def _value(self, fields: _Fields) -> Any:
        return self._strings_written(self._raw(fields))

    def _strings_written(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._written(value)
        if isinstance(value, Mapping):
            return {key: self._strings_written(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._strings_written(item) for item in value]
        return value

    def _written(self, value: Any) -> str:
        assert self._finalize is not None
        return str(self._finalize(value))

    def _guarded(self, case: Case, render: Callable[[_Fields], Any]) -> Any:
        try:
            return render(_Fields(case))
        except Exception as error:  # a filter or an operator may raise anything
            raise ScoringError(f"{self.where}: {self.source!r}: {error}") from error


def text_template(source: str, where: str) -> Template:
    """A template whose values are written as they are."""
    return Template(source, where, _TEXT)


def pattern_template(source: str, where: str) -> Template:
    """A template whose values are escaped, so that in a regular expression they match only themselves."""
    return Template(source, where, _PATTERN)


def _is_one_expression(body: list[nodes.Node]) -> bool:
    return (
        len(body) == 1
        and isinstance(body[0], nodes.Output)
        and len(body[0].nodes) == 1
        and not isinstance(body[0].nodes[0], nodes.TemplateData)
    )
