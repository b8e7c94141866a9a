"""Work that makes many objects and keeps them all."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["no_garbage_collection", "rare_garbage_collection"]


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Records are read by the ten thousand and all kept: looking for garbage among them doubles the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Every call makes thousands of objects that go by themselves: to look for rings among each 700 of them is a tenth of
    all the work."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
