"""Templates to messages: what a case is asked, and which of its fields the asking reads."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

import jinja2
from jinja2 import StrictUndefined, TemplateError, TemplateRuntimeError, TemplateSyntaxError, Undefined
from jinja2.sandbox import SandboxedEnvironment

from pytest_battery.values.calls import Message
from pytest_battery.values.canonical import digest
from pytest_battery.values.cases import Case
from pytest_battery.values.tasks import Task, Template

__all__ = ["Asking"]


class _ReadFields(Mapping[str, Any]):
    """A case as templates see it; remembers which fields were read."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        value = self.case[name]
        self.read.add(name)
        return value

    def __iter__(self) -> Any:
        self.read.update(self.case)
        return iter(self.case)

    def __len__(self) -> int:
        return len(self.case)


def _written(value: Any) -> Any:
    """What a template writes is text, a number or plain data; anything else would show where it lies in memory."""
    if value is None or isinstance(value, str | int | float | list | dict | tuple | Undefined):
        return value
    if isinstance(value, _ReadFields):
        raise TemplateRuntimeError("`case` is the whole case; write a field of it: {{ case.FIELD }}")
    raise TemplateRuntimeError(f"a {type(value).__name__} cannot be written; it is no text, number or list")


class _Environment(SandboxedEnvironment):
    """Fields before methods: ``{{ case.items }}`` is the case's field, if it has one."""

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, autoescape=False, finalize=_written)
        # What is asked must not depend on chance.
        self.filters.pop("random")
        self.globals.pop("lipsum")

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, _ReadFields):
            if attribute in obj.case:
                return obj[attribute]
            known = ", ".join(obj.case)
            return self.undefined(f"case {obj.case.id} has no field {attribute!r}; it has {known}")
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any | Undefined:
        if isinstance(obj, _ReadFields):
            return self.getattr(obj, argument)
        return super().getitem(obj, argument)


_environment = _Environment()


class _Formatted:
    """A prompt for ``str.format``: ``{field}``, and ``{{`` for a brace."""

    def __init__(self, source: str) -> None:
        self._source = source
        list(string.Formatter().parse(source))  # raises ValueError for what is no format

    def render(self, *, case: _ReadFields) -> str:
        try:
            return self._source.format_map(case)
        except KeyError as error:
            known = ", ".join(case.case)
            raise TemplateRuntimeError(f"case {case.case.id} has no field {error.args[0]!r}; it has {known}") from None


class _Plain:
    """A prompt that is said as it stands."""

    def __init__(self, source: str) -> None:
        self._source = source

    def render(self, *, case: _ReadFields) -> str:
        return self._source


_Part = jinja2.Template | _Formatted | _Plain


class Asking:
    """A task's templates, compiled once; ``faults`` says by key which are none."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.faults: dict[str, str] = {}
        self._system = self._compiled("system", task.system)
        self._prompt = self._compiled("prompt", task.prompt)
        self._append = self._compiled("append", None if task.append is None else Template(task.append))
        self._steps = [self._compiled(f"step {step.id}", step.prompt) for step in task.steps]

    def _compiled(self, key: str, source: Template | None) -> _Part | None:
        if source is None:
            return None
        try:
            if source.style == "plain":
                return _Plain(source.text)
            if source.style == "format":
                return _Formatted(source.text)
            return _environment.from_string(source.text)
        except TemplateSyntaxError as error:
            self.faults[key] = f"is not a template: line {error.lineno} of it: {error.message}"
        except (TemplateError, ValueError) as error:
            self.faults[key] = f"is not a template: {error}"
        return None

    def messages(self, case: Case) -> tuple[tuple[Message, ...], frozenset[str]]:
        """What *case* is asked, and the fields it was made from: the system's message, then one message for each turn.

        ``append`` follows the prompt after an empty line.  Raises ValueError for a field that is not there.
        """
        seen = _ReadFields(case)
        found = []
        try:
            if self._system is not None:
                found.append(Message("system", self._system.render(case=seen)))
            parts = [part.render(case=seen) for part in (self._prompt, self._append) if part is not None]
            turns = [part.render(case=seen) for part in self._steps if part is not None]
        except TemplateError as error:
            message = error.message or type(error).__name__
            raise ValueError(message if message.startswith("case ") else f"case {case.id}: {message}") from None
        except Exception as error:  # a template may call anything: {{ case.total / case.count }}
            raise ValueError(f"case {case.id}: the template failed: {type(error).__name__}: {error}") from None
        if parts:
            turns.insert(0, "\n\n".join(parts))
        return (*found, *(Message("user", turn) for turn in turns)), frozenset(seen.read)

    def digests(self, case: Case, messages: tuple[Message, ...], read: frozenset[str]) -> tuple[str, str]:
        """The ``prompt`` and ``case`` parts of a fingerprint.  Line ends and dict order are not in them."""
        content = [[message.role, message.content] for message in messages]
        return digest([content, self.task.output_schema]), digest({name: case[name] for name in read})
