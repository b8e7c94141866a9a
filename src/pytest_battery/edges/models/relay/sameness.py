"""When a request of a replayed agent is the one that was recorded: what in it means nothing, API by API.

An agent puts things into its requests that differ from run to run and mean nothing.  They are left out or written alike
before two requests are compared:

- `DROPPED`: fields at the top of the body, by API: who asks, in which session, and keys of caches.  The model is left
  out too: it is always the subject's.
- `IDS`: ids of calls of tools and of items, by API.  They are numbered in the order in which they first come, so that
  which answer belongs to which call still counts.  What a tool is given or answers is no place for ids.
- `MASKS`: stretches of any text that look like a moment, a duration, a random id or a path of temporary files.

So two requests that differ in such a stretch alone are the same one; how often it was asked tells them apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pytest_battery.values.canonical import digest
from pytest_battery.values.subjects import Subject

__all__ = ["DROPPED", "IDS", "MASKS", "Sameness"]

DROPPED: Mapping[str, frozenset[str]] = {
    "openai-chat": frozenset({"metadata", "model", "prompt_cache_key", "safety_identifier", "user"}),
    "openai-responses": frozenset(
        {"client_metadata", "metadata", "model", "prompt_cache_key", "safety_identifier", "user"}
    ),
    "anthropic": frozenset({"anthropic_version", "metadata", "model"}),
    "google": frozenset({"labels", "model", "session_id"}),
}

IDS: Mapping[str, frozenset[str]] = {
    "openai-chat": frozenset({"id", "tool_call_id"}),
    "openai-responses": frozenset({"call_id", "id"}),
    "anthropic": frozenset({"id", "tool_use_id"}),
    "google": frozenset({"id"}),
}

_TALK = {"openai-chat": "messages", "openai-responses": "input", "anthropic": "messages", "google": "contents"}
_CONTENT = {
    "openai-chat": frozenset({"arguments", "content"}),
    "openai-responses": frozenset({"action", "arguments", "output"}),
    "anthropic": frozenset({"input"}),
    "google": frozenset({"args", "response"}),
}
"""What stands in the talk and is a tool's, or plain text: an ``id`` in it is no id of the API's."""

MASKS: Mapping[str, str] = {
    "id": r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b",
    "moment": r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\b(?:(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?,? )?"
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:tember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?) +\d{1,2},? +(?:\d{4}|\d\d:\d\d(?::\d\d)?)(?:,? \d{4})?"
    r"|\b\d{1,2}/\d{1,2}/\d{4}\b|\b\d\d:\d\d:\d\d(?:\.\d+)?\b",
    "duration": r"\b\d+(?:\.\d+)? ?(?:ms|milliseconds?|s|secs?|seconds?)\b",
    "temporary": r"(?<![\w.~-])/(?:private/)?(?:var/)?tmp/[^\s\"'`<>:;,()\[\]]*",
    "hex": r"\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}\b|\b(?:Chunk ID: |cch=)[0-9a-f]+",
}
"""By the word that stands for it."""

_MASK = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in MASKS.items()))
_HINT = re.compile(r"[0-9]|/tmp/")


class Sameness:
    """Of the requests by one API; texts that come again, as those of a growing conversation do, are masked once."""

    def __init__(self, api: str) -> None:
        self._api = api
        self._masked: dict[str, str] = {}

    def hash(self, subject: Subject, body: Mapping[str, Any]) -> str:
        return digest({"api": self._api, "subject": subject.key, "body": self.canonical(body)})

    def canonical(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """What of *body* counts, as plain JSON."""
        ids: dict[str, str] = {}
        dropped, talk = DROPPED[self._api], _TALK[self._api]
        return {
            name: self._walked(value, ids if name == talk else None)
            for name, value in body.items()
            if name not in dropped
        }

    def _walked(self, value: Any, ids: dict[str, str] | None) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            known, content = IDS[self._api], _CONTENT[self._api]
            found = {}
            for name, item in value.items():
                if ids is not None and name in known and isinstance(item, str):
                    found[name] = ids.setdefault(item, f"#{len(ids) + 1}")
                else:
                    inside = None if name in content and not _has_ids(self._api, name, item) else ids
                    found[name] = self._walked(item, inside)
            return found
        if isinstance(value, list):
            return [self._walked(item, ids) for item in value]
        return value

    def _text(self, text: str) -> str:
        masked = self._masked.get(text)
        if masked is None:
            masked = text
            if _HINT.search(text):
                masked = _MASK.sub(lambda found: f"[{found.lastgroup}]", text)
            self._masked[text] = masked
        return masked


def _has_ids(api: str, name: str, item: Any) -> bool:
    """Whether *item* is parts of a message, which may be of the API's own making, and no content of a tool's."""
    return api == "anthropic" and name == "input" and isinstance(item, list)
