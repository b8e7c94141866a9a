"""The seam between measuring and whatever answers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable

from pytest_battery.values.calls import Reply, Request
from pytest_battery.values.subjects import Subject

__all__ = ["Provider"]


@runtime_checkable
class Provider(Protocol):
    """What stands before the ``/`` of a subject.  One object a process; methods are called from one event loop."""

    def identify(self, subject: Subject) -> Mapping[str, Any]:
        """What identifies the model beyond its name, as plain JSON values; empty for a hosted model.

        Pure and cheap: called while items are collected, and must not need the model to be there.
        Raises `ProviderError` for a model it does not know or a knob it cannot honour.
        """
        ...

    def check(self, subject: Subject) -> None:
        """Raise `ProviderError` if *subject* cannot be asked here and now; called before the first paid call."""
        ...

    def limit(self, subject: Subject) -> int | None:
        """How many calls of *subject* this process may have in flight; None for no limit of its own."""
        ...

    def engine(self) -> str | None:
        """Name and version of what runs the model on this machine, for the record; None for a hosted one."""
        ...

    def slot(self, subject: Subject) -> AbstractAsyncContextManager[None]:
        """Entered before a call of *subject* and left after it: waits until whatever answers is there and has room.

        Enter it before the call's timeout begins: time spent here, on another process's calls or on loading a
        model, is not the model's.  Raises `CallError` where the model cannot be made ready.
        """
        ...

    async def complete(self, request: Request) -> Reply:
        """Ask once.  Raises `CallError` where no reply came."""
        ...

    async def aclose(self) -> None:
        """Let go of connections and child processes."""
        ...
