"""What a row says beside its numbers: what was left out of them, and what to be careful of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_battery.saying.cells import CellRecords, Tally
from pytest_battery.saying.verdicts import Gap

__all__ = [
    "cautions",
    "incomparable",
    "listed",
    "look_note",
    "mixed",
    "no_data",
    "omissions",
    "other_models",
    "same_measurement",
    "unshared",
]

# Established at least once by that look where nothing differs, in %: bench/calibration.py --only looks, both ways.
_FALSE_BY_LOOK = {2: "5-6", 3: "7-8", 5: "11", 10: "16-19"}
_NAMED = 5  # ids that are told one by one

_SEED_LUCK = 0.006  # within this of alpha, another seed of 10,000 draws may fall on the other side


def incomparable(metric: str, mine: Tally, reference: CellRecords, other: Tally) -> str:
    """Why a cell with data has no gap to its *reference*, whose tally is *other*; empty if it has one."""
    if reference.refused:
        return f"the reference is refused: {reference.refused}"
    if not other.types:
        return f"the reference has {no_data(reference, other)}"
    types = dict(mine.types)
    for name, count in other.types.items():
        types[name] = types.get(name, 0) + count
    return "" if len(types) == 1 and other.kind is not None else mixed(metric, types)


def mixed(metric: str, types: Mapping[str, int]) -> str:
    """A metric that is not one measure, by what its values are."""
    found = " and ".join(f"{name} in {_count(count, 'run')}" for name, count in types.items())
    return f"no gap: {metric} is {found}"


def no_data(records: CellRecords, found: Tally) -> str:
    """A cell without any value, and what became of its runs."""
    why = [f"{count} {kind}" for kind, count in _by_count(records.invalid)]
    why += [f"{records.stale} stale"] if records.stale else []
    why += [f"{found.unjudged} unjudged"] if found.unjudged else []
    return f"no data: {', '.join(why)}" if why else "no data"


def omissions(records: CellRecords, found: Tally) -> list[str]:
    """Runs and cases that are not in the row's numbers."""
    notes = []
    if any(records.invalid.values()):
        kinds = ", ".join(f"{count} {kind}" for kind, count in _by_count(records.invalid))
        notes.append(f"{_count(sum(records.invalid.values()), 'invalid run')} left out: {kinds}")
    if records.stale:
        notes.append(f"{_count(records.stale, 'stale run')} left out")
    if found.unjudged:
        notes.append(f"{found.unjudged} of {_count(found.total, 'run')} unjudged")
    if found.unplanned:
        notes.append(f"{_count(found.unplanned, 'case')} no longer in the task left out")
    return notes


def unshared(mine: Tally, other: Tally) -> list[str]:
    """Cases that only the cell or only its reference has."""
    here, there = mine.values.keys(), other.values.keys()
    if not here & there:
        return [f"no case is shared: {len(here)} here, {len(there)} in the reference"]
    sides = ((here - there, "only here"), (there - here, "only in the reference"))
    parts = [f"{_count(len(cases), 'case')} {where}: {listed(cases)}" for cases, where in sides if cases]
    return ["; ".join(parts)] if parts else []


def listed(names: Iterable[str]) -> str:
    """*names* in order, the first few of them where there are many."""
    ordered = sorted(names)
    more = len(ordered) - _NAMED
    return ", ".join(ordered if more <= 1 else [*ordered[:_NAMED], f"and {more} more"])


def same_measurement(cases: int, against: str) -> str:
    """A row whose two sides are one measurement."""
    return (
        f"no gap: unchanged, its {_count(cases, 'shared case')} are the same runs as in {against}; nothing was compared"
    )


def other_models(mine: CellRecords, reference: CellRecords) -> list[str]:
    """A warning where one subject was answered by other models than its own reference was."""
    here, there = _answered(mine), _answered(reference)
    if mine.cell != reference.cell or here == there or not here or not there:
        return []
    return [f"answered by {listed(here)}; the reference was answered by {listed(there)}"]


def look_note(number: int, planned: int | None) -> str:
    """A caution from the second look on; empty for the first."""
    if number == 1:
        return ""
    if planned is None:
        most = max(looks for looks in _FALSE_BY_LOOK if looks <= number)
        return (
            f"look {number} of this gap: stopping at the first star in {most} looks finds {_FALSE_BY_LOOK[most]}% of the "
            "gaps that are not there; plan looks with --looks"
        )
    return f"look {number} of {planned} planned" + (", beyond the plan" if number > planned else "")


def _answered(records: CellRecords) -> set[str]:
    return {record.response_model for runs in records.runs.values() for record in runs if record.response_model}


def cautions(gap: Gap, values: tuple[float | None, float | None], if_worst: Gap | None) -> list[str]:
    """What may mislead in a gap.

    *values* are the two cells' own; *if_worst* is the gap with missing runs taken as the worst, None where none are.
    """
    mine, other = values
    notes = []
    if mine is not None and other is not None and (mine - other) * gap.estimate < 0:
        notes.append("the cells' own values differ the other way: their cases or numbers of runs differ")
    if gap.p_floor <= gap.alpha and abs(gap.p - gap.alpha) <= _SEED_LUCK:
        notes.append(f"near the line: unadjusted p is {gap.p:.3f}, another seed might fall on the other side")
    if if_worst is not None and if_worst.direction != gap.direction:
        verdict = " ".join(filter(None, (if_worst.state, if_worst.direction)))
        notes.append(f"if missing = worst: {verdict}")
    return notes


def _by_count(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(((name, count) for name, count in counts.items() if count), key=lambda item: (-item[1], item[0]))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
