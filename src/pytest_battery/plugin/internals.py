"""The private names of pytest and xdist that are used, each with what happens once it is gone."""

from __future__ import annotations

from typing import Any

import pytest

__all__ = ["queued_indices"]


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
