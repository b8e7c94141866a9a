"""What a scorer must return, and what becomes of one that does not."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_battery.errors import ContractError, ScoringError
from pytest_battery.scoring.scorers import Score, Scorer, View
from pytest_battery.scoring.templates import did_you_mean
from pytest_battery.values.canonical import canonical_json
from pytest_battery.values.cases import Case
from pytest_battery.values.tasks import Metric

__all__ = ["Guarded", "check_contract", "scorer_fault", "shown"]

_ALLOWED = "a metric is true, false or a finite number"


class Guarded:
    """A scorer whose every failure is a `ScoringError` of one line, so that no scorer can end the session.

    ``file`` is where the scorer's own mistakes are looked for, None for the innermost place of all.
    """

    def __init__(self, scorer: Scorer, file: str | None = None) -> None:
        self._scorer, self._file = scorer, file
        self.name = scorer.name
        self.aggregate: Callable[[Any], Mapping[str, Any]] | None = getattr(scorer, "aggregate", None)

    def check(self, case: Case) -> None:
        self._called(lambda: self._scorer.check(case))

    def score(self, case: Case, view: View) -> Score:
        """The scorer's `Score`; a dict of metrics becomes one.  Raises `ContractError` for anything else."""
        found: object = self._called(lambda: self._scorer.score(case, view))
        if isinstance(found, Mapping):
            found = Score(found)
        if not isinstance(found, Score):
            raise ContractError(f"scorer {self.name!r} returned {shown(found)}; return a dict of metrics, or a Score")
        return found

    def identity(self) -> Mapping[str, Any]:
        found = self._called(self._scorer.identity)
        try:
            canonical_json(found)
        except (TypeError, ValueError) as error:
            raise ScoringError(f"scorer {self.name!r}: its identity has no JSON form: {error}") from error
        return found  # type: ignore[no-any-return]

    def _called(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (ScoringError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # sys.exit() and pytest.skip() in a scorer must not end the session
            raise scorer_fault(f"scorer {self.name!r}", error, self._file) from error


def check_contract(score: Score, metrics: Sequence[Metric]) -> dict[str, bool | int | float]:
    """The metrics of *score* as plain booleans, integers and finite floats; numpy's scalars are converted.

    Raises `ContractError` naming the metric: one that is promised in *metrics* but neither returned nor unjudged, or is
    both; a value that is no boolean or number, or not finite; reasons that are not text.  More than was promised is
    allowed.
    """
    _check_texts("reasons", score.reasons)
    _check_texts("unjudged", score.unjudged)
    if not isinstance(score.metrics, Mapping):
        raise ContractError(f"the scorer's metrics are {shown(score.metrics)}; they are a dict of name to value")
    values = {}
    for name, value in score.metrics.items():
        if not isinstance(name, str):
            raise ContractError(f"the name of a metric is {shown(name)}; it is a string")
        if name in score.unjudged:
            raise ContractError(f"metric {name!r} is both returned ({shown(value)}) and unjudged: leave out one")
        values[name] = _plain(name, value)
    returned = [*values, *score.unjudged]
    for metric in metrics:
        if metric.name not in returned:
            raise ContractError(
                f"metric {metric.name!r} is promised under [metrics] but the scorer returned only "
                f"{', '.join(map(repr, returned)) or 'nothing'}{did_you_mean(metric.name, returned)}; "
                "return it, or name it in unjudged with the reason"
            )
    return values


def scorer_fault(who: str, error: BaseException, file: str | None = None) -> ScoringError:
    """What a user's scorer raised, as one line: where it happened, the type and the message.

    The place is the innermost one in *file* where that is given and took part, else the innermost of all.
    """
    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame for frame in frames if frame.filename == file] or list(frames)
    where = f"{mine[-1].filename}:{mine[-1].lineno}: " if mine else ""
    if isinstance(error, SyntaxError) and error.filename:
        where = f"{error.filename}:{error.lineno}: "
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    said = f": {message}" if message else ""
    return ScoringError(f"{who}: {where}{type(error).__name__}{said}")


def _plain(name: str, value: Any) -> bool | int | float:
    if hasattr(value, "dtype") and hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        plain = int(value) if isinstance(value, int) else float(value)
        if not _is_finite(plain):
            raise ContractError(f"metric {name!r} is {shown(value)}, not finite; {_ALLOWED}, or is named in unjudged")
        return plain
    raise ContractError(f"metric {name!r} is {shown(value)}; {_ALLOWED}, or is named in unjudged with the reason")


def _is_finite(value: int | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond the largest float
        return False


def _check_texts(what: str, texts: Any) -> None:
    if not isinstance(texts, Mapping):
        raise ContractError(f"{what} is {shown(texts)}; it is a dict of metric name to text")
    for name, text in texts.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise ContractError(f"{what} holds {shown(name)}: {shown(text)}; names and texts are strings")


def shown(value: Any) -> str:
    """*value* and its type in at most some 80 characters, for a message."""
    try:
        text = repr(value)
    except Exception as error:  # a user's class, or an integer too long to write
        text = f"<{type(error).__name__} when shown>"
    return f"{text if len(text) <= 60 else text[:57] + '...'} (a {type(value).__name__})"
