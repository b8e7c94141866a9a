"""Look-ahead: work runs in one event loop in a thread of its own, while its results are taken in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel
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
        self._new: list[tuple[K, Future[R]]] = []  # not yet handed to the loop
        self._scopes: dict[Future[R], anyio.CancelScope] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._unwanted: set[Future[R]] = set()
        self._idle: anyio.Event | None = None
        self.unfinished = 0

    def __enter__(self) -> Pump[K, R]:
        self._context = start_blocking_portal("asyncio")
        self._portal = self._context.__enter__()
        self._loop = self._portal.call(_running_loop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self._draining is not None and self.unfinished:
                self._portal.call(self._draining)
            self._portal.call(self._close)
        finally:
            self._context.__exit__(None, None, None)

    def start(self, key: K) -> None:
        """Begin the work of *key*, once; the loop takes in all that was started since it last looked."""
        if key in self._futures:
            return
        future: Future[R] = Future()
        future.add_done_callback(self._ended)
        self._futures[key] = future
        with self._progress:
            self.unfinished += 1
            self._new.append((key, future))
            first = len(self._new) == 1
        if first:
            self._loop.call_soon_threadsafe(self._spawn)

    def _spawn(self) -> None:
        with self._progress:
            new, self._new = self._new, []
        for key, future in new:
            if future.set_running_or_notify_cancel():
                task = self._loop.create_task(self._run(key, future))
                self._tasks.add(task)
                task.add_done_callback(self._gone)

    def _gone(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._idle is not None and not self._tasks:
            self._idle.set()

    async def _run(self, key: K, future: Future[R]) -> None:
        try:
            with anyio.CancelScope() as scope:
                self._scopes[future] = scope
                if future in self._unwanted:
                    scope.cancel()
                    await anyio.lowlevel.checkpoint()
                future.set_result(await self._work(key))
                return
            future.set_exception(CancelledError())
        except Exception as error:
            future.set_exception(error)
        except BaseException as error:  # such as pytest's Skipped: raised as it is, it would end the whole loop
            future.set_exception(_CarriedError(error))
        finally:
            self._scopes.pop(future, None)
            self._unwanted.discard(future)

    def _cancel(self, future: Future[R]) -> None:
        """In the loop: end the work of *future*, as soon as it lets itself be ended."""
        if future.cancel() or future.done():
            return
        scope = self._scopes.get(future)
        if scope is None:
            self._unwanted.add(future)  # its task has not had its first turn
        else:
            scope.cancel()

    async def _close(self) -> None:
        """What was cancelled may still be writing what is paid for: nothing it uses is taken away until it has ended."""
        self._spawn()  # what was handed over last has begun: it is ended as the others are
        for future in [*self._futures.values(), *self._scopes]:
            self._cancel(future)
        if self._tasks:
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
            self._loop.call_soon_threadsafe(self._cancel, future)
            raise
        finally:
            if future.done():
                self._futures.pop(key, None)


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
