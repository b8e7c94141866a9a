"""A Dask cluster that does work for us.  The only module that imports it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import anyio

from pytest_battery.errors import OptionError

__all__ = ["Cluster", "LostWorkerError"]

_CONNECT_SECONDS = 10


class LostWorkerError(Exception):
    """The worker went away after it had begun: what it paid is not known."""


class Cluster:
    """Lives in one event loop; connects when the first work is sent."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._client: Any = None
        self._connecting = anyio.Lock()
        self._declared: frozenset[str] = frozenset()

    async def run(
        self,
        work: Callable[[Mapping[str, Any]], Any],
        argument: Mapping[str, Any],
        claim: str,
        needs: Sequence[str] = (),
    ) -> Any:
        """What *work* returns for *argument* on some worker.

        It takes one of each of the resources it *needs*, as far as any worker declared them when the session began: a worker that was started
        with ``--resources lan=4`` does four at once that need ``lan``, and one without does none of them.

        The scheduler gives the work of a lost worker to another, which must not pay twice: whoever begins claims it, and
        whoever finds it claimed does nothing.  Raises `LostWorkerError` then, `OptionError` where there is no cluster.
        """
        distributed: Any = import_module("distributed")
        client = await self._connected()
        taken = {name: 1 for name in needs if name in self._declared}
        future = client.submit(
            _claimed, work, dict(argument), claim, key=claim, pure=False, retries=0, resources=taken or None
        )
        try:
            result = await future
        except (distributed.scheduler.KilledWorker, distributed.CancelledError) as error:
            raise LostWorkerError(f"{type(error).__name__}") from None
        if result is None:
            raise LostWorkerError("it had begun to ask")
        return result

    async def _connected(self) -> Any:
        async with self._connecting:  # all first runs come at once
            if self._client is None:
                distributed: Any = import_module("distributed")
                try:
                    client = await distributed.Client(
                        self.address, asynchronous=True, timeout=_CONNECT_SECONDS, set_as_default=False
                    )
                    workers = (await client.scheduler.identity())["workers"]
                except (OSError, ValueError, TimeoutError) as error:
                    raise OptionError(f"--on dask={self.address}: no scheduler answers there: {error}") from None
                self._client = client
                self._declared = frozenset(name for worker in workers.values() for name in worker["resources"])
        return self._client

    async def aclose(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()


def _claimed(work: Callable[[Mapping[str, Any]], Any], argument: Mapping[str, Any], claim: str) -> Any:
    """Runs on a worker: None where another worker had claimed it before."""
    distributed: Any = import_module("distributed")
    client = distributed.get_client()
    place = ["pytest-battery", claim]
    if client.get_metadata(place, default=None) is not None:
        return None
    client.set_metadata(place, distributed.get_worker().address)
    return work(argument)
