"""Credentials are taken out by their value, wherever they stand, before anything reaches the disk."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

__all__ = ["SHORTEST", "Secrets", "secrets_of"]

SHORTEST = 8
"""A value of fewer characters, or of fewer than five different ones, is no secret worth the damage of taking it out:
"test" or "none" stands everywhere."""

_NAMES = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)\Z", re.IGNORECASE)
_HEADERS = frozenset(
    {"authorization", "api-key", "cookie", "proxy-authorization", "set-cookie", "x-api-key", "x-goog-api-key"}
)
_QUERY = re.compile(r"([?&](?:key|api_key|apikey|access_token|token|sig|signature)=)[^&\s\"'#]+", re.IGNORECASE)
_BLANK = "[redacted]"


class Secrets:
    """The values that must not be written down, by the names they are known under."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._forms: dict[str, str] = {}
        for name, value in values.items():
            if len(value) < SHORTEST or len(set(value)) < 5:
                continue
            for form in _forms(value):
                self._forms.setdefault(form, name)
        longest_first = sorted(self._forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self._bytes = re.compile("|".join(map(re.escape, longest_first)).encode()) if longest_first else None

    def __repr__(self) -> str:
        return f"<{len(set(self._forms.values()))} secrets>"

    def text(self, text: str) -> str:
        """*text* without the values, and without what stands behind ``key=`` in a URL."""
        if "=" in text:
            text = _QUERY.sub(rf"\1{_BLANK}", text)
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: f"[redacted:{self._forms[found.group()]}]", text)

    def plain(self, value: Any, *, header: bool = False) -> Any:
        """Plain JSON without them: keys and values, however deep.  Headers that carry credentials are blanked by name."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {
                self.text(str(key)): _BLANK if str(key).lower() in _HEADERS else self.plain(item)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.plain(item) for item in value]
        return value

    def holds(self, content: bytes) -> str | None:
        """The name of a secret that *content* holds, in any of its forms; None if it holds none."""
        if self._bytes is None:
            return None
        found = self._bytes.search(content)
        return None if found is None else self._forms[found.group().decode()]


def secrets_of(environ: Mapping[str, str], named: Mapping[str, str]) -> Secrets:
    """The secrets of a process: *named* values, and variables whose names say that they hold one."""
    found = {name: value.strip() for name, value in environ.items() if _NAMES.search(name)}
    return Secrets({**found, **named})


def _forms(value: str) -> set[str]:
    """The value as it stands, and as URLs, base64 and JSON write it."""
    encoded = value.encode()
    forms = {value, quote(value, safe=""), base64.b64encode(encoded).decode().rstrip("=")}
    forms |= {base64.urlsafe_b64encode(encoded).decode().rstrip("="), json.dumps(value)[1:-1]}
    forms.add(json.dumps(value, ensure_ascii=False)[1:-1])
    return {form for form in forms if len(form) >= SHORTEST}
