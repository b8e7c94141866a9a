from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_battery.errors import ContractError, ScoringError
from pytest_battery.scoring import Score, View, check_contract
from pytest_battery.scoring.contract import Guarded
from pytest_battery.values.cases import Case
from pytest_battery.values.tasks import Metric

CORRECT = Metric("correct", "higher", primary=True)
TOKENS = Metric("tokens", "lower")


class Stub:
    """A scorer that does what it is told."""

    name = "stub"

    def __init__(self, call: Any) -> None:
        self.call = call

    def check(self, case: Case) -> None:
        self.call()

    def score(self, case: Case, view: View) -> Score:
        found: Score = self.call()
        return found

    def identity(self) -> dict[str, Any]:
        found: dict[str, Any] = self.call()
        return found


def graded(call: Any) -> Score:
    return Guarded(Stub(call)).score(Case("c1"), View("", "stop", Path()))


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (True, True),
        (3, 3),
        (0.5, 0.5),
        (np.bool_(True), True),
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.array(2), 2),
    ],
    ids=lambda value: f"{type(value).__module__}.{type(value).__name__}",
)
def test_values_become_plain(value: Any, plain: Any):
    found = check_contract(Score({"correct": value}), [CORRECT])["correct"]
    assert found == plain
    assert type(found) is type(plain)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("yes", r"'yes' \(a str\)"),
        (None, r"None \(a NoneType\)"),
        ([1], r"\[1\] \(a list\)"),
        (float("nan"), r"nan \(a float\), not finite"),
        (float("inf"), "inf"),
        (np.float64("nan"), "nan"),
        pytest.param(10**400, "not finite", id="too-large"),
        pytest.param(10**5000, "not finite", id="too-long-to-write"),
        (1j, "complex"),
        (np.array([1, 2]), "ndarray"),
    ],
)
def test_other_values_are_refused_by_name(value: Any, found: str):
    with pytest.raises(ContractError, match=rf"metric 'correct' is .*{found}.*true, false or a finite number"):
        check_contract(Score({"correct": value}), [CORRECT])


def test_more_than_promised_is_allowed_and_unjudged_counts():
    score = Score({"correct": True, "extra": 2}, unjudged={"tokens": "no usage"})
    assert check_contract(score, [CORRECT, TOKENS]) == {"correct": True, "extra": 2}


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (Score({"corect": True}), r"metric 'correct' is promised.*returned only 'corect' \(did you mean 'corect'"),
        (Score({}), "returned only nothing"),
        (Score({"correct": True}, unjudged={"correct": "?"}), "both returned .* and unjudged"),
        (Score({"correct": True}, reasons={"correct": 3}), "reasons holds"),  # type: ignore[dict-item]
        (Score({"correct": True}, unjudged={3: "x"}), "unjudged holds"),  # type: ignore[dict-item]
        (Score({"correct": True}, reasons=["x"]), "reasons is"),  # type: ignore[arg-type]
        (Score({1: True}), "name of a metric"),  # type: ignore[dict-item]
        (Score([]), "a dict of name to value"),  # type: ignore[arg-type]
    ],
)
def test_broken_contracts(score: Any, message: str):
    with pytest.raises(ContractError, match=message):
        check_contract(score, [CORRECT])


def test_what_a_scorer_raises_is_one_line_with_its_place():
    def raises() -> Score:
        raise KeyError("expect")

    expected = f"scorer 'stub': {__file__}:{raises.__code__.co_firstlineno + 1}: KeyError: 'expect'"
    guarded = Guarded(Stub(raises))
    for call in (lambda: graded(raises), lambda: guarded.check(Case("c1")), guarded.identity):
        with pytest.raises(ScoringError) as caught:
            call()
        assert str(caught.value) == expected


@pytest.mark.parametrize("error", [SystemExit(3), pytest.skip.Exception("no"), RecursionError(), AssertionError()])
def test_nothing_a_scorer_raises_ends_the_session(error: BaseException):
    def raises() -> Score:
        raise error

    with pytest.raises(ScoringError, match=type(error).__name__):
        graded(raises)


def test_an_interrupt_passes_through():
    def interrupted() -> Score:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        graded(interrupted)


def test_a_dict_becomes_a_score_and_nothing_else_does():
    assert graded(lambda: {"correct": True}) == Score({"correct": True})
    for value in (True, None, [1], "x"):
        with pytest.raises(ContractError, match=r"scorer 'stub' returned .*; return a dict of metrics, or a Score"):
            graded(lambda value=value: value)


def test_an_identity_is_json():
    assert Guarded(Stub(lambda: {"a": 1})).identity() == {"a": 1}
    with pytest.raises(ScoringError, match="identity has no JSON form"):
        Guarded(Stub(lambda: {"a": float("nan")})).identity()
