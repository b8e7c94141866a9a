"""The calls of a recorded run, to be answered from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from pytest_battery.edges.models.relay.sameness import Sameness
from pytest_battery.edges.models.relay.wording import Wording
from pytest_battery.values.canonical import canonical_json
from pytest_battery.values.differences import first_difference
from pytest_battery.values.relayed import RelayedCall
from pytest_battery.values.subjects import Subject

__all__ = ["Recording", "parts_of"]


class Recording:
    """Each call is found by what it asks and how often that was asked before: repeats never share an answer.

    *wording* must be that of the provider that was recorded; nothing of the provider itself is needed.
    """

    def __init__(self, wording: Wording, calls: Sequence[RelayedCall]) -> None:
        self.wording = wording
        self._sameness = Sameness(wording.api)
        self._calls = sorted(calls, key=lambda call: call.number)
        self._by_key: dict[str, list[int]] = {}
        for index, call in enumerate(self._calls):
            # Both: what was written down may have lost a credential since, and what counts may have changed.
            for key in {call.request_hash, self._sameness.hash(call.subject, _body(call))}:
                self._by_key.setdefault(key, []).append(index)
        self._taken: set[int] = set()

    def take(self, key: str) -> RelayedCall | None:
        """The next recorded call with that hash; None where there is none left."""
        for index in self._by_key.get(key, ()):
            if index not in self._taken:
                self._taken.add(index)
                return self._calls[index]
        return None

    def missing(self, subject: Subject, body: Mapping[str, Any], key: str) -> str:
        """Why the request is not found: how it first differs from the nearest one that was recorded."""
        if same := len(self._by_key.get(key, ())):
            return f"this was asked {same} time{'' if same == 1 else 's'}, and is asked once more"
        if not self._calls:
            return "no call was recorded"
        mine = self._sameness.canonical(body)
        text = canonical_json(mine)
        free = [call for index, call in enumerate(self._calls) if index not in self._taken] or self._calls
        others = [self._sameness.canonical(_body(call)) for call in free]
        near = max(range(len(free)), key=lambda at: (_alike(text, canonical_json(others[at])), -at))
        differs = first_difference(others[near], mine)
        if not differs and free[near].subject != subject:
            differs = f"{free[near].subject} was asked, and now {subject}"
        return f"nearest is call {free[near].number}: {differs or 'another API was asked'}"


def parts_of(response: Any) -> Iterator[bytes]:
    """The body of a recorded response, part by part: the events of a stream one by one."""
    if isinstance(response, Mapping) and set(response) == {"stream"}:
        for name, data in response["stream"]:
            head = f"event: {name}\n" if name is not None else ""
            lines = "\n".join(f"data: {line}" for line in data.split("\n"))
            yield f"{head}{lines}\n\n".encode("utf-8", "surrogatepass")
    elif isinstance(response, Mapping) and set(response) == {"text"}:
        yield str(response["text"]).encode("utf-8", "surrogatepass")
    elif response is not None:
        yield json.dumps(response, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _body(call: RelayedCall) -> Mapping[str, Any]:
    body = call.envelope.get("body")
    return body if isinstance(body, Mapping) else {}


def _alike(one: str, other: str) -> int:
    """How many characters two texts have in common at their start and at their end, less what one has more."""
    shorter, longer = sorted((len(one), len(other)))
    start = _common(one, other)
    end = _common(one[start:][::-1], other[start:][::-1])
    return start + end - (longer - shorter)


def _common(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
