"""What went through the relay, summed up: the only source of a run's numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_battery.values.names import shortest_number
from pytest_battery.values.relayed import RelayedCall
from pytest_battery.values.subjects import Subject
from pytest_battery.values.usage import Cost, Usage

__all__ = ["Summary", "is_same_model", "summed"]

_VERSION = re.compile(r"(?:-(?:20\d{6}|20\d\d-\d\d-\d\d|\d{3,4}|\d\d-\d\d|\d\d-20\d\d|latest|preview|free))*")


@dataclass(frozen=True, slots=True)
class Summary:
    """``calls`` are all that went out, helpers' and failed ones among them; ``turns`` the agent's own that were answered.

    ``usage`` and ``cost`` are of all of them; ``stop_reason`` is that of the agent's last own answer.  ``models`` are the
    ids that the answers name; ``observed`` has the knobs on the wire, call by call.  ``violations`` say why this is no
    measurement of its subject; ``missing`` what a replay asked for and was not recorded; ``unknown`` requests for
    something else than a model, ``refused`` the calls that came when the run was over; ``ended_by`` the cap that ended
    it.
    """

    calls: int
    helpers: int
    failed: int
    turns: int
    usage: Usage
    cost: Cost
    stop_reason: str | None
    models: tuple[str, ...]
    observed: tuple[Mapping[str, Any], ...]
    violations: tuple[str, ...]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    refused: int
    ended_by: str | None


def summed(
    subject: Subject,
    calls: Sequence[RelayedCall],
    *,
    broken: Sequence[str] = (),
    missing: Sequence[str] = (),
    unknown: Sequence[str] = (),
    refused: int = 0,
    ended_by: str | None = None,
) -> Summary:
    """*calls* in order; *broken* is what went wrong in the relay itself."""
    answered = [call for call in calls if call.answered]
    own = [call for call in answered if not call.helper]
    return Summary(
        calls=len(calls),
        helpers=sum(call.helper for call in calls),
        failed=len(calls) - len(answered),
        turns=len(own),
        usage=_usage(answered),
        cost=_cost(calls),
        stop_reason=own[-1].stop_reason if own else None,
        models=tuple(dict.fromkeys(call.model for call in answered if call.model is not None)),
        observed=tuple(call.observed for call in calls),
        violations=(*broken, *(violation for call in calls for violation in _violations(subject, call))),
        missing=tuple(missing),
        unknown=tuple(unknown),
        refused=refused,
        ended_by=ended_by,
    )


def is_same_model(asked: str, answered: str) -> bool:
    """Whether the id in an answer is that of the model asked for: providers add a maker, a date or a version to it."""
    asked, answered = _plain(asked), _plain(answered)
    for told in ("-latest", "-free"):
        asked = asked.removesuffix(told)
    return answered.startswith(asked) and _VERSION.fullmatch(answered[len(asked) :]) is not None


def _plain(name: str) -> str:
    return re.sub(r"[._@:]", "-", name.lower().rpartition("/")[2])


def _violations(subject: Subject, call: RelayedCall) -> Iterator[str]:
    asked = {**({"thinking": subject.level} if subject.level else {}), **dict(subject.knobs)}
    for name, value in asked.items():
        seen = call.observed.get(name)
        if seen is None or _as_text(seen) != value:
            shown = "not on the wire" if seen is None else f"{seen!r} on the wire"
            yield f"call {call.number}: {name}={value} was asked for and is {shown}"
    if call.answered and call.model is not None and not is_same_model(subject.model, call.model):
        yield f"call {call.number}: {call.model} answered, not {subject.model}"


def _as_text(value: Any) -> str:
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return shortest_number(text) or text


def _usage(answered: Sequence[RelayedCall]) -> Usage:
    if not answered:
        return Usage()
    total = answered[0].usage
    for call in answered[1:]:
        total = total + call.usage
    return total


def _cost(calls: Sequence[RelayedCall]) -> Cost:
    """The sum over the calls; unknown where that of an answer is, incomplete where a call may have been charged."""
    costs = [call.cost for call in calls if call.answered]
    incomplete = any(call.cost.incomplete for call in calls)
    if not costs:
        return Cost(usd=None if incomplete else 0.0, incomplete=incomplete)
    known = [cost.usd for cost in costs if cost.usd is not None]
    usd = sum(known) if len(known) == len(costs) else None
    return Cost(usd=usd, priced_by=costs[-1].priced_by, price_date=costs[-1].price_date, incomplete=incomplete)
