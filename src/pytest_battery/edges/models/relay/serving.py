"""An ASGI application on a socket that is already listening, in the event loop at hand."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

__all__ = ["served"]

_KEEP_ALIVE = 3600  # seconds: who asks may work for a while between two calls
_HEAD = 65_536  # bytes: there are agents that tell whole stories in their headers

_silent = logging.Logger("pytest_battery.relay", logging.CRITICAL + 1)
"""Not of the tree of loggers: whatever the person's handlers are, an answer that was cut is no message for them."""


class _Protocol(H11Protocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = self.access_logger = _silent
        self.access_log = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # asyncio does this only for a listener made with the protocol's number, which most are not; without it each
        # answer waits 40 ms for an acknowledgement.
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@asynccontextmanager
async def served(app: ASGIApp, listener: socket.socket, *, at_once: int) -> AsyncIterator[None]:
    """Serve while inside.  On leaving, calls that are on their way are cancelled, and *listener* is closed.

    uvicorn's `Server` is not used: it is made for a process of its own, takes over signals, writes to standard error,
    and looks ten times a second whether it should end.  More than *at_once* connections are answered 503.
    """
    config = Config(
        app,
        interface="asgi3",
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        proxy_headers=False,
        limit_concurrency=at_once,
        timeout_keep_alive=_KEEP_ALIVE,
        h11_max_incomplete_event_size=_HEAD,
    )
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _Protocol(config=config, server_state=state, app_state={}), sock=listener, backlog=128
    )
    try:
        yield
    finally:
        server.close()
        tasks = set(state.tasks)
        for task in tasks:
            task.cancel()
        for connection in set(state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        if tasks:
            await asyncio.wait(tasks)
