"""Project scorers: ``scorers/NAME.py``, one function.

    # scorers/distance.py, chosen in a task by  [scorer] use = "distance"
    from pytest_battery import Score

    OPTIONS = {"unit": "m"}                    # optional: a dict of defaults, or a set of names; others are refused

    def score(case, view):
        if not view.text:
            return Score({"correct": False}, unjudged={"metres": "no answer"})
        ...
        return {"correct": metres < 1, "metres": metres}

``score`` is given the case (a mapping of its fields) and the view (``text``, ``stop_reason``, ``options``,
``task_directory``, ``evidence``; see `View`).  It returns a dict of metrics, or a `Score` to add reasons or to say what
could not be judged.  Optional beside it: ``check(case, options)`` raises what is wrong with a case before any call is
made, and ``aggregate(records)`` gives a dict of values over many records.

Files whose name begins with ``_`` are no scorers but may be shared: ``from ._shared import words``.  A change in a
scorer's file, in a shared file or in the options scores the stored records again.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any, cast

from pytest_battery.errors import ScoringError
from pytest_battery.scoring.contract import Guarded, scorer_fault
from pytest_battery.scoring.scorers import Factory, Score, ScoreFunction, Scorer, View
from pytest_battery.scoring.templates import did_you_mean
from pytest_battery.values.canonical import canonical_json
from pytest_battery.values.cases import Case

__all__ = ["FunctionScorer", "function_factory", "project_files", "project_scorer"]

_PACKAGES = "_battery_scorers_"


@dataclass(frozen=True, slots=True)
class FunctionScorer:
    """A `Scorer` made of a ``score(case, view)`` function; ``source`` is the digest of what it is made of."""

    name: str
    function: ScoreFunction
    options: Mapping[str, Any]
    source: str
    checking: Callable[[Case, Mapping[str, Any]], None] | None = None
    aggregate: Callable[[Any], Mapping[str, Any]] | None = None

    def check(self, case: Case) -> None:
        if self.checking is not None:
            self.checking(case, self.options)

    def score(self, case: Case, view: View) -> Score:
        # A dict is made a Score, and anything else refused, by the guard around every scorer.
        return cast(Score, self.function(case, replace(view, options=self.options)))

    def identity(self) -> Mapping[str, Any]:
        return {"source": self.source, "options": dict(self.options)}


def function_factory(name: str, function: ScoreFunction) -> Factory:
    """A factory for a plain score function, which has no options; its identity is the file it stands in."""
    file = inspect.getsourcefile(function)
    source = _digest([Path(file).read_bytes()] if file and Path(file).is_file() else [])

    def factory(options: Mapping[str, Any], task_directory: Path) -> Scorer:
        given = _options(name, options, {}, "a plain score function has none")
        identity = f"{source}:{function.__module__}.{function.__qualname__}"
        return Guarded(FunctionScorer(name, function, given, identity), file)

    return factory


def project_files(directory: Path) -> dict[str, Path]:
    """Name -> file of the scorers in *directory*, sorted by name; none where there is no such directory."""
    files = sorted(directory.glob("*.py")) if directory.is_dir() else []
    return {file.stem: file for file in files if not file.stem.startswith("_")}


def project_scorer(file: Path) -> Factory:
    """A factory for the scorer in *file*, which is imported when the first one is made.

    The factory raises `ScoringError` naming the file when it raises at import, has no ``score``, or refuses an option.
    """

    def factory(options: Mapping[str, Any], task_directory: Path) -> Scorer:
        content = file.read_bytes()
        source = _digest([content, *(shared.read_bytes() for shared in sorted(file.parent.glob("_*.py")))])
        module = _imported(file, content, source)
        score = _function(module, file, "score")
        if score is None:
            raise ScoringError(
                f"{file}: a scorer needs a function score(case, view), and this file has none; "
                "write it, or let the file's name begin with '_' if it is only shared"
            )
        declared = getattr(module, "OPTIONS", ())
        is_names = isinstance(declared, Mapping | set | frozenset | list | tuple)
        if not is_names or not all(isinstance(key, str) for key in declared):
            raise ScoringError(f"{file}: OPTIONS is {declared!r}; it is a set of option names, or a dict of defaults")
        given = _options(file.stem, options, declared, f"{file} declares no OPTIONS")
        check, aggregate = _function(module, file, "check"), _function(module, file, "aggregate")
        return Guarded(FunctionScorer(file.stem, score, given, source, check, aggregate), str(file))

    return factory


def _options(name: str, options: Mapping[str, Any], declared: Any, none: str) -> dict[str, Any]:
    for option in options:
        if option not in declared:
            allowed = f"its options are {', '.join(sorted(declared))}" if declared else none
            near = did_you_mean(option, list(declared))
            raise ScoringError(f"scorer {name!r} has no option {option!r}{near}; {allowed}")
    merged = {**declared, **options} if isinstance(declared, Mapping) else dict(options)
    for option, value in merged.items():
        try:
            canonical_json(value)
        except (TypeError, ValueError) as error:
            raise ScoringError(
                f"scorer {name!r}: option {option!r} is {value!r}, which has no JSON form ({error}); "
                "give a string (a date in quotes), a finite number, a boolean, a list or a table"
            ) from error
    return merged


def _function(module: types.ModuleType, file: Path, name: str) -> Any:
    found = getattr(module, name, None)
    if found is not None and not callable(found):
        raise ScoringError(f"{file}: {name} is {found!r}; it must be a function")
    return found


class _FreshLoader(SourceFileLoader):
    """Compiles what the file holds now: bytecode is told stale by time and size, and two edits may share both."""

    def get_code(self, fullname: str) -> types.CodeType:
        return compile(self.get_data(self.path), self.path, "exec")


class _SharedFinder(MetaPathFinder):
    """Finds shared files (``from ._shared import words``) for the private packages below, and for nobody else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        if not package.startswith(_PACKAGES) or not path:
            return None
        file = Path(path[0], f"{name}.py")
        loader = _FreshLoader(fullname, str(file))
        return spec_from_file_location(fullname, file, loader=loader) if file.is_file() else None


@functools.cache
def _imported(file: Path, content: bytes, source: str) -> types.ModuleType:
    """The module, once per content.

    It is a member of a private package whose path is its directory, so that it can import shared files while
    ``sys.path`` stays as it is, and compiled from the very bytes that were digested, never from a stale cache.
    """
    if not any(isinstance(finder, _SharedFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _SharedFinder())
    package = types.ModuleType(f"{_PACKAGES}{hashlib.sha256(f'{file}:{source}'.encode()).hexdigest()[:16]}")
    package.__path__ = [str(file.parent)]
    module = types.ModuleType(f"{package.__name__}.{file.stem}")
    module.__file__, module.__package__ = str(file), package.__name__
    module.__spec__ = ModuleSpec(module.__name__, None, origin=str(file))
    sys.modules[package.__name__] = package
    sys.modules[module.__name__] = module  # dataclasses and pickle look a class's module up there
    try:
        exec(compile(content, str(file), "exec"), module.__dict__)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        del sys.modules[package.__name__], sys.modules[module.__name__]
        raise scorer_fault(f"{file} cannot be imported as a scorer", error, str(file)) from error
    return module


def _digest(sources: list[bytes]) -> str:
    """Of content as any checkout gives it, with CRLF or LF."""
    content = b"\0".join(source.replace(b"\r\n", b"\n") for source in sources)
    return hashlib.sha256(content).hexdigest()[:32]
