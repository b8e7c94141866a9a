"""A model made of a function, for tests of whatever asks models."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

from pytest_battery.values.calls import Reply, Request
from pytest_battery.values.subjects import Subject
from pytest_battery.values.usage import Cost, Rates

__all__ = ["FakeModel", "Handler"]

Handler = Callable[[Request], "str | Reply | Awaitable[str | Reply]"]


class FakeModel:
    """A `Provider` whose models answer with what *handler* returns, as ``httpx.MockTransport`` does for HTTP.

    *handler* takes the `Request` and returns the text of the reply, or a whole `Reply`, which is passed on as it
    is, or an awaitable of either; it may raise `CallError`.  A text becomes a reply of unknown usage that cost
    nothing, with every knob of the subject observed as asked for.  *identity* is what `identify` returns;
    *limit* is how many calls may be in flight, None for any number; *rates* are USD per million tokens of input and
    output, by which sessions plan, None for a model without a price.  Every model, level and knob is accepted.

        FakeModel(lambda request: request.messages[-1].content.upper())
    """

    def __init__(
        self,
        handler: Handler,
        *,
        identity: Mapping[str, Any] | None = None,
        limit: int | None = None,
        rates: tuple[float, float] | None = (0.0, 0.0),
    ) -> None:
        self._handler = handler
        self._rates = rates
        self._identity = dict(identity or {})
        self._limit = limit
        self._room: tuple[object, Any] | None = None

    def identify(self, subject: Subject) -> Mapping[str, Any]:
        return self._identity

    def check(self, subject: Subject) -> None:
        """Any subject can be asked."""

    def limit(self, subject: Subject) -> int | None:
        return self._limit

    def rates(self, subject: Subject) -> Rates | None:
        return None if self._rates is None else Rates(*self._rates, "fake")

    def engine(self) -> str | None:
        return None

    def slot(self, subject: Subject) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self._limit is None else self._slot(self._limit)

    async def complete(self, request: Request) -> Reply:
        answer = self._handler(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, Reply):
            return answer
        return Reply(
            text=answer,
            stop_reason="stop" if answer else "empty",
            cost=Cost(usd=0.0, priced_by="fake"),
            model=request.subject.model,
            observed=_observed(request.subject),
            envelope={"subject": request.subject.key, **request.content()},
        )

    async def aclose(self) -> None:
        """Nothing is held."""

    @asynccontextmanager
    async def _slot(self, limit: int) -> AsyncIterator[None]:
        import asyncio

        import anyio

        loop = asyncio.get_running_loop()
        if self._room is None or self._room[0] is not loop:
            self._room = (loop, anyio.Semaphore(limit))
        async with self._room[1]:
            yield


def _observed(subject: Subject) -> dict[str, Any]:
    """Every knob of *subject* as asked for, the level under ``thinking``."""
    level = {} if subject.level is None else {"thinking": subject.level}
    return {**level, **dict(subject.knobs)}
