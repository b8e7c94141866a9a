"""The process that serves one local model: ``python -m pytest_battery.edges.models.llama_child SETTINGS DESCRIPTOR``.

SETTINGS is JSON: ``key``, ``alias``, ``weights`` (a path), ``template`` (text or null), ``slots``, ``threads``,
``context`` and ``swa_full``.  DESCRIPTOR is a listening socket, inherited.  Whoever uses the model holds a
connection to it, a lease, and is answered one line of JSON once the model can be asked: ``key``, ``url``, ``pid``
and ``token``.  The process ends by itself with the last lease.  Leases are sockets because the kernel closes them
however their holder ends.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import secrets
import selectors
import socket
import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["hold", "main", "serve"]

PATIENCE = 60.0
"""Seconds to wait for the first lease."""


def main(settings: str, descriptor: str) -> None:
    """Serve until nobody holds a lease; never returns."""
    wanted = json.loads(settings)
    with socket.socket(fileno=int(descriptor)) as listener:
        # Keeps out whoever finds the port open, such as a page in a browser.
        token = secrets.token_hex(16)
        try:
            engine = serve(wanted, token)
        except RuntimeError as error:
            sys.exit(f"llama.cpp: {error}")
        about = {"key": wanted["key"], "url": engine.listening_address, "pid": os.getpid(), "token": token}
        hold(listener, about, PATIENCE)
    # The engine's threads may be in the middle of an answer that nobody waits for any more.
    os._exit(0)


def serve(wanted: Mapping[str, Any], token: str) -> Any:
    """Load the model and begin to listen on a free loopback port, for who shows *token*.

    The engine runs as long as what is returned is referred to.  Raises RuntimeError where it refuses; what it has
    to say then is on standard error.
    """
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = wanted["weights"]
    params.model_alias = {wanted["alias"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [token]
    params.n_parallel = wanted["slots"]
    params.n_ctx = wanted["slots"] * wanted["context"]
    params.kv_unified = False
    # With more threads than free cores the engine's threads spin at barriers: measured ten times slower.
    params.cpuparams.n_threads = wanted["threads"]
    params.cpuparams_batch.n_threads = wanted["threads"]
    params.cont_batching = True
    params.cache_prompt = True
    params.cache_ram_mib = 0
    params.swa_full = wanted["swa_full"]
    # A prompt that does not fit is an error, never cut in silence.
    params.ctx_shift = False
    params.fit_params = False
    params.use_jinja = True
    params.warmup = True
    params.ui = False
    params.endpoint_slots = True
    params.verbosity = 2
    if wanted["template"] is not None:
        params.chat_template = wanted["template"]
    return xllamacpp.Server(params)


def hold(listener: socket.socket, answer: Mapping[str, Any], patience: float) -> None:
    """Answer whoever connects; return when the last connection is closed, or when none came in *patience* seconds."""
    line = json.dumps(answer).encode() + b"\n"
    leases = 0
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        while ready := selector.select(None if leases else patience):
            for key, _ in ready:
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                if connection is listener:
                    lease, _ = listener.accept()
                    selector.register(lease, selectors.EVENT_READ)
                    leases += 1
                    with contextlib.suppress(OSError):  # gone already: the next round sees it closed
                        lease.sendall(line)
                elif _is_closed(connection):
                    selector.unregister(connection)
                    connection.close()
                    leases -= 1
            # Somebody may have come while the last one went.
            if not leases and not selector.select(0):
                return


def _is_closed(connection: socket.socket) -> bool:
    try:
        return not connection.recv(4096)
    except OSError:
        return True


if __name__ == "__main__":
    main(*sys.argv[1:])
