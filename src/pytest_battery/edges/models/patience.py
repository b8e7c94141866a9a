"""Time that is not the model's: waiting for one's turn does not count against a run's timeout."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import anyio

__all__ = ["running_limit", "waiting_its_turn"]

_limit: ContextVar[anyio.CancelScope | None] = ContextVar("the scope that ends a run", default=None)


@contextmanager
def running_limit(seconds: float) -> Iterator[anyio.CancelScope]:
    """As `anyio.move_on_after`, and known to whoever makes the run wait."""
    with anyio.move_on_after(seconds) as scope:
        token = _limit.set(scope)
        try:
            yield scope
        finally:
            _limit.reset(token)


@contextmanager
def waiting_its_turn() -> Iterator[None]:
    """What happens inside is waiting: the run's time stands still."""
    scope = _limit.get()
    if scope is None or math.isinf(scope.deadline):
        yield
        return
    left = scope.deadline - anyio.current_time()
    scope.deadline = math.inf
    try:
        yield
    finally:
        scope.deadline = anyio.current_time() + max(0.0, left)
