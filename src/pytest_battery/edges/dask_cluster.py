"""A Dask cluster that does work for us.  The only module that imports it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

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

    async def run(self, work: Callable[[Mapping[str, Any]], Any], argument: Mapping[str, Any], claim: str) -> Any:
        """What *work* returns for *argument* on some worker.

        The scheduler gives the work of a lost worker to another, which must not pay twice: whoever begins claims it, and
        whoever finds it claimed does nothing.  Raises `LostWorkerError` then, `OptionError` where there is no cluster.
        """
        distributed: Any = import_module("distributed")
        client = await self._connected()
        future = client.submit(_claimed, work, dict(argument), claim, key=claim, pure=False, retries=0)
        try:
            result = await future
        except (distributed.scheduler.KilledWorker, distributed.CancelledError) as error:
            raise LostWorkerError(f"{type(error).__name__}") from None
        if result is None:
            raise LostWorkerError("it had begun to ask")
        return result

    async def _connected(self) -> Any:
        if self._client is None:
            distributed: Any = import_module("distributed")

            try:
                self._client = await distributed.Client(
                    self.address, asynchronous=True, timeout=_CONNECT_SECONDS, set_as_default=False
                )
            except (OSError, ValueError, TimeoutError) as error:
                raise OptionError(f"--on dask={self.address}: no scheduler answers there: {error}") from None
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
