"""The connections of one provider: whom they trust, how long they live, and how they end."""

from __future__ import annotations

import asyncio
import functools
import select
import ssl
from collections.abc import Mapping
from importlib.metadata import version

import aiohttp
import certifi
from aiohttp.client_proto import ResponseHandler

from pytest_battery.edges.models.unpacking import ACCEPTED
from pytest_battery.errors import ProviderError

__all__ = ["new_session", "trust"]

_KEEP_ALIVE = 30.0  # seconds
_HEADER = 65536  # bytes of one line of a head: there are proxies that write a book into them


def new_session(*, connect: float, quiet: float, tls: ssl.SSLContext | bool) -> aiohttp.ClientSession:
    """Made in the event loop that uses it.  *connect* bounds finding the host, the connection and its TLS, *quiet* the
    silence before and inside an answer, in seconds; how many connections there are is the caller's to bound.

    Nothing outlives a call but its connection: no cookies, no credentials of ``.netrc``, no proxy of the environment.
    """
    return aiohttp.ClientSession(
        connector=_Connector(tls),
        timeout=aiohttp.ClientTimeout(total=None, connect=connect, sock_read=quiet),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"user-agent": f"pytest-battery/{version('pytest-battery')}", "accept-encoding": ACCEPTED},
        auto_decompress=False,
        max_line_size=_HEADER,
        max_field_size=_HEADER,
        trust_env=False,
    )


def trust(base_url: str, environ: Mapping[str, str]) -> ssl.SSLContext | bool:
    """Certifi's authorities, or those of ``SSL_CERT_FILE``, or else of ``SSL_CERT_DIR``.

    To read them costs 50 ms of CPU, and is left out where there is no TLS.  Raises `ProviderError` where they can't be.
    """
    if base_url.startswith("http://"):
        return True
    file, directory = environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")
    try:
        if directory and not file:
            context = ssl.create_default_context(capath=directory)
        else:
            context = ssl.create_default_context(cafile=file or certifi.where())
    except OSError as error:
        where = f"SSL_CERT_FILE, {file}," if file else certifi.where()
        raise ProviderError(f"the certificates to trust cannot be read from {where}: {error}") from None
    context.set_alpn_protocols(["http/1.1"])
    return context


class _Connection(ResponseHandler):
    """A connection that is closed at once, and not used again when its server has closed it."""

    def close(self) -> None:
        """Drop what is still to be sent, which by default goes out first.

        A call that was given up would go on and be paid for, and one whose server reads no more would stay for ever.
        """
        self.abort()

    def is_connected(self) -> bool:
        """Asked before it is used again.  That the server closed it may not have come round in the event loop, and then
        a request would be lost that no model has seen; whatever is to be read between two calls is no answer to one."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return False
        poll = select.poll()
        poll.register(transport.get_extra_info("socket"), select.POLLIN)
        return not poll.poll(0)


def _connection(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return _Connection(loop)


class _Connector(aiohttp.TCPConnector):
    def __init__(self, tls: ssl.SSLContext | bool) -> None:
        super().__init__(
            limit=0,
            keepalive_timeout=_KEEP_ALIVE,
            ssl=tls,
            resolver=aiohttp.ThreadedResolver(),  # the system's own, whatever else is installed
        )
        self._factory = functools.partial(_connection, loop=self._loop)
