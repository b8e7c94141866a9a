"""Credentials are taken out by their value, wherever they stand, before anything reaches the disk.

Not every value is taken for a credential, though its variable's name says so: "test", "temperature" or "not-needed"
stand everywhere, and taking them out would damage what was measured.  A value counts from `SHORTEST` characters and five
different ones on, unless it is plain: up to `PLAIN` characters that are digits only, or words of letters in one case.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

__all__ = ["PLAIN", "SHORTEST", "Secrets", "secrets_of"]

SHORTEST = 8
"""A value of fewer characters is no secret worth the damage of taking it out."""
PLAIN = 19
"""So long may a word, a few words or a number be that is no secret."""

_VARIETY = 5
_PLAIN = re.compile(r"\d+|[a-z]+([-_. ][a-z]+)*|[A-Z]+([-_. ][A-Z]+)*")
_NAMES = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)\Z", re.IGNORECASE)
_HEADERS = frozenset(
    {"authorization", "api-key", "cookie", "proxy-authorization", "set-cookie", "x-api-key", "x-goog-api-key"}
)
_IN_URL = r"[?&](?:key|api_key|apikey|access_token|token|sig|signature)="
_QUERY = re.compile(rf"({_IN_URL})(?:\[redacted:[^\]]*\]|[^&\s\"'#])+", re.IGNORECASE)
_BEFORE_QUERY = re.compile(_IN_URL, re.IGNORECASE)
_BLANK = "[redacted]"
_URL_SAFE = str.maketrans("+/", "-_")
_PASSES = 4  # what is put in for one value may complete another; what is left then is for the scan to refuse


class Secrets:
    """Credentials by the name that is put in their place: ``[redacted:NAME]``."""

    def __init__(self, values: Mapping[str, str]) -> None:
        found = {name: value.strip() for name, value in values.items()}
        kept = {name: value for name, value in found.items() if _counts(value)}
        marks = [_mark(name) for name in kept]
        self._names: dict[str, str] = {}
        for name, value in kept.items():
            for form in _forms(value):
                # A value that stands in what is put in for a value could never be taken out.
                if not any(form in mark for mark in marks):
                    self._names.setdefault(form, name)
        longest_first = sorted(self._names, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        self._enough = _shortest_of(longest_first)
        self._written = {written: self._names[form] for form in self._enough for written in _as_written(form)}

    def __repr__(self) -> str:
        return f"<{len(set(self._names.values()))} secrets>"

    def text(self, text: str) -> str:
        """*text* without the values, and without what stands behind ``key=`` and the like in a URL."""
        for _ in range(_PASSES):
            # Looking for each is far quicker than looking for any, and most texts hold none.
            if not any(form in text for form in self._enough):
                break
            text = self._pattern.sub(lambda found: _mark(self._names[found.group()]), text)
        return _QUERY.sub(rf"\1{_BLANK}", text) if "=" in text else text

    def taken_from(self, content: bytes) -> bytes:
        """*content* without them; what is no UTF-8 in it stays as it is."""
        if self.holds(content) is None and b"=" not in content:
            return content
        return self.text(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def plain(self, value: Any, *, header: bool = False) -> Any:
        """Plain JSON without them: keys and values, however deep.

        Headers that carry credentials are blanked by their names: in *value* itself where it is a mapping of headers
        (*header*), and under each key that ends in "headers".  Elsewhere a name says nothing: a metric may be
        called "cookie".
        """
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            clean: dict[str, Any] = {}
            for key, item in value.items():
                name = str(key)
                blank = header and name.lower() in _HEADERS
                kept = _BLANK if blank else self.plain(item, header=name.lower().endswith("headers"))
                clean[_another(self.text(name), clean)] = kept
            return clean
        if isinstance(value, list | tuple):
            return [
                [self.text(item[0]), _BLANK] if header and _carries(item) else self.plain(item, header=header)
                for item in value
            ]
        return value

    def may_change(self, content: bytes) -> bool:
        """Whether `plain` might change the JSON that *content* is.  Far quicker, and never wrongly False."""
        if self.holds(content) is not None:
            return True
        text = content.decode("utf-8", "surrogatepass").lower()
        return any(name in text for name in _HEADERS) or ("=" in text and _BEFORE_QUERY.search(text) is not None)

    def holds(self, content: bytes) -> str | None:
        """The name of a secret that *content* holds, in any of its forms; None if it holds none."""
        return next((name for form, name in self._written.items() if form in content), None)


def secrets_of(environ: Mapping[str, str], named: Mapping[str, str]) -> Secrets:
    """The secrets of a process: *named* values, and variables whose names say that they hold one."""
    return Secrets({**{name: value for name, value in environ.items() if _NAMES.search(name)}, **named})


def _counts(value: str) -> bool:
    if len(value) < SHORTEST or len(set(value)) < _VARIETY:
        return False
    return len(value) > PLAIN or _PLAIN.fullmatch(value) is None


def _mark(name: str) -> str:
    return f"[redacted:{name}]"


def _another(name: str, taken: Mapping[str, Any]) -> str:
    """*name*, or the next one that is free: two keys that were different stay two."""
    count, free = 1, name
    while free in taken:
        count += 1
        free = f"{name}#{count}"
    return free


def _carries(item: Any) -> bool:
    """Whether *item* is a header of a list of pairs, and one that carries a credential."""
    return isinstance(item, list | tuple) and len(item) == 2 and str(item[0]).lower() in _HEADERS


def _forms(value: str) -> set[str]:
    """The value as it stands, and as URLs, JSON and base64 write it; in base64 also with something before or after it,
    as in ``USER:PASSWORD``."""
    encoded = value.encode("utf-8", "surrogatepass")
    forms = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    for quoted in (quote(encoded, safe=""), quote(encoded), quote_plus(encoded)):
        forms |= {quoted, re.sub(r"%..", lambda found: found.group().lower(), quoted)}
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + encoded).decode().rstrip("=")
        # Six bits a character: those that share bits with a neighbour are not the value's alone.
        alone = whole[(before * 8 + 5) // 6 : (before + len(encoded)) * 8 // 6]
        forms |= {alone, alone.translate(_URL_SAFE)}
        if before == 0:
            forms |= {whole, whole.translate(_URL_SAFE)}
    return {form for form in forms if len(form) >= SHORTEST}


def _shortest_of(forms: Iterable[str]) -> tuple[str, ...]:
    """Those of *forms* that hold no other one: a text without these is without all."""
    kept: list[str] = []
    for form in sorted(forms, key=len):
        if not any(shorter in form for shorter in kept):
            kept.append(form)
    return tuple(kept)


def _as_written(form: str) -> set[bytes]:
    """Its bytes on the disk, in a text or in JSON; a lone surrogate is written as JSON spells it, or as it is."""
    in_json = json.dumps(form, ensure_ascii=False)[1:-1].encode("utf-8", "backslashreplace")
    return {form.encode("utf-8", "backslashreplace"), form.encode("utf-8", "surrogatepass"), in_json}
