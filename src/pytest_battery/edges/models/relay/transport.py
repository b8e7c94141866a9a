"""One HTTP request and its response, part by part as it comes."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from pytest_battery.edges.models.attempts import AttemptFailed
from pytest_battery.edges.models.http_faults import TABLE, Failure, of_transport

__all__ = ["Opened", "Outgoing", "Transport"]

_CONNECT = 10.0  # seconds
_KEEP_ALIVE = 30.0
_NOT_SENT = (httpx.InvalidURL, httpx.LocalProtocolError, httpx.UnsupportedProtocol, UnicodeError)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One request as it leaves; ``envelope`` is what may be shown of it."""

    url: str
    headers: Mapping[str, str]
    content: bytes
    envelope: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Opened:
    """The head of a response, and its body part by part, unpacked, as it comes."""

    status: int
    headers: Mapping[str, str]
    parts: AsyncIterator[bytes]


class Transport:
    """HTTP clients, each used by one call at a time and again by the next where connections are kept (*keep*); none
    takes anything from the environment but the certificates to trust.  How long a call may take is the caller's to say.
    """

    def __init__(self, *, tls: bool, keep: bool) -> None:
        self._tls, self._keep = tls, keep
        self._context: ssl.SSLContext | None = None
        self._free: list[httpx.AsyncClient] = []
        self._all: list[httpx.AsyncClient] = []

    @asynccontextmanager
    async def opened(self, outgoing: Outgoing) -> AsyncIterator[Opened]:
        """Send, and read inside.  Raises `AttemptFailed` for whatever becomes of the connection, then or later."""
        # What comes packed comes later.
        headers = {"accept-encoding": "identity", **outgoing.headers}
        client = self._free.pop() if self._free else self._new()
        try:
            async with client.stream("POST", outgoing.url, content=outgoing.content, headers=headers) as response:
                yield Opened(response.status_code, response.headers, response.aiter_bytes())
        except _NOT_SENT as error:
            raise AttemptFailed(Failure(TABLE["not-sent"], f"{type(error).__name__}: {error}")) from error
        except (httpx.HTTPError, OSError) as error:
            raise AttemptFailed(of_transport(error)) from error
        finally:
            self._free.append(client)

    def _new(self) -> httpx.AsyncClient:
        if self._context is None:
            self._context = httpx.create_ssl_context() if self._tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client = httpx.AsyncClient(
            trust_env=False,
            verify=self._context,
            follow_redirects=False,
            timeout=httpx.Timeout(None, connect=_CONNECT),
            limits=httpx.Limits(
                max_connections=1, max_keepalive_connections=int(self._keep), keepalive_expiry=_KEEP_ALIVE
            ),
        )
        self._all.append(client)
        return client

    async def aclose(self) -> None:
        clients, self._all, self._free = self._all, [], []
        for client in clients:
            await client.aclose()
