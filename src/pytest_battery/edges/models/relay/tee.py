"""An answer that passes through, and is read as it passes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from pytest_battery.edges.models.apis import Answer, Api, StreamReading
from pytest_battery.edges.models.http_faults import TABLE, Failure, of_answer, of_status
from pytest_battery.edges.models.relay.asking import too_deep
from pytest_battery.edges.models.sse import Events
from pytest_battery.errors import CallError

__all__ = ["Tee"]


class Tee:
    """Give it every part of a response's body; in the end it knows what was answered.  Raises `CallError`
    (``too-long``) for more than *most* bytes; nothing else stops what passes."""

    def __init__(self, api: Api, status: int, headers: Mapping[str, str], most: int) -> None:
        self._api, self._status, self._headers, self._most = api, status, headers, most
        self.size = 0
        self._body = bytearray()
        self._events: Events | None = None
        self._seen: list[list[str | None]] = []
        self._reading: StreamReading | None = None
        self._error: CallError | None = None
        if 200 <= status < 300 and "event-stream" in headers.get("content-type", ""):
            self._events, self._reading = Events(), api.stream()

    @property
    def ended(self) -> bool:
        """Whether a stream has had its end marker."""
        return self._reading is not None and self._error is None and self._reading.ended

    def feed(self, part: bytes) -> None:
        self.size += len(part)
        if self.size > self._most:
            raise CallError("too-long", "infrastructure", f"the answer is longer than {self._most} bytes")
        if self._events is None:
            self._body += part
        else:
            self._take(self._events.feed(part))

    def _take(self, events: list[tuple[str | None, str]]) -> None:
        for name, data in events:
            self._seen.append([name, data])
            if self._error is None and self._reading is not None:
                try:
                    self._reading.feed(name, data)
                except CallError as error:  # the agent gets it all the same, and makes of it what it does
                    self._error = error

    def close(self) -> None:
        """Nothing follows: what the end cut off counts if it is whole."""
        if self._events is not None:
            self._take(self._events.feed(b"", last=True))

    def answer(self) -> Answer | Failure:
        """What all of it amounts to."""
        if not 200 <= self._status < 300:
            return of_status(self._status, self._headers, self._body.decode("utf-8", "replace"))
        try:
            if self._error is not None:
                raise self._error
            if self._reading is not None:
                return self._reading.answer()
            return self._api.read(self._document())
        except CallError as error:
            return of_answer(error)
        except (ValueError, RecursionError):
            shown = self._body[:200].decode("utf-8", "replace")
            return Failure(TABLE["not-json"], f"the answer is no JSON: {shown!r}", self._status)

    def response(self) -> Any:
        """What is kept of it: a JSON document, the events of a stream, or a text."""
        if self._events is not None:
            return {"stream": self._seen}
        try:
            document = self._document()
            if not too_deep(document):
                return document
        except (ValueError, RecursionError):
            pass
        return {"text": self._body.decode("utf-8", "replace")}

    def _document(self) -> Any:
        return json.loads(self._body, parse_constant=str, parse_float=_number)


def _number(text: str) -> float | str:
    """A number that JSON can say again; one that is beyond floats stays a text."""
    number = float(text)
    return text if math.isinf(number) else number
