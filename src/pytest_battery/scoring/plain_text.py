"""Text as matchers compare it: what a file system, an editor or a tokenizer did to it must not decide a grade."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["excerpt", "fold_case", "plain_text"]

_SURROGATE = re.compile("[\ud800-\udfff]")


def plain_text(text: str) -> str:
    """*text* with LF line ends, without a BOM in front, in Unicode form NFC, and U+FFFD for each lone surrogate.

    Doing it twice changes nothing more.
    """
    text = _SURROGATE.sub("\ufffd", text).lstrip("\ufeff")
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n"))


def fold_case(text: str) -> str:
    """*text* for a comparison that ignores case: ``STRASSE`` equals ``straße``."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def excerpt(text: str, limit: int) -> str:
    """*text* between quotes, in one line of at most *limit* characters (>= 8); what cannot be printed is escaped."""
    shown = "".join(character if character.isprintable() else repr(character)[1:-1] for character in text[:limit])
    return f"'{shown}'" if len(text) <= limit and len(shown) <= limit - 2 else f"'{shown[: limit - 5]}...'"
