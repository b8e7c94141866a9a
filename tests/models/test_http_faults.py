"""What a provider says that is no answer, in the words of each of them."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import aiohttp
import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from pytest_battery.edges.models.http_faults import (
    TABLE,
    of_answer,
    of_status,
    of_transport,
    retry_after,
)
from pytest_battery.errors import CallError

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


def test_every_row_says_what_it_is() -> None:
    assert all(row.what and row.kind == kind for kind, row in TABLE.items())


def test_nothing_that_may_help_is_ours_or_ends_the_subject() -> None:
    assert not [row.kind for row in TABLE.values() if row.retry and (row.fault != "infrastructure" or row.stops)]


# -- when the provider wants to be asked again ------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=30), usegmt=True)}, 30),
        ({"retry-after": format_datetime(NOW - timedelta(days=1), usegmt=True)}, 0),
        ({"retry-after": "Tue, 01 Dec 2026 12:00:05 -0000"}, 5),
        ({}, None),
    ],
)
def test_retry_after_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ('{"details": [{"retryDelay": "33s"}]}', 33),
        ('{"details": [{"retryDelay":"0.5s"}]}', 0.5),
        ("Please try again in 20ms. Visit", 0.02),
        ("Please try again in 1.2s. Visit", 1.2),
        ("Please try again in 1m2.5s.", 62.5),
        ("Please try again in 2m.", 120),
        ("please try again in a while", None),
        ("slow down", None),
    ],
)
def test_a_wait_that_only_the_body_tells(body: str, seconds: float | None) -> None:
    found = of_status(429, {}, body)
    assert (found.kind, found.wait) == ("http-429", pytest.approx(seconds) if seconds is not None else None)


def test_the_header_goes_before_the_body() -> None:
    assert of_status(429, {"retry-after": "3"}, "try again in 1m").wait == 3


# -- a quota, or only a limit -----------------------------------------------------------------------

GOOGLE = '{"error": {"code": 429, "message": "You exceeded your current quota, please check your plan and billing details.", '
GOOGLE_MINUTE = GOOGLE + '"details": [{"quotaId": "GenerateRequestsPerMinutePerProject"}, {"retryDelay": "33s"}]}}'
GOOGLE_DAY = GOOGLE + '"details": [{"quotaId": "GenerateRequestsPerDayPerProject"}, {"retryDelay": "33s"}]}}'


@pytest.mark.parametrize(
    ("status", "headers", "body", "kind"),
    [
        (429, {"retry-after": "120"}, "", "http-429"),
        (429, {"retry-after": "121"}, "", "quota"),
        (429, {"retry-after": format_datetime(NOW + timedelta(hours=5), usegmt=True)}, "", "quota"),
        (503, {"retry-after": "3600"}, "", "quota"),
        (503, {"retry-after": "60"}, "", "http-503"),
        (429, {}, '{"error": {"code": "insufficient_quota"}}', "quota"),
        (429, {"retry-after": "1"}, '{"error": {"code": "insufficient_quota"}}', "quota"),
        (429, {}, GOOGLE_MINUTE, "http-429"),
        (429, {}, GOOGLE_DAY, "quota"),
        (429, {}, "Resource has been exhausted (e.g. check quota).", "http-429"),
        (429, {}, "on requests per day (RPD): Limit 200. Please try again in 7m12s.", "quota"),
        (429, {}, "on requests per day (RPD): Limit 10000. Please try again in 8.6s.", "http-429"),
        (
            429,
            {},
            "on tokens per min (TPM). Please try again in 1.2s. Add a payment method: account/billing",
            "http-429",
        ),
        (429, {}, "Rate limit exceeded: free-models-per-day", "quota"),
        (400, {}, "Your credit balance is too low to access the API.", "quota"),
        (400, {}, "You have reached your specified API usage limits.", "quota"),
        (402, {}, "Insufficient Balance", "quota"),
        (403, {}, "no access to this model", "key"),
    ],
)
def test_a_spent_quota_is_told_from_a_limit(status: int, headers: dict[str, str], body: str, kind: str) -> None:
    assert of_status(status, headers, body, NOW).kind == kind


@pytest.mark.parametrize(
    "body",
    [
        "This model's maximum context length is 8192 tokens.",
        '{"error": {"code": "context_length_exceeded"}}',
        "Your input exceeds the context window of this model.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "the request exceeds the available context size",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    ],
)
def test_a_conversation_that_is_too_long_is_the_subjects_in_everybodys_words(body: str) -> None:
    found = of_status(400, {}, body)
    assert (found.kind, found.row.fault) == ("context-length", "subject")


@pytest.mark.parametrize("status", [*range(300, 600)])
def test_every_status_has_a_row_and_keeps_its_number(status: int) -> None:
    found = of_status(status, {}, "x")
    assert f"HTTP {status}" in found.message
    assert found.status == status
    assert found.row.retry == (status in (408, 409, 425, 429) or status >= 500)


def test_a_long_body_is_cut() -> None:
    assert len(of_status(500, {}, "x" * 10_000).message) < 600


# -- an error in a 200 ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "status"),
    [
        ('the answer is an error: {"code": 503, "message": "upstream"}', "http-503", 200),
        ('the answer is an error: {"code": "429", "message": "upstream"}', "http-429", 200),
        ('the answer is an error: {"code": 1302, "message": "a number of their own"}', "error-body", 200),
        ('the answer is an error: {"type": "overloaded_error"}', "error-body", 200),
        ('the answer is an error: {"type": "invalid_request_error"}', "bad-request", 200),
        ('the answer is an error: {"code": "insufficient_quota"}', "quota", 200),
    ],
)
def test_what_an_error_in_a_200_means(text: str, kind: str, status: int) -> None:
    found = of_answer(CallError("error-body", "infrastructure", text))
    assert (found.kind, found.status) == (kind, status)


def test_an_unknown_kind_of_an_api_is_an_error_in_the_body() -> None:
    assert of_answer(CallError("new", "infrastructure", "x")).kind == "error-body"


# -- connections ------------------------------------------------------------------------------------


def caused_by(cause: Exception) -> aiohttp.ClientError:
    error = aiohttp.ClientError("no")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (aiohttp.ConnectionTimeoutError("slow"), "connection"),
        (aiohttp.SocketTimeoutError("slow"), "timeout"),
        (aiohttp.ClientOSError(-2, "Name or service not known"), "connection"),
        (aiohttp.ServerDisconnectedError("disconnected"), "connection"),
        (aiohttp.ClientPayloadError("bad gzip"), "connection"),
        (aiohttp.NonHttpUrlClientError("no http://"), "not-sent"),
        (aiohttp.InvalidUrlClientError("port"), "not-sent"),
        (ValueError("Illegal header value"), "not-sent"),
        (caused_by(ssl.SSLCertVerificationError("self-signed")), "tls"),
        (caused_by(ssl.SSLEOFError("cut short")), "connection"),
    ],
)
def test_what_a_connection_that_failed_means(error: Exception, kind: str) -> None:
    found = of_transport(error)
    assert found.kind == kind
    assert type(error).__name__ in found.message


def test_what_a_connection_failed_with_is_told_in_one_line_without_a_status_that_nobody_sent() -> None:
    url = URL("http://127.0.0.1/v1")
    request = aiohttp.RequestInfo(url, "POST", CIMultiDictProxy(CIMultiDict()), url)
    unreadable = aiohttp.ClientResponseError(request, (), status=400, message="Bad status line:\n\n  b'ICY'\n  ^")
    assert of_transport(unreadable).message == "ClientResponseError: Bad status line: b'ICY' ^"
    cut = aiohttp.ServerDisconnectedError("<RawResponseMessage(headers=...)>")
    assert of_transport(cut).message == "ServerDisconnectedError: the server closed the connection without an answer"
    none = aiohttp.InvalidUrlClientError("http://[::1")
    none.__cause__ = ValueError("Invalid IPv6 URL")
    assert of_transport(none).message == "InvalidUrlClientError: http://[::1 (Invalid IPv6 URL)"
    assert of_transport(OSError()).message == "OSError"
