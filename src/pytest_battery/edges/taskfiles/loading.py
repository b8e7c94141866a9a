"""A task file, read and checked into a `Task`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pytest_battery.edges.taskfiles.agents import agent_task, hidden_of, reference_stack, repo_of
from pytest_battery.edges.taskfiles.cases import RawCase, checked_cases, is_inside, read_cases
from pytest_battery.edges.taskfiles.production import production_function, production_text
from pytest_battery.edges.taskfiles.schema import CorpusTable, Document, Output, TextSource, faults_of
from pytest_battery.edges.taskfiles.text import KeyLines, in_order, parse_toml, read_text
from pytest_battery.errors import TaskFileError
from pytest_battery.values.names import id_fault
from pytest_battery.values.subjects import Subject, parse_subject
from pytest_battery.values.tasks import Control, Metric, Reference, ScorerChoice, Step, Task, Template

__all__ = ["load_task", "read_scorer"]


def load_task(path: Path, root: Path) -> Task:
    """Read the task file at *path*; files it names must lie inside *root*.

    Raises `TaskFileError` with every fault found, each as ``FILE:LINE: KEY WHAT``.
    """
    return _Loading(path, root).task()


def read_scorer(path: Path) -> ScorerChoice | None:
    """The scorer that a task file names, whatever else is wrong with the file; None where that can't be told."""
    try:
        table = parse_toml(path.read_bytes()).get("scorer")
    except (OSError, ValueError):
        return None
    if not isinstance(table, dict) or not isinstance(table.get("use"), str):
        return None
    return ScorerChoice(table["use"], {name: value for name, value in table.items() if name != "use"})


class _Loading:
    """One reading of one file: gathers faults until it can't go on."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path, self.root = path, root
        self.faults: list[str] = []
        try:
            content = path.read_bytes()
            self.document = parse_toml(content)
        except OSError as error:
            raise TaskFileError(path, [f"{self.name(path)}: cannot be read: {error.strerror}"]) from None
        except ValueError as error:
            raise TaskFileError(path, [f"{self.name(path)}:{error}"]) from None
        self.lines = KeyLines(content.decode("utf-8"))

    def name(self, path: Path) -> str:
        """How messages call a file: relative to the project where it is inside."""
        try:
            return path.relative_to(self.root).as_posix()
        except ValueError:
            return str(path)

    def fault(self, key: tuple[str | int, ...], what: str) -> None:
        shown = ".".join(str(part) for part in key if part != "[key]")  # pydantic's word for the key itself
        self.faults.append(f"{self.name(self.path)}:{self.lines.of(*key)}: {shown} {what}")

    def task(self) -> Task:
        if fault := id_fault(self.path.stem):
            self.faults.append(f"{self.name(self.path)}: the file's name is the task's name: {fault}")
        try:
            document = Document.model_validate(self.document)
        except ValidationError as error:
            found = list(faults_of(error))
            for key, what in found:
                self.fault(
                    key, what + (self._misplaced(key[1]) if what == "is missing" and key[:-1] == ("task",) else "")
                )
            self._read_what_is_sound({part for key, _ in found for part in (key[:1], key[:2])})
            raise self._error() from None
        task = self._task(document)
        if self.faults:
            raise self._error()
        return task

    def _error(self) -> TaskFileError:
        return TaskFileError(self.path, in_order(self.faults, self.name(self.path)))

    def _read_what_is_sound(self, faulty: set[tuple[str | int, ...]]) -> None:
        """What stands beside a fault, and the files named there, may have faults too: told in the same message."""
        if ("metrics",) not in faulty:
            self._one_primary()
        table = self.document.get("task")
        if not isinstance(table, dict):
            return
        if not faulty & {("task", "cases"), ("case",)}:
            checked_cases(self._cases(table.get("cases")), self.faults)
        if ("task", "subjects") not in faulty:
            self._subjects(table.get("subjects", []))
        for key in ("prompt", "system"):
            if key in table and ("task", key) not in faulty:
                self._text(("task", key), TextSource.model_validate(table[key]))
        if "output" in table and ("task", "output") not in faulty:
            self._schema(Output.model_validate(table["output"]))
        if "corpus" in table and ("task", "corpus") not in faulty:
            repo_of(CorpusTable.model_validate(table["corpus"]), self.fault, self._inside)
        if ("task", "hidden") not in faulty:
            hidden_of(table.get("hidden", ()), self._inside)
        reference_stack(self.document, self.fault)

    def _task(self, document: Document) -> Task:
        table = document.task
        self._check_asking(document)
        self._one_primary()
        reference_stack(self.document, self.fault)
        subjects = self._subjects(table.subjects)
        reference = Reference()
        if document.verdict is not None:
            written = document.verdict.reference
            reference = Reference(parse_subject(written.subject) if written.subject else None, written.stack)
        return Task(
            name=self.path.stem,
            path=self.path,
            title=table.title,
            kind=table.kind,
            runs=table.runs,
            timeout=table.timeout,
            cases=checked_cases(self._cases(table.cases), self.faults),
            scorer=ScorerChoice(document.scorer.use, dict(document.scorer.model_extra or {})),
            metrics=tuple(
                Metric(name, metric.better, metric.primary, metric.aggregate, metric.care)
                for name, metric in document.metrics.items()
            ),
            prompt=self._text(("task", "prompt"), table.prompt),
            append=table.append,
            system=self._text(("task", "system"), table.system),
            steps=self._steps(document),
            driver=self._driver(table.driver),
            expect=None if table.expect is None else (table.expect.input, table.expect.output),
            output_schema=self._schema(table.output),
            tags=tuple(table.tags),
            subjects=subjects,
            reference=reference,
            controls=self._controls(document, reference),
            agent=agent_task(table, self.fault, self._inside),
        )

    def _check_asking(self, document: Document) -> None:
        """Exactly one thing asks: a prompt, a driver, steps, or a Python test."""
        table = document.task
        idle = {
            "python": ("the Python test does the asking", ("prompt", "driver", "append", "system", "output")),
            "steps": ("the steps do the asking", ("prompt", "driver", "append")),
            "call": ("the driver does the asking", ("prompt", "append", "system", "output") if table.driver else ()),
            "agent": ("an agent does the asking", ("driver", "output")),
        }
        why, keys = idle[table.kind]
        for key in keys:
            if getattr(table, key) is not None:
                asks = "driver" if table.kind == "call" else f'kind = "{table.kind}"'
                self.fault(("task", key), f"has no meaning with {asks}: {why}")
        if table.kind == "agent" and table.prompt is None:
            self.fault(("task", "prompt"), 'is missing: write prompt = { text = "..." } or { file = "..." }')
        if table.kind == "call" and table.prompt is None and table.driver is None:
            self.fault(
                ("task", "prompt"),
                'is missing: write prompt = { text = "..." } or { file = "..." }, or kind = "python" where a Python test asks',
            )
        if table.kind == "steps" and not document.step:
            self.fault(("task", "kind"), 'is "steps", and there is none: write [[step]] tables with id and prompt')
        if table.kind != "steps" and document.step:
            self.fault(("step", 0), f'stands in a task of kind = "{table.kind}"; steps belong to kind = "steps"')

    def _steps(self, document: Document) -> tuple[Step, ...]:
        found: dict[str, Step] = {}
        for index, written in enumerate(document.step):
            if written.id in found:
                self.fault(("step", index, "id"), f"is {written.id!r} twice")
            prompt = self._text(("step", index, "prompt"), written.prompt)
            if prompt is not None:
                found[written.id] = Step(written.id, prompt)
        return tuple(found.values())

    def _driver(self, named: str | None) -> str | None:
        if named is not None:
            try:
                production_function(named, self.root)
            except ValueError as error:
                self.fault(("task", "driver"), str(error))
        return named

    def _controls(self, document: Document, reference: Reference) -> tuple[tuple[Subject, Control], ...]:
        found: dict[Subject, Control] = {}
        written: dict[Control, list[str]] = {}
        if document.controls is not None:
            written = {"worse": document.controls.worse, "same": document.controls.same}
        for control, texts in written.items():
            for index, text in enumerate(texts):
                subject = parse_subject(text)
                if subject in found:
                    self.fault(("controls", control, index), f"names {subject.key} twice")
                elif subject == reference.subject:
                    self.fault(("controls", control, index), f"is {subject.key}, the reference itself")
                found[subject] = control
        return tuple(found.items())

    def _one_primary(self) -> None:
        primaries = [name for name, metric in self.document["metrics"].items() if metric.get("primary")]
        if len(primaries) > 1:
            self.fault(
                ("metrics", primaries[1], "primary"), f"is true for {' and '.join(primaries)}; one metric is primary"
            )

    def _subjects(self, written: list[str]) -> tuple[Subject, ...]:
        subjects: dict[Subject, None] = {}
        for index, text in enumerate(written):
            subject = parse_subject(text)
            if subject in subjects:
                self.fault(("task", "subjects", index), f"names {subject.key} twice")
            subjects[subject] = None
        return tuple(subjects)

    def _inside(self, key: tuple[str | int, ...], written: str) -> Path | None:
        """The path *written* names, or None (and a fault) where it leaves the project."""
        path = self.path.parent / written
        if not is_inside(path, self.root):
            self.fault(key, f"is {written!r}, which leaves the project at {self.root}")
            return None
        return path

    def _cases(self, written: Any) -> list[RawCase]:
        inline = self.document.get("case", [])
        inline = inline if isinstance(inline, list) else []
        if written is not None and inline:
            self.fault(("task", "cases"), "is given and [[case]] tables too; keep one of them")
        if isinstance(written, str):
            before = len(self.faults)
            path = self._inside(("task", "cases"), written)
            if path is not None and not path.exists():
                self.fault(("task", "cases"), f"names {self.name(path)}, and there is no such file")
                path = None
            cases = [] if path is None else read_cases(path, self.name(path), self.root, self.faults)
            if not cases and len(self.faults) == before:
                self.fault(("task", "cases"), f"names {written}, which holds no case")
            return cases
        if not inline and written is None and "case" in self.document:
            self.fault(("case",), "is empty; a task has at least one case")
        elif not inline and written is None:
            self.fault(("task", "cases"), 'is missing: write cases = "cases.jsonl", or [[case]] tables here')
        name = self.name(self.path)
        return [
            RawCase(table, name, self.lines.of("case", index))
            for index, table in enumerate(inline)
            if isinstance(table, Mapping)
        ]

    def _text(self, key: tuple[str | int, ...], source: TextSource | None) -> Template | None:
        if source is None:
            return None
        given = [name for name in ("text", "file", "production") if getattr(source, name) is not None]
        if len(given) != 1:
            self.fault(key, 'should be { text = "..." }, { file = "..." } or { production = "..." }, one of them')
            return None
        text = source.text
        if source.file is not None:
            path = self._inside(key, source.file)
            text = None if path is None else self._read(key, path)
        elif source.production is not None:
            try:
                text = production_text(source.production, self.root)
            except ValueError as error:
                self.fault((*key, "production"), str(error))
        return None if text is None else Template(text, source.style)

    def _read(self, key: tuple[str | int, ...], path: Path) -> str | None:
        try:
            return read_text(path)
        except FileNotFoundError:
            self.fault(key, f"names {self.name(path)}, and there is no such file")
        except OSError as error:
            self.fault(key, f"names {self.name(path)}, which cannot be read: {error.strerror}")
        except ValueError as error:
            self.fault(key, f"names a file that is no text: {self.name(path)}:{error}")
        return None

    def _schema(self, output: Output | None) -> Mapping[str, Any] | None:
        if output is None:
            return None
        key = ("task", "output", "json_schema")
        schema: Any = output.json_schema
        if isinstance(schema, str):
            path = self._inside(key, schema)
            text = None if path is None else self._read(key, path)
            if text is None:
                return None
            try:
                schema = json.loads(text)
            except ValueError as error:
                self.fault(key, f"names {output.json_schema}, which is not JSON: {error}")
                return None
        import jsonschema  # a tenth of a second, for tasks that ask for a schema

        try:
            jsonschema.Draft202012Validator.check_schema(schema)
        except jsonschema.SchemaError as error:
            self.fault(key, f"is not a JSON Schema: {error.message}")
            return None
        if not isinstance(schema, dict):
            self.fault(key, "should be an object")
            return None
        return schema

    def _misplaced(self, key: str | int) -> str:
        """A key of the task written below ``[[case]]`` is the commonest slip; say so."""
        cases = self.document.get("case")
        for index, table in enumerate(cases if isinstance(cases, list) else []):
            if isinstance(table, Mapping) and key in table:
                place = self.lines.of("case", index)
                return f": it stands in the [[case]] at line {place}; keys of the task stand in [task], above it"
        return ""
