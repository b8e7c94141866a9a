"""A subject: a model and its knobs, written in one line.

    subject := provider "/" model [":" level] ["@" knob "=" value ("," knob "=" value)*]

Read from the right: ``@`` begins knobs only when ``name=value`` pairs follow, ``:`` begins a level only when
it is one of `LEVELS`.  So ``openrouter/qwen/qwen3-coder:free`` and ``vertex_ai/claude-haiku-4-5@20251001`` are
bare model references.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pytest_battery.errors import SubjectError
from pytest_battery.values.names import shortest_number, snake_case

__all__ = ["LEVELS", "Subject", "Sweep", "cross", "parse_subject", "parse_sweep"]

LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
MAX_DIRECTORY = 200

_REF = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9._:@/+~-]+\Z")
_KNOB_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_KNOB_VALUE = re.compile(r"[A-Za-z0-9_.+:-]+\Z")
_PAIRS = re.compile(r"[A-Za-z][A-Za-z0-9_]*=[^,=@]*(,[A-Za-z][A-Za-z0-9_]*=[^,=@]*)*\Z")


@dataclass(frozen=True)
class Subject:
    """A model and its knobs.  ``knobs`` is sorted by name; values are canonical text (``0.7``, not ``0.70``).

    Raises `SubjectError` for a reference, level or knob that `parse_subject` could not have read.
    """

    ref: str
    level: str | None = None
    knobs: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not _REF.match(self.ref):
            raise SubjectError(
                f"{self.ref!r} is not a model reference: write PROVIDER/MODEL, as in local/smollm2-135m "
                "(letters, digits and . _ : @ / + ~ -)"
            )
        if self.ref.rpartition(":")[2] in LEVELS and ":" in self.ref:
            raise SubjectError(f"{self.ref!r} ends in a level: pass it as the level")
        if self.level is not None and self.level not in LEVELS:
            raise SubjectError(f"{self.level!r} is not a level; the levels are {', '.join(LEVELS)}")
        names = [name for name, _ in self.knobs]
        if names != sorted(set(names)):
            raise SubjectError(f"knobs of {self.ref} must be sorted and given once each, not {', '.join(names)}")
        for name, value in self.knobs:
            if name == "thinking":
                raise SubjectError(f"thinking={value} is the level of {self.ref}: pass it as the level")
            _check_knob(name, value)

    @property
    def provider(self) -> str:
        return self.ref.partition("/")[0]

    @property
    def model(self) -> str:
        return self.ref.partition("/")[2]

    @cached_property
    def key(self) -> str:
        """The canonical key: ``parse_subject(s.key) == s``."""
        level = f":{self.level}" if self.level else ""
        knobs = ",".join(f"{name}={value}" for name, value in self.knobs)
        return f"{self.ref}{level}{'@' + knobs if knobs else ''}"

    @cached_property
    def id(self) -> str:
        """The key as it stands in a node id: without the ``=``, ``@`` and ``~`` that ``-k`` cannot read."""
        level = f":{self.level}" if self.level else ""
        ref = self.ref.replace("@", "+").replace("~", "+")
        return f"{ref}{level}" + "".join(f"+{name}:{value}" for name, value in self.knobs)

    @cached_property
    def directory(self) -> str:
        """A directory name, at most 200 bytes; never parsed back, so two keys may meet (the record tells)."""
        name = self.key
        for found, put in (("/", "--"), (":", "~"), ("@", "__"), (",", "+")):
            name = name.replace(found, put)
        if len(name) > MAX_DIRECTORY:
            name = f"{name[: MAX_DIRECTORY - 9]}~{hashlib.sha256(self.key.encode()).hexdigest()[:8]}"
        return name

    def knob(self, name: str) -> str | None:
        return dict(self.knobs).get(name)

    def with_knob(self, name: str, value: str) -> Subject:
        """This subject with one knob replaced; ``thinking`` is the level."""
        name, value = _knob(name, value)
        if name == "thinking":
            return replace(self, level=value)
        return replace(self, knobs=tuple(sorted({**dict(self.knobs), name: value}.items())))

    def __str__(self) -> str:
        return self.key


@dataclass(frozen=True, slots=True)
class Sweep:
    """One knob and the values it takes, in the order given."""

    knob: str
    values: tuple[str, ...]


def parse_subject(text: str) -> Subject:
    """Read a subject; raises `SubjectError` naming the part that is wrong."""
    ref, level, knobs = text.strip(), None, {}
    head, at, tail = ref.rpartition("@")
    if at and _PAIRS.match(tail):
        ref = head
        for pair in tail.split(","):
            name, value = _knob(*pair.split("=", 1))
            if name in knobs:
                raise SubjectError(f"{text!r} gives the knob {name} twice")
            knobs[name] = value
    head, colon, tail = ref.rpartition(":")
    if colon and tail in LEVELS:
        ref, level = head, tail
        if (second := ref.rpartition(":")[2]) in LEVELS and ":" in ref:
            raise SubjectError(f"{text!r} gives the level twice: as :{second} and as :{level}")
    if "thinking" in knobs:
        if level is not None:
            raise SubjectError(f"{text!r} gives the level twice: as :{level} and as thinking={knobs['thinking']}")
        level = knobs.pop("thinking")
    if "=" in ref:
        raise SubjectError(
            f"{text!r}: knobs are written @NAME=VALUE,NAME=VALUE after the model, "
            "as in local/smollm2-135m@temperature=0.7"
        )
    return Subject(ref, level, tuple(sorted(knobs.items())))


def parse_sweep(text: str) -> Sweep:
    """Read ``KNOB=VALUE[,VALUE...]``; raises `SubjectError`."""
    name, equals, tail = text.partition("=")
    values = [value.strip() for value in tail.split(",")]
    if not equals or not name.strip() or not all(values):
        raise SubjectError(f"--sweep {text}: write KNOB=VALUE[,VALUE...], as in --sweep thinking=off,low")
    pairs = [_knob(name.strip(), value) for value in values]
    found = tuple(value for _, value in pairs)
    if len(set(found)) != len(found):
        raise SubjectError(f"--sweep {text}: a value is given twice")
    return Sweep(pairs[0][0], found)


def cross(subjects: Iterable[Subject], sweeps: Sequence[Sweep]) -> tuple[Subject, ...]:
    """Every subject with every combination of the sweeps' values; a swept knob replaces a fixed one.

    Subjects that become equal are given once, in the order they first appear.
    """
    found: dict[Subject, None] = {}
    for subject in subjects:
        for values in itertools.product(*(sweep.values for sweep in sweeps)):
            swept = subject
            for sweep, value in zip(sweeps, values, strict=True):
                swept = swept.with_knob(sweep.knob, value)
            found[swept] = None
    return tuple(found)


def _knob(name: str, value: str) -> tuple[str, str]:
    name = snake_case(name)
    value = shortest_number(value) or value
    _check_knob(name, value)
    return name, value


def _check_knob(name: str, value: str) -> None:
    if not _KNOB_NAME.match(name):
        raise SubjectError(f"{name!r} is not the name of a knob: use snake_case, as in max_tokens")
    if name == "thinking" and value not in LEVELS:
        raise SubjectError(f"thinking={value}: the levels are {', '.join(LEVELS)}")
    if not _KNOB_VALUE.match(value):
        raise SubjectError(f"{name}={value}: a value is written with letters, digits and . _ + : - only")
    if (shortest_number(value) or value) != value:
        raise SubjectError(f"{name}={value}: write the number as {shortest_number(value)}")
