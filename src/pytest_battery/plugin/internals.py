"""The private names of pytest and xdist that are used, each with what happens once it is gone."""

from __future__ import annotations

from typing import Any

import pytest
from _pytest.runner import runtestprotocol

__all__ = ["queued_indices", "run_once"]


def run_once(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Set up, call and tear down an item, and report each: pytest's own protocol, and nobody else's.

    A plugin that repeats what failed has its protocol run in the place of pytest's; asking again until the answer
    suits would choose the answers, and a mark (`flaky(reruns=0)`) is overruled by --force-reruns.
    """
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    runtestprotocol(item, nextitem=nextitem)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def queued_indices(config: pytest.Config) -> list[int]:
    """Indices of the items xdist has already sent to this worker; none if its queue can't be looked at any more.

    xdist tells a worker of one item ahead only; the rest waits in ``WorkerInteractor.torun``.
    """
    for plugin in config.pluginmanager.get_plugins():
        queue: Any = getattr(plugin, "torun", None)
        if queue is not None and hasattr(queue, "lock"):
            with queue.lock() as waiting:
                return [index for index in waiting if isinstance(index, int)]
    return []
