"""What a provider may send that is no answer, and what follows from it: one table."""

from __future__ import annotations

import email.utils
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import aiohttp

from pytest_battery.errors import CallError, Fault

__all__ = ["LONGEST_WAIT", "TABLE", "Failure", "Row", "of_answer", "of_status", "of_transport", "retry_after"]

LONGEST_WAIT = 120.0
"""Seconds: a provider that asks for more has spent its quota, not its breath."""


@dataclass(frozen=True, slots=True)
class Row:
    """``kind`` is the class of the error, ``fault`` whose it is; ``retry`` whether asking again may help;
    ``stops`` whether nobody should ask that subject again in this session; ``paid`` whether the model may have done
    work that is charged, though no answer came.  None of them is a result."""

    kind: str
    fault: Fault
    retry: bool
    what: str
    stops: bool = False
    paid: bool = False


TABLE: Mapping[str, Row] = {
    row.kind: row
    for row in (
        Row("bad-request", "us", False, "the provider refuses the request as it was written (400, 413, 422)"),
        Row("not-sent", "us", False, "the request cannot be sent: the base URL or a header is none"),
        Row("context-length", "subject", False, "the conversation is longer than the model can read"),
        Row("key", "us", False, "the key is missing, wrong, or may not do this (401, 403)"),
        Row("unknown-model", "us", False, "the provider has no such model or path (404)"),
        Row("redirect", "us", False, "the base URL leads elsewhere (3xx)"),
        Row("quota", "infrastructure", False, "the quota or the credit is spent (402, some 429 and 400)", stops=True),
        Row("http-429", "infrastructure", True, "too many at once, or too soon (429)"),
        Row("http-4xx", "infrastructure", True, "the provider asks to try again (408, 409, 425)"),
        Row("http-5xx", "infrastructure", True, "the provider failed (500, 502, 503, 504, 529)"),
        Row("not-json", "infrastructure", True, "a 200 that is no JSON, such as a proxy's page"),
        Row("not-the-api", "us", False, "JSON of another shape: the base URL speaks another API"),
        Row("no-choices", "infrastructure", True, "no answer in the answer: choices null, missing or empty", paid=True),
        Row("error-body", "infrastructure", True, "an error in the body of a 200, or as an event of a stream"),
        Row("stream-cut", "infrastructure", True, "a stream that ends before its end marker", paid=True),
        Row("too-long", "infrastructure", False, "an answer beyond all measure", paid=True),
        Row("connection", "infrastructure", True, "refused, reset, or no such host"),
        Row("tls", "us", False, "the certificate is not trusted, or there is no TLS"),
        Row("timeout", "infrastructure", True, "accepted, and not answered in time", paid=True),
    )
}

_CONTEXT = re.compile(
    r"context.{0,20}(length|window|size)|maximum context|too many tokens|prompt is too long"
    r"|token count.{0,40}exceeds the maximum",
    re.IGNORECASE,
)
# What a spent account says.  "quota" and "billing" alone say nothing: a limit per minute is told in the same words.
_SPENT = re.compile(
    r"insufficient_quota|credit balance|insufficient.{0,10}(credit|balance|fund)|hard.?limit|specified API usage limit",
    re.IGNORECASE,
)
_DAILY_QUOTA = re.compile(r"PerDay")  # the id of Google's quotas; they come with a wait of seconds nevertheless
_DAILY = re.compile(r"per.day|daily", re.IGNORECASE)
_BODY_WAIT = re.compile(
    r'"retryDelay":\s*"(?P<delay>\d+(\.\d+)?)s"'
    r"|try again in (?P<told>(?:\d+h)?(?:\d+m(?!s))?(?:\d+(?:\.\d+)?(?:ms|s))?)",
)
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PASSED_ON = re.compile(r'"(?:code|status)":\s*"?([45]\d\d)(?!\d)')
_AGAIN = (408, 409, 425)


@dataclass(frozen=True, slots=True)
class Failure:
    """One attempt that gave no answer.  ``wait`` is what the provider asks for, in seconds; None if it doesn't say.
    ``passed_on`` is the status that a gateway tells in the body of a 200."""

    row: Row
    message: str
    status: int | None = None
    wait: float | None = None
    passed_on: int | None = None

    @property
    def kind(self) -> str:
        """The row's, with the status itself where the row stands for several."""
        status = self.passed_on or self.status
        return f"http-{status}" if self.row.kind in ("http-4xx", "http-5xx") else self.row.kind


def of_status(status: int, headers: Mapping[str, str], body: str, now: datetime | None = None) -> Failure:
    """What a status that is no success means."""
    said = body.strip()[:500]
    wait = retry_after(headers, now)
    if wait is None and status == 429:
        wait = _told_wait(body)
    if 300 <= status < 400:
        kind, said = "redirect", f"to {headers.get('location', 'nowhere')!r}"
    elif status == 402 or (status in (400, 403) and _SPENT.search(body)):
        kind = "quota"
    elif status in (401, 403):
        kind = "key"
    elif status == 404:
        kind = "unknown-model"
    elif status == 429:
        spent = _SPENT.search(body) or _DAILY_QUOTA.search(body) or (wait is None and _DAILY.search(body))
        kind = "quota" if spent or _too_long(wait) else "http-429"
    elif status in _AGAIN:
        kind = "http-4xx"
    elif 400 <= status < 500:
        kind = "context-length" if _CONTEXT.search(body) else "bad-request"
    elif status >= 500:
        kind = "quota" if _too_long(wait) else "http-5xx"
    else:
        kind = "not-the-api"  # 1xx never ends a response, and 2xx is none of this table's business
    asked = f", asks to wait {wait:g} s" if kind == "quota" and wait is not None else ""
    return Failure(TABLE[kind], f"HTTP {status}{asked}: {said or 'nothing more'}", status, wait)


def _too_long(wait: float | None) -> bool:
    return wait is not None and wait > LONGEST_WAIT


def _told_wait(body: str) -> float | None:
    """Seconds that a body asks to wait, as Google (``"retryDelay": "33s"``) and OpenAI ("try again in 7m12s") say it."""
    found = _BODY_WAIT.search(body)
    if found is None:
        return None
    if found["delay"] is not None:
        return float(found["delay"])
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|h|m|s)", found["told"])
    return sum(float(number) * _UNITS[unit] for number, unit in parts) if parts else None


def of_answer(error: CallError) -> Failure:
    """What an API found wrong with the body of a 200."""
    row = TABLE.get(error.kind, TABLE["error-body"])
    text = str(error)
    if row.kind == "error-body":
        if code := _PASSED_ON.search(text):  # a gateway passes on what its own provider said
            status = int(code.group(1))
            passed = of_status(status, {}, text)
            return Failure(passed.row, text, 200, passed.wait, status)
        if _SPENT.search(text):
            row = TABLE["quota"]
        elif re.search(r"invalid_request|authentication|permission|not_found", text):
            row = TABLE["bad-request"]
    return Failure(row, text, 200)


def of_transport(error: Exception) -> Failure:
    """What came of a connection."""
    text = f"{type(error).__name__}: {_said(error)}".rstrip(": ")
    cause: BaseException | None = error
    while cause is not None:  # first of all: a certificate's error is a ValueError too
        if isinstance(cause, ssl.SSLCertVerificationError) or "WRONG_VERSION_NUMBER" in str(cause):
            return Failure(TABLE["tls"], text)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError | ValueError):
        return Failure(TABLE["not-sent"], text)
    if isinstance(error, aiohttp.SocketTimeoutError):
        return Failure(TABLE["timeout"], text)
    return Failure(TABLE["connection"], text)


def _said(error: Exception) -> str:
    """In one line."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server closed the connection without an answer"
    # The status of such an error is aiohttp's own opinion: it was no answer that a status could stand in.
    text = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
    if isinstance(error, aiohttp.InvalidURL) and error.__cause__ is not None:
        text = f"{text} ({error.__cause__})"
    return " ".join(text.split())


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
