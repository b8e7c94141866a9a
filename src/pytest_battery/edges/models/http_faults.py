"""What a provider may send that is no answer, and what follows from it: one table."""

from __future__ import annotations

import email.utils
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx

from pytest_battery.errors import CallError, Fault

__all__ = ["LONGEST_WAIT", "TABLE", "Failure", "Row", "of_answer", "of_status", "of_transport", "retry_after"]

LONGEST_WAIT = 120.0
"""Seconds: a provider that asks for more has spent its quota, not its breath."""


@dataclass(frozen=True, slots=True)
class Row:
    """``kind`` is the class of the error, ``fault`` whose it is; ``retry`` whether asking again may help;
    ``stops`` whether nobody should ask that subject again in this session."""

    kind: str
    fault: Fault
    retry: bool
    stops: bool
    what: str


TABLE: Mapping[str, Row] = {
    row.kind: row
    for row in (
        Row("bad-request", "us", False, False, "the provider refuses the request as it was written (400, 413, 422)"),
        Row("context-length", "subject", False, False, "the conversation is longer than the model can read"),
        Row("key", "us", False, False, "the key is missing, wrong, or may not do this (401, 403)"),
        Row("unknown-model", "us", False, False, "the provider has no such model or path (404)"),
        Row("redirect", "us", False, False, "the base URL leads elsewhere (3xx)"),
        Row("quota", "infrastructure", False, True, "the quota or the credit is spent (402, some 429)"),
        Row("http-429", "infrastructure", True, False, "too many at once (429)"),
        Row("http-4xx", "infrastructure", True, False, "the provider asks to try again (408, 409, 425)"),
        Row("http-5xx", "infrastructure", True, False, "the provider failed (500, 502, 503, 504, 529)"),
        Row("not-json", "infrastructure", True, False, "a 200 that is no JSON, such as a proxy's page"),
        Row("not-the-api", "us", False, False, "JSON of another shape: the base URL speaks another API"),
        Row("no-choices", "infrastructure", True, False, "an answer without an answer: choices null, missing or empty"),
        Row("error-body", "infrastructure", True, False, "an error in the body of a 200, or as an event of a stream"),
        Row("stream-cut", "infrastructure", True, False, "a stream that ends before its end marker"),
        Row("too-long", "infrastructure", False, False, "an answer beyond all measure"),
        Row("connection", "infrastructure", True, False, "refused, reset, or no such host"),
        Row("tls", "us", False, False, "the certificate is not trusted"),
        Row("timeout", "infrastructure", True, False, "accepted, and not answered in time"),
    )
}

_CONTEXT = re.compile(
    r"context.{0,20}(length|window|size)|maximum context|too many tokens|prompt is too long", re.IGNORECASE
)
_QUOTA = re.compile(r"insufficient_quota|quota|credit|billing|per.?day|daily|hard limit", re.IGNORECASE)
_BAD = (400, 413, 422)
_AGAIN = (408, 409, 425)


@dataclass(frozen=True, slots=True)
class Failure:
    """One attempt that gave no answer.  ``wait`` is what the provider asks for, in seconds; None if it doesn't say."""

    row: Row
    message: str
    status: int | None = None
    wait: float | None = None


def of_status(status: int, headers: Mapping[str, str], body: str, now: datetime | None = None) -> Failure:
    """What a status that is no success means."""
    said = body.strip()[:500]
    wait = retry_after(headers, now)
    kind = "http-5xx"
    if 300 <= status < 400:
        kind, said = "redirect", f"to {headers.get('location', 'nowhere')!r}"
    elif status in (401, 403):
        kind = "key"
    elif status == 402:
        kind = "quota"
    elif status == 404:
        kind = "unknown-model"
    elif status == 429:
        spent = _QUOTA.search(body) and (wait is None or wait > LONGEST_WAIT or "insufficient_quota" in body)
        kind = "quota" if spent or (wait is not None and wait > LONGEST_WAIT) else "http-429"
    elif status in _AGAIN:
        kind = "http-4xx"
    elif status < 500:
        kind = "context-length" if _CONTEXT.search(body) else "bad-request"
    elif wait is not None and wait > LONGEST_WAIT:
        kind = "quota"
    asked = f", asks to wait {wait:g} s" if kind == "quota" and wait is not None else ""
    return Failure(TABLE[kind], f"HTTP {status}{asked}: {said or 'nothing more'}", status, wait)


def of_answer(error: CallError) -> Failure:
    """What an API found wrong with the body of a 200."""
    row = TABLE.get(error.kind, TABLE["error-body"])
    text = str(error)
    if row.kind == "error-body":
        code = re.search(r'"(?:code|status)":\s*"?(\d{3})', text)
        if code and int(code.group(1)) != 200:  # a gateway passes on what its own provider said
            passed = of_status(int(code.group(1)), {}, text)
            return Failure(passed.row, text, 200, passed.wait)
        if re.search(r"invalid_request|authentication|permission|not_found", text):
            return Failure(TABLE["bad-request"], text, 200)
    return Failure(row, text, 200)


def of_transport(error: Exception) -> Failure:
    """What came of a connection."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, httpx.TimeoutException):
        return Failure(TABLE["timeout"], text)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return Failure(TABLE["tls"], text)
        cause = cause.__cause__ or cause.__context__
    return Failure(TABLE["connection"], text)


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that the provider asks to wait: ``retry-after-ms``, or ``retry-after`` in seconds or as a date."""
    millis = headers.get("retry-after-ms")
    if millis is not None:
        try:
            return max(0.0, float(millis) / 1000)
        except ValueError:
            pass
    text = headers.get("retry-after")
    if text is None:
        return None
    try:
        seconds = float(text)
        return max(0.0, seconds) if seconds == seconds else None
    except ValueError:
        pass
    try:
        then = email.utils.parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, (then - (now or datetime.now(UTC))).total_seconds())
