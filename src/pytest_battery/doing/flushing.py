"""Records on their way to the disk, as many at a time as have come together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

__all__ = ["Flushing", "Steps"]


class Steps(Protocol):
    """What is put on the disk in three steps, each of which may raise."""

    def write(self) -> None: ...

    def sync(self) -> None: ...

    def name(self) -> None: ...


class Flushing:
    """One thread that does all writing.

    In the event loop, each file made would wait for the flush of another; and a thread of its own for each record would
    fight with the others over the directory.  What comes while the thread is busy is written together afterwards:
    then one flush does the work of many, and a slow disk makes for larger batches, not for a longer queue.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Steps, asyncio.Future[None]]] = []
        self._busy = False
        self._thread: ThreadPoolExecutor | None = None

    async def done(self, steps: Steps) -> None:
        """Take all of *steps*.  Raises what they raise."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((steps, ended))
        self._hand_over()
        await ended

    def _hand_over(self) -> None:
        if self._busy or not self._waiting:
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="battery disk")
        batch, self._waiting = self._waiting, []
        self._busy = True
        loop = asyncio.get_running_loop()

        def put() -> None:
            loop.call_soon_threadsafe(self._ended, batch, _put([steps for steps, _ in batch]))

        self._thread.submit(put)

    def _ended(
        self, batch: Sequence[tuple[Steps, asyncio.Future[None]]], failures: Sequence[BaseException | None]
    ) -> None:
        self._busy = False
        for (_, ended), failure in zip(batch, failures, strict=True):
            if ended.cancelled():
                continue
            if failure is None:
                ended.set_result(None)
            else:
                ended.set_exception(failure)
        self._hand_over()

    def close(self) -> None:
        """End the thread; nothing may be waiting."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None


def _put(batch: Sequence[Steps]) -> list[BaseException | None]:
    """Each step for all; why it did not succeed, for each.  A failure is one record's alone."""
    failures: list[BaseException | None] = [None] * len(batch)

    def each(step: Callable[[Steps], None]) -> None:
        for index, steps in enumerate(batch):
            if failures[index] is None:
                try:
                    step(steps)
                except BaseException as failure:
                    failures[index] = failure

    each(lambda steps: steps.write())
    each(lambda steps: steps.sync())
    each(lambda steps: steps.name())
    return failures
