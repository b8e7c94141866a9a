"""Look-ahead: work runs in one event loop in a thread of its own, while its results are taken in order."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Generic, TypeVar

import anyio
from anyio.from_thread import start_blocking_portal

__all__ = ["Pump"]

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

SLICE_SECONDS = 0.5
"""A wait is cut into slices, so that signals reach a waiting main thread on every platform."""


class _CarriedError(Exception):
    """Takes an exception that is no `Exception` from the loop's thread to the one that waits."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        super().__init__(repr(error))


class Pump(Generic[K, R]):
    """``start`` work by key, ``result`` waits for one.  Leaving the context cancels what is still running.

    ``unfinished`` counts what was started and has not ended; the caller keeps it full.
    """

    def __init__(
        self,
        work: Callable[[K], Awaitable[R]],
        closing: Callable[[], Awaitable[None]],
        draining: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """*draining* is awaited before what still runs is cancelled, for what is nearly done; it must not take long."""
        self._work, self._closing, self._draining = work, closing, draining
        self._futures: dict[K, Future[R]] = {}
        self._progress = threading.Condition()
        self._running = 0
        self._idle: anyio.Event | None = None
        self.unfinished = 0

    def __enter__(self) -> Pump[K, R]:
        self._context = start_blocking_portal("asyncio")
        self._portal = self._context.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self._draining is not None and self.unfinished:
                self._portal.call(self._draining)
            for future in self._futures.values():
                future.cancel()
            self._portal.call(self._close)
        finally:
            self._context.__exit__(None, None, None)

    def start(self, key: K) -> None:
        """Begin the work of *key*, once."""
        if key not in self._futures:
            with self._progress:
                self.unfinished += 1
            future: Future[R] = self._portal.start_task_soon(self._run, key)
            self._futures[key] = future
            future.add_done_callback(self._ended)

    async def _run(self, key: K) -> R:
        self._running += 1
        try:
            return await self._work(key)
        except (Exception, anyio.get_cancelled_exc_class()):
            raise
        except BaseException as error:  # such as pytest's Skipped: raised as it is, it would end the whole loop
            raise _CarriedError(error) from None
        finally:
            self._running -= 1
            if self._idle is not None and not self._running:
                self._idle.set()

    async def _close(self) -> None:
        """What was cancelled may still be writing what is paid for: nothing it uses is taken away until it has ended."""
        if self._running:
            self._idle = anyio.Event()
            await self._idle.wait()
        await self._closing()

    def _ended(self, future: Future[Any]) -> None:
        with self._progress:
            self.unfinished -= 1
            self._progress.notify_all()

    def started(self, key: K) -> bool:
        return key in self._futures

    def result(self, key: K, refill: Callable[[], None] = lambda: None) -> R:
        """Wait for *key*'s work, starting it if need be; *refill* is called whenever other work has ended.

        Raises what the work raised; whatever interrupts the wait cancels that work, Ctrl-C excepted.
        """
        self.start(key)
        future = self._futures[key]
        try:
            while not future.done():
                refill()
                with self._progress:
                    if not future.done():  # checked under the lock: an end in between has notified nobody yet
                        self._progress.wait(SLICE_SECONDS)
            return future.result()
        except _CarriedError as carried:
            raise carried.error from None
        except KeyboardInterrupt:
            raise  # whoever leaves the context waits a moment for what is on its way, then cancels it
        except BaseException:
            future.cancel()
            raise
        finally:
            if future.done():
                self._futures.pop(key, None)
