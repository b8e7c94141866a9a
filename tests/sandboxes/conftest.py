"""A sandbox over an empty workspace, as root and as an ordinary user."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from pytest_battery.edges.sandboxes import Confinement, Finished, Mount, ability, open_bubblewrap

ABILITY = ability()


@pytest.fixture(scope="session", autouse=True)
def _works() -> None:
    if not ABILITY.works:
        pytest.skip(f"no sandbox here: {ABILITY.why}: {ABILITY.mend}")


@pytest.fixture
def workspace() -> Iterator[Path]:
    """Where another user may come: pytest's own temporary directories are closed to others."""
    place = Path(tempfile.mkdtemp(prefix="battery-test-"))
    place.chmod(0o711)
    (place / "workspace").mkdir()
    yield place / "workspace"
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def confinement(workspace: Path) -> Confinement:
    return Confinement([Mount(workspace, "/work", writable=True)])


@pytest.fixture
def sandboxed(confinement: Confinement) -> Callable[..., Finished]:
    """``sandboxed("script", ...)`` runs a shell script in a sandbox of its own."""

    def run(script: str, *, stdin: bytes = b"", seconds: float = 30, **more: Any) -> Finished:
        async def work() -> Finished:
            async with open_bubblewrap(replace(confinement, **more)) as sandbox:
                return await sandbox.run(["/bin/bash", "-c", script], stdin=stdin, seconds=seconds)

        return anyio.run(work)

    return run
