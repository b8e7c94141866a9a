"""Reading ``battery.toml``: every fault is told at once, with its line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time
from pathlib import Path

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pytest_battery.edges.manifest.credentials import looks_like_a_key
from pytest_battery.edges.manifest.tables import (
    Manifest,
    PriceTable,
    ProductionTable,
    ProviderTable,
    SliceTable,
    StackTable,
)
from pytest_battery.edges.taskfiles.text import KeyLines, parse_toml, toml_type
from pytest_battery.errors import ManifestError

__all__ = ["MANIFEST", "fault_at", "load_manifest"]

MANIFEST = "battery.toml"

_SLICE = re.compile(r"^([ \t]*)\[\[[ \t]*slice[ \t]*\]\]", re.MULTILINE)
_TABLES: Mapping[tuple[str, ...], type[BaseModel]] = {
    (): Manifest,
    ("providers", "*"): ProviderTable,
    ("providers", "*", "price"): PriceTable,
    ("slice", "*"): SliceTable,
    ("stacks", "*"): StackTable,
    ("slice", "*", "production"): ProductionTable,
}
_UNSHOWN = ("base_url", "key_env", "key_command", "headers")
"""Keys where somebody may have put a credential: what stands there is never repeated."""

Place = tuple[str | int, ...]
"""A key, by the names and numbers of what holds it."""


def load_manifest(root: Path) -> Manifest:
    """The manifest of the project at *root*.  Raises `ManifestError` with every fault found, each as
    ``FILE:LINE: KEY WHAT``."""
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
    lines = _Lines(content.decode("utf-8"))
    try:
        manifest = Manifest.model_validate(document)
    except ValidationError as error:
        faults = [(_place(found["loc"]), _sentence(found)) for found in error.errors(include_url=False)]
        raise ManifestError(path, _told(faults, lines)) from None
    if faults := list(_listed_twice(manifest.slice, lines)):
        raise ManifestError(path, _told(faults, lines))
    return manifest


def fault_at(root: Path, place: Place, what: str) -> str:
    """A fault of the manifest that was found out when it was used, with the line of the key at *place*."""
    try:
        lines = _Lines((root / MANIFEST).read_bytes().decode("utf-8"))
    except (OSError, ValueError):
        return f"{MANIFEST}: {'.'.join(map(str, place))} {what}"
    return _told([(place, what)], lines)[0]


class _Lines:
    """The line of a key; those of a slice are looked for between its header and the next one."""

    def __init__(self, text: str) -> None:
        # Slices are marked as what `KeyLines` numbers: it knows which headers stand inside of strings.
        marked = _SLICE.sub(r"\1[[case]]", text.replace("[[case", "[[other"))
        headers = [line - 1 for line in KeyLines(marked).cases]
        rows = text.split("\n")
        self._whole = KeyLines(text)
        self._slices = [
            KeyLines("\n" * start + "\n".join(rows[start:end]))
            for start, end in zip(headers, [*headers[1:], len(rows)], strict=False)
        ]

    def of(self, place: Place) -> int:
        if len(place) > 1 and place[0] == "slice" and isinstance(place[1], int) and place[1] < len(self._slices):
            return self._slices[place[1]].of("slice", *place[2:])
        return self._whole.of(*place)


def _place(loc: Place) -> Place:
    """The path of the key, without pydantic's own word for "the key itself"."""
    return loc[:-1] if loc[-1:] == ("[key]",) else loc


def _told(faults: Sequence[tuple[Place, str]], lines: _Lines) -> list[str]:
    by_line = sorted((lines.of(place), index) for index, (place, _) in enumerate(faults))
    told = [f"{MANIFEST}:{line}: {'.'.join(map(str, faults[index][0]))} {faults[index][1]}" for line, index in by_line]
    return list(dict.fromkeys(told))


def _listed_twice(slices: Sequence[SliceTable], lines: _Lines) -> Iterator[tuple[Place, str]]:
    """Permutations of more than one slice; within a slice, subjects that a sweep makes equal are one."""
    seen: dict[tuple[str, str, str], int] = {}
    for index, one in enumerate(slices):
        for subject in one.swept():
            for stack in one.stacks:
                first = seen.setdefault((one.task, subject.key, stack), index)
                if first != index:
                    yield (
                        ("slice", index),
                        f"lists {one.task} with {subject.key} under {stack}, "
                        f"which the slice of line {lines.of(('slice', first))} lists too",
                    )


def _sentence(found: ErrorDetails) -> str:
    kind, value, place = found["type"], found["input"], found["loc"]
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return f"is not known here{_known(place)}"
    if kind == "battery":
        return str(found["msg"])
    if kind == "too_short":
        return "is empty"
    wanted = found["msg"].removeprefix("Input should be ").replace("a valid integer", "an integer")
    wanted = wanted.replace("a valid list", "an array").replace("a valid number", "a number").replace("valid ", "")
    wanted = re.sub(r"a( valid)? dictionary( or instance of \w+)?", "a table", wanted)
    return f"should be {wanted}; found {_shown(value, place)}"


def _shown(value: object, place: Place) -> str:
    if isinstance(value, date | time):
        return f"{toml_type(value)}, {value} (write it in quotes)"
    if isinstance(value, dict | list) or any(key in place for key in _UNSHOWN) or looks_like_a_key(str(value)):
        return toml_type(value)
    return f"{toml_type(value)}, {str(value).lower() if isinstance(value, bool) else repr(value)}"


def _known(place: Place) -> str:
    """What may stand beside an unknown key, and which of that was probably meant."""
    above = tuple("*" if index == 1 else str(part) for index, part in enumerate(place[:-1]))
    table = _TABLES.get(above)
    if table is None:
        return ""
    names = list(table.model_fields)
    close = difflib.get_close_matches(str(place[-1]), names, n=1, cutoff=0.7)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    return f"{meant or ';'} known: {', '.join(names)}"
