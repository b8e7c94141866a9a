"""Headers: those that may be sent, and what is read and kept of those that come."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["kept", "received", "sendable", "shown"]

_KEPT = ("date", "request-id", "retry-after", "server-timing", "x-request-id", "openai-processing-ms", "cf-ray")
_KEPT_STARTS = ("x-ratelimit-", "anthropic-ratelimit-")
_SHOWN = ("anthropic-beta", "anthropic-version", "content-type", "openai-beta")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Beyond ASCII the other side could only guess what is meant.
_VALUE = re.compile(r"([\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?)?")
_FRAMING = frozenset({"content-length", "expect", "transfer-encoding", "upgrade"})
"""Headers that say how a request goes over the wire, which is not for a configuration to say."""


def sendable(headers: Mapping[str, str]) -> dict[str, str]:
    """*headers* as they are.  Raises `ValueError` for one that may not be sent."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or name.lower() in _FRAMING:
            raise ValueError(f"{name!r} is no header that may be set")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"the header {name} holds characters that no header may hold, or blanks at an end")
    return dict(headers)


def shown(headers: Mapping[str, str]) -> dict[str, str]:
    """Those of a request that go into the evidence: they shape the answer and hold no credential."""
    lower = {name.lower(): value for name, value in headers.items()}
    return {name: lower[name] for name in _SHOWN if name in lower}


def received(headers: Mapping[str, str]) -> dict[str, str]:
    """Those of an answer, by names in lower case; with a comma between, where *headers* has one several times."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        name, text = name.lower(), value if value.isascii() else _text(value)
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def kept(headers: Mapping[str, str]) -> dict[str, str]:
    """Those of what was `received` that go into the record."""
    return {name: value for name, value in headers.items() if name in _KEPT or name.startswith(_KEPT_STARTS)}


def _text(value: str) -> str:
    """UTF-8 if it can be, else Latin-1, as headers were in the beginning."""
    content = value.encode("utf-8", "surrogateescape")  # as aiohttp reads them
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("latin-1")
