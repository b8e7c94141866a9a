"""A provider over HTTP against a server that plays every row of the table."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
import subprocess
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from pytest_battery.edges.models.attempts import Retries
from pytest_battery.edges.models.http_faults import TABLE
from pytest_battery.edges.models.http_provider import HttpProvider, Limits
from pytest_battery.edges.models.providers import BUILT_IN, ProviderConfig
from pytest_battery.errors import CallError, ProviderError
from pytest_battery.values.calls import Message, Reply, Request
from pytest_battery.values.subjects import parse_subject
from pytest_battery.values.usage import Cost

from .http_server import Answer, Asked, PlayingServer, playing

QUICK = Limits(connect=5, idle=0.3, total=0.6, body=20_000)
TWICE_MORE = Retries(failures=3, refusals=3, first_wait=0.0)
KEY = "sk-abcdef123"
OK = Answer(
    body={
        "model": "m-2026",
        "choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
    },
    headers={"x-request-id": "r1", "x-secret-thing": "no"},
)


def config(server: PlayingServer, **more: Any) -> ProviderConfig:
    return replace(ProviderConfig("lan", "openai-chat", f"{server.url}/v1", "LAN_KEY"), **more)


def provider_of(
    server: PlayingServer, limits: Limits = QUICK, retries: Retries = TWICE_MORE, **more: Any
) -> HttpProvider:
    return HttpProvider(config(server, **more), environ={"LAN_KEY": KEY}, limits=limits, retries=retries)


def request_of(subject: str = "lan/m") -> Request:
    return Request(parse_subject(subject), (Message("user", "Say yes."),))


def asks(server: PlayingServer, count: int, subject: str = "lan/m", **more: Any) -> list[Reply]:
    """*count* calls, one after the other."""

    async def work() -> list[Reply]:
        provider, request, replies = provider_of(server, **more), request_of(subject), []
        try:
            for _ in range(count):
                async with provider.slot(request.subject):
                    replies.append(await provider.complete(request))
        finally:
            await provider.aclose()
        return replies

    return anyio.run(work)


def ask(server: PlayingServer, subject: str = "lan/m", **more: Any) -> Reply:
    return asks(server, 1, subject, **more)[0]


def test_what_was_sent_is_what_is_shown() -> None:
    with playing([OK]) as server:
        reply = ask(server, "lan/m@temperature=0.7,max_tokens=20,stop=END", dialect="vllm")
    (asked,) = server.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.json == {
        "model": "m",
        "messages": [{"role": "user", "content": "Say yes."}],
        "temperature": 0.7,
        "max_completion_tokens": 20,
        "stop": ["END"],
    }
    assert reply.observed == {"temperature": 0.7, "max_tokens": 20, "stop": "END"}
    assert reply.envelope["body"] == asked.json
    assert reply.envelope["headers"] == {"content-type": "application/json"}
    assert reply.envelope["url"] == f"{server.url}/v1/chat/completions"
    assert KEY not in json.dumps([dict(reply.envelope), dict(reply.headers)])
    assert (reply.text, reply.model, reply.status) == ("yes", "m-2026", 200)
    assert (reply.usage.input, reply.usage.cache_read, reply.usage.output) == (6, 4, 2)
    assert reply.headers == {"x-request-id": "r1"}
    assert [attempt["status"] for attempt in reply.attempts] == [200]


ERROR = {"error": {"message": "no"}}
EVENTS = {"content-type": "text/event-stream"}
HALF = b'data: {"choices": [{"delta": {"content": "ye"}}]}\n\n'


ROWS: Sequence[tuple[Answer, str, str, int]] = [
    (Answer(400, ERROR), "bad-request", "us", 1),
    (Answer(400, {"error": {"message": "maximum context length is 8192"}}), "context-length", "subject", 1),
    (Answer(401, ERROR), "key", "us", 1),
    (Answer(402, ERROR), "quota", "infrastructure", 1),
    (Answer(403, ERROR), "key", "us", 1),
    (Answer(404, ERROR), "unknown-model", "us", 1),
    (Answer(408, ERROR), "http-408", "infrastructure", 3),
    (Answer(409, ERROR), "http-409", "infrastructure", 3),
    (Answer(413, ERROR), "bad-request", "us", 1),
    (Answer(422, ERROR), "bad-request", "us", 1),
    (Answer(429, ERROR, {"retry-after": "0"}), "http-429", "infrastructure", 3),
    (Answer(429, ERROR, {"retry-after": "86400"}), "quota", "infrastructure", 1),
    (Answer(429, {"error": {"code": "insufficient_quota"}}), "quota", "infrastructure", 1),
    (Answer(500, ERROR), "http-500", "infrastructure", 3),
    (Answer(502, b"<html>"), "http-502", "infrastructure", 3),
    (Answer(503, ERROR, {"retry-after-ms": "1"}), "http-503", "infrastructure", 3),
    (Answer(529, ERROR), "http-529", "infrastructure", 3),
    (Answer(302, b"", {"location": "/x"}), "redirect", "us", 1),
    (Answer(200, b"<html>sign in</html>"), "not-json", "infrastructure", 3),
    (Answer(200, {"hello": 1}), "no-choices", "infrastructure", 3),
    (Answer(200, [1]), "not-the-api", "us", 1),
    (Answer(200, {"choices": None}), "no-choices", "infrastructure", 3),
    (Answer(200, {"choices": []}), "no-choices", "infrastructure", 3),
    (Answer(200, ERROR), "error-body", "infrastructure", 3),
    (Answer(200, {"error": {"code": 429, "retryDelay": "0s"}}), "http-429", "infrastructure", 3),
    (Answer(200, {"error": {"code": 401, "message": "key"}}), "key", "us", 1),
    (Answer(hold=True), "timeout", "infrastructure", 3),
    (Answer(close=True), "connection", "infrastructure", 3),
    (Answer(body=OK.body, close=True, sent=20), "connection", "infrastructure", 3),
    (Answer(pieces=[b"x" * 9_000] * 3), "too-long", "infrastructure", 1),
    (Answer(200, {"error": {"code": 503, "message": "upstream"}}), "http-503", "infrastructure", 3),
    (Answer(pieces=[b"{", *[b" "] * 50], pause=0.05), "timeout", "infrastructure", 3),
    (Answer(200, b"\x1f\x8bnonsense", {"content-encoding": "gzip"}), "connection", "infrastructure", 3),
]
STREAMS: Sequence[tuple[Answer, str, int]] = [
    (Answer(pieces=[HALF], headers=EVENTS), "stream-cut", 3),
    (Answer(pieces=[HALF], headers=EVENTS, close=True), "connection", 3),
    (Answer(pieces=[HALF], headers=EVENTS, hold=True), "timeout", 3),
    (Answer(pieces=[HALF, b'data: {"error": {"message": "overloaded"}}\n\n'], headers=EVENTS), "error-body", 3),
    (Answer(pieces=[HALF, b"data: {nonsense\n\n"], headers=EVENTS), "not-json", 3),
    (Answer(pieces=[b": ping\n" * 100] * 50, headers=EVENTS), "too-long", 1),
    # a byte now and then, never silent for long enough to be given up for that
    (Answer(pieces=[HALF, *[b":"] * 50], headers=EVENTS, pause=0.05), "timeout", 3),
]


@pytest.mark.parametrize(("answer", "kind", "fault", "requests"), ROWS)
def test_each_row_of_the_table(answer: Answer, kind: str, fault: str, requests: int) -> None:
    with playing([answer]) as server, pytest.raises(CallError) as caught:
        ask(server)
    assert (caught.value.kind, caught.value.fault, len(server.asked)) == (kind, fault, requests)
    assert str(caught.value).startswith("lan")


@pytest.mark.parametrize(("answer", "kind", "requests"), STREAMS)
def test_each_row_of_the_table_in_a_stream(answer: Answer, kind: str, requests: int) -> None:
    with playing([answer]) as server, pytest.raises(CallError) as caught:
        ask(server, stream=True)
    assert (caught.value.kind, len(server.asked)) == (kind, requests)


def test_a_stream_is_kept_event_by_event() -> None:
    rest = b'data: {"choices": [{"delta": {"content": "s"}, "finish_reason": "stop"}]}\n\n'
    last = b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}\n\ndata: [DONE]\n\n'
    content = HALF + rest + last
    pieces = [content[start : start + 7] for start in range(0, len(content), 7)]
    with playing([Answer(pieces=pieces, headers=EVENTS)]) as server:
        reply = ask(server, stream=True)
    assert (reply.text, reply.stop_reason, reply.usage.output) == ("yes", "stop", 1)
    assert [name for name, _ in reply.raw["stream"]] == [None] * 4
    assert reply.raw["stream"][-1][1] == "[DONE]"
    assert server.asked[0].json["stream_options"] == {"include_usage": True}


def test_a_retry_is_an_attempt_of_the_same_call() -> None:
    with playing([Answer(503, ERROR), Answer(429, ERROR, {"retry-after": "0"}), OK]) as server:
        reply = ask(server)
    assert reply.text == "yes"
    assert [(one["status"], one["error"]) for one in reply.attempts] == [
        (503, "http-503"),
        (429, "http-429"),
        (200, None),
    ]
    assert len({asked.body for asked in server.asked}) == 1


def test_the_cost_is_incomplete_where_an_attempt_was_lost_that_may_have_been_charged() -> None:
    def price(*_: Any) -> Cost:
        return Cost(usd=0.5, priced_by="the test")

    async def costs(server: PlayingServer) -> Cost:
        provider = HttpProvider(config(server), environ={"LAN_KEY": KEY}, price=price, limits=QUICK, retries=TWICE_MORE)
        reply = await provider.complete(request_of())
        await provider.aclose()
        return reply.cost

    for lost, incomplete in ((Answer(503, ERROR), False), (Answer(200, {"choices": []}), True)):
        with playing([lost, OK]) as server:
            cost = anyio.run(costs, server)
        assert (cost.usd, cost.incomplete) == (0.5, incomplete)


def test_a_spent_quota_stops_the_subject() -> None:
    with playing([Answer(402, ERROR)]) as server:

        async def work() -> str:
            provider, request = provider_of(server), request_of()
            with pytest.raises(CallError, match="402"):
                await provider.complete(request)
            with pytest.raises(CallError, match="lan/m is not asked again in this session") as caught:
                async with provider.slot(request.subject):
                    raise AssertionError("the slot of a spent subject was given")
            await provider.aclose()
            return caught.value.kind

        assert anyio.run(work) == "quota"
    assert len(server.asked) == 1


def test_no_server_is_a_connection_that_failed() -> None:
    with playing([OK]) as server:
        pass
    with pytest.raises(CallError) as caught:
        ask(server)
    assert caught.value.kind == "connection"


def test_a_server_without_tls_is_told_at_once() -> None:
    with playing([OK]) as server, pytest.raises(CallError) as caught:
        ask(server, base_url=server.url.replace("http:", "https:"))
    assert (caught.value.kind, caught.value.fault) == ("tls", "us")
    assert server.connections == 1


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    """A certificate for 127.0.0.1 that only itself vouches for, and a server's side of it."""
    place = tmp_path_factory.mktemp("tls")
    key, certificate = place / "key.pem", place / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl makes the certificate: apt-get install openssl")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context


def test_a_certificate_that_nobody_vouches_for_is_told_at_once(certificate: tuple[Path, ssl.SSLContext]) -> None:
    with playing([OK], tls=certificate[1]) as server, pytest.raises(CallError, match="self-signed") as caught:
        ask(server)
    assert (caught.value.kind, caught.value.fault, server.asked) == ("tls", "us", [])


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_a_certificate_of_the_environment_is_trusted(
    certificate: tuple[Path, ssl.SSLContext], tmp_path: Path, variable: str
) -> None:
    trusted = certificate[0]
    if variable == "SSL_CERT_DIR":
        done = subprocess.run(
            ["openssl", "x509", "-hash", "-noout", "-in", str(trusted)], capture_output=True, text=True
        )
        (tmp_path / f"{done.stdout.strip()}.0").write_bytes(trusted.read_bytes())
        trusted = tmp_path
    with playing([OK], tls=certificate[1]) as server:
        environ = {"LAN_KEY": KEY, variable: str(trusted)}
        provider = HttpProvider(config(server), environ=environ, limits=QUICK, retries=TWICE_MORE)

        async def work() -> Reply:
            try:
                return await provider.complete(request_of())
            finally:
                await provider.aclose()

        assert anyio.run(work).text == "yes"


def test_a_connection_that_the_server_closed_meanwhile_costs_no_answer() -> None:
    with playing([replace(OK, close=True, sent=10_000)]) as server:
        replies = asks(server, 3)
    assert [reply.text for reply in replies] == ["yes"] * 3


def test_cookies_are_not_kept() -> None:
    with playing([replace(OK, headers={"set-cookie": "session=1; Path=/"})]) as server:
        asks(server, 2)
    assert ["cookie" in asked.headers for asked in server.asked] == [False, False]


def test_a_proxys_long_header_is_read() -> None:
    with playing([replace(OK, headers={"x-trace": "t" * 30_000, "x-request-id": "r2"})]) as server:
        assert ask(server).headers["x-request-id"] == "r2"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_packed_answer_is_unpacked_and_bounded_by_what_it_unpacks_to(encoding: str) -> None:
    pack = gzip.compress if encoding == "gzip" else zlib.compress
    small, huge = json.dumps(OK.body).encode(), b" " * 5_000_000
    packed = [replace(OK, body=pack(content), headers={"content-encoding": encoding}) for content in (small, huge)]
    with playing(packed[:1]) as server:
        assert ask(server).text == "yes"
    with playing(packed[1:]) as server, pytest.raises(CallError, match="longer than 20000 bytes") as caught:
        ask(server)
    assert caught.value.kind == "too-long"


def test_a_packed_stream_is_read_and_bounded_as_it_comes() -> None:
    last = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    for content, text in ((HALF + last, "ye"), (b": ping\n" * 5000, None)):
        packed = gzip.compress(content)
        pieces = [packed[start : start + 5] for start in range(0, len(packed), 5)]
        answer = Answer(pieces=pieces, headers={**EVENTS, "content-encoding": "gzip"})
        with playing([answer]) as server:
            if text is not None:
                assert [reply.text for reply in asks(server, 2, stream=True)] == [text] * 2
                assert server.connections == 1
            else:
                with pytest.raises(CallError, match="longer than 20000 bytes"):
                    ask(server, stream=True)


@pytest.mark.parametrize("header", ["sm\u00f6rg\u00e5s", "two\r\nlines"])
def test_a_header_that_cannot_be_sent_is_ours(header: str) -> None:
    with playing([OK]) as server, pytest.raises(CallError) as caught:
        ask(server, headers={"x-title": header})
    assert (caught.value.kind, caught.value.fault, len(server.asked)) == ("not-sent", "us", 0)


def test_every_row_is_played() -> None:
    """By its own kind, or that of the status where the row stands for several."""
    played = {kind for _, kind, *_ in (*ROWS, *STREAMS)} | {"tls", "not-sent"}
    assert {kind for kind in TABLE if kind not in ("http-4xx", "http-5xx")} <= played
    assert {"http-408", "http-409", "http-500", "http-502", "http-503", "http-529"} <= played


def test_a_wrong_key_names_where_it_comes_from_and_not_itself() -> None:
    with (
        playing([Answer(401, ERROR)]) as server,
        pytest.raises(CallError, match="the key comes from LAN_KEY") as caught,
    ):
        ask(server)
    assert KEY not in str(caught.value)


# -- connections ----------------------------------------------------------------------------------


def test_calls_one_after_the_other_share_a_connection() -> None:
    with playing([OK]) as server:
        asks(server, 5)
    assert server.connections == 1


@pytest.mark.parametrize("apart", [True, False], ids=["the end comes later", "the end comes along"])
def test_streams_one_after_the_other_share_a_connection(apart: bool) -> None:
    last = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'
    pieces = [HALF, last, b"data: [DONE]\n\n", b": bye\n\n"] if apart else [HALF + last + b"data: [DONE]\n\n"]
    with playing([Answer(pieces=pieces, headers=EVENTS)]) as server:
        assert [reply.text for reply in asks(server, 5, stream=True)] == ["ye"] * 5
    assert server.connections == 1


def test_a_stream_that_stays_open_after_its_end_marker_is_not_waited_for() -> None:
    last = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    with playing([Answer(pieces=[HALF + last], headers=EVENTS, hold=True)]) as server:
        replies = asks(server, 2, stream=True, limits=replace(QUICK, idle=60))
    assert [(reply.text, len(reply.attempts)) for reply in replies] == [("ye", 1)] * 2


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with playing([OK]) as server, playing([Answer(502, ERROR)]) as proxy:
        for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        assert ask(server).text == "yes"
    assert proxy.connections == 0


def test_a_connection_on_which_a_call_was_given_up_is_not_used_again() -> None:
    with playing([Answer(hold=True), OK]) as server:
        (reply,) = asks(server, 1)
    assert [attempt["error"] for attempt in reply.attempts] == ["timeout", None]
    assert server.connections == 2


def test_a_call_that_is_cancelled_leaves_room_and_a_client() -> None:
    """Whoever is cancelled in the midst of an answer holds neither the place nor the connection."""
    with playing([Answer(hold=True), Answer(pieces=[HALF], headers=EVENTS, hold=True), OK]) as server:

        async def work() -> tuple[Reply, int]:
            provider = provider_of(server, limits=replace(QUICK, idle=60, total=60), stream=True)
            for count in (1, 2):
                call = asyncio.create_task(provider.complete(request_of()))
                while len(server.asked) < count:
                    await asyncio.sleep(0.001)
                call.cancel()
                with suppress(asyncio.CancelledError):
                    await call
            in_flight = provider.limiter.in_flight
            reply = await provider.complete(request_of())
            await provider.aclose()
            return reply, in_flight

        reply, in_flight = anyio.run(work)
    assert (reply.text, in_flight) == ("yes", 0)


# -- how many at once -----------------------------------------------------------------------------


def test_a_burst_of_refusals_loses_nothing() -> None:
    """64 at once against a server that takes 4: all are answered, and the limit settles at what the server takes."""

    def busy(asked: Asked) -> Answer:
        return replace(OK, delay=0.01) if server.at_once <= 4 else Answer(429, ERROR, {"retry-after": "0.01"})

    with playing(busy) as server:

        async def work() -> tuple[int, int, float]:
            provider = provider_of(server, limits=replace(QUICK, total=20), retries=Retries())
            answered = attempts = 0

            async def one() -> None:
                nonlocal answered, attempts
                reply = await provider.complete(request_of())
                answered += reply.text == "yes"
                attempts += len(reply.attempts)

            async with anyio.create_task_group() as group:
                for _ in range(100):
                    group.start_soon(one)
            await provider.aclose()
            return answered, attempts, provider.limiter.limit

        answered, attempts, limit = anyio.run(work)
    assert answered == 100
    assert attempts == len(server.asked)
    assert limit <= 16


def test_never_more_than_the_providers_own_limit() -> None:
    def slow(asked: Asked) -> Answer:
        return replace(OK, delay=0.005)

    with playing(slow) as server:

        async def work() -> None:
            provider = provider_of(server, limits=replace(QUICK, total=20), max_in_flight=3)
            async with anyio.create_task_group() as group:
                for _ in range(20):
                    group.start_soon(provider.complete, request_of())
            await provider.aclose()

        anyio.run(work)
    assert len(server.asked) == 20
    assert server.most_at_once <= 3


# -- before any call, and the credential ------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "subject", "message"),
    [
        ("anthropic", "anthropic/claude-haiku-4-5@max_tokens=4000,temperature=0.5,thinking=low", "temperature"),
        ("anthropic", "anthropic/claude-haiku-4-5", "max_tokens"),
        ("openai", "openai/gpt-5@temperature=0", "temperature"),
        ("google", "google/gemini-2.5-pro:off", "off"),
    ],
)
def test_a_knob_that_cannot_be_honoured_is_refused_before_any_call(name: str, subject: str, message: str) -> None:
    with pytest.raises(ProviderError, match=message):
        HttpProvider(BUILT_IN[name], environ={}).identify(parse_subject(subject))


def test_a_missing_key_is_found_before_any_call() -> None:
    with pytest.raises(ProviderError, match="anthropic: the variable ANTHROPIC_API_KEY holds no key"):
        HttpProvider(BUILT_IN["anthropic"], environ={}).check(parse_subject("anthropic/claude-haiku-4-5"))


def test_a_key_that_went_missing_ends_the_call() -> None:
    with playing([OK]) as server, pytest.raises(CallError, match="LAN_KEY holds no key") as caught:
        anyio.run(HttpProvider(config(server), environ={}).complete, request_of())
    assert (caught.value.kind, caught.value.fault, server.connections) == ("refused", "us", 0)


def test_vertex_names_the_variable_it_lacks() -> None:
    with pytest.raises(ProviderError, match="the variable GOOGLE_CLOUD_PROJECT is not set"):
        HttpProvider(BUILT_IN["vertex-anthropic"], environ={}).check(parse_subject("vertex-anthropic/claude-haiku-4-5"))


def counting(path: Path) -> tuple[str, ...]:
    """A command that prints another token each time: token-1, token-22, ..."""
    script = 'echo x >> "$0"; n=$(wc -l < "$0"); printf "token-"; printf "%0.s$n" $(seq $n)'
    return ("sh", "-c", script, str(path))


def test_a_token_that_ran_out_is_renewed_within_the_attempt(tmp_path: Path) -> None:
    def once_only(asked: Asked) -> Answer:
        return OK if asked.headers["authorization"] == "Bearer token-22" else Answer(401, ERROR)

    with playing(once_only) as server:
        replies = asks(server, 2, key_env=None, key_command=counting(tmp_path / "runs"))
    assert [len(reply.attempts) for reply in replies] == [1, 1]
    assert [asked.headers["authorization"][-2:] for asked in server.asked] == ["-1", "22", "22"]


def test_a_token_that_is_refused_again_is_a_wrong_key(tmp_path: Path) -> None:
    with playing([Answer(401, ERROR)]) as server, pytest.raises(CallError) as caught:
        ask(server, key_env=None, key_command=("echo", "the-same-token"))
    assert (caught.value.kind, len(server.asked)) == ("key", 1)
