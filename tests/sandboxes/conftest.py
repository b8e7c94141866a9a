"""A sandbox over an empty workspace, as root and as an ordinary user."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

import pytest_battery
from pytest_battery.edges.sandboxes import Confinement, Finished, Mount, open_bubblewrap

BARE = ["bwrap", "--unshare-user", "--unshare-net", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "true"]


@pytest.fixture(scope="session", autouse=True)
def _works() -> None:
    """Asked of bubblewrap and not of us: a sandbox that we have broken must not look like a machine that can have none."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed: apt-get install bubblewrap")
    done = subprocess.run(BARE, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"bubblewrap cannot isolate here: {done.stderr.strip()}")


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


@pytest.fixture
def copied(workspace: Path) -> tuple[str, Path]:
    """The system's Python, and a directory to import the package from: nothing says that another user may read where they
    are installed."""
    python = shutil.which("python3", path="/usr/bin")
    if python is None or subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]).returncode:
        pytest.skip("the system has no Python 3.11 that another user could run")
    place = workspace.parent / "copy"
    site = Path(anyio.__file__).parents[1]
    for package in (site / "anyio", site / "sniffio", site / "idna"):
        if package.exists():
            shutil.copytree(package, place / package.name)
    if (site / "typing_extensions.py").exists():
        shutil.copy(site / "typing_extensions.py", place)
    source, target = Path(pytest_battery.__file__).parent, place / "pytest_battery"
    shutil.copytree(source / "edges" / "sandboxes", target / "edges" / "sandboxes")
    shutil.copy(source / "errors.py", target)
    (target / "__init__.py").write_text("")
    (target / "edges" / "__init__.py").write_text("")
    return python, place


@pytest.fixture
def as_ordinary_user(copied: tuple[str, Path]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """``as_ordinary_user("code", ...)`` runs Python code under a number that is nobody's."""
    if os.geteuid():
        pytest.skip("whoever runs this is an ordinary user: all the other tests show it")
    python, place = copied

    def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, "-B", "-c", code, *arguments],
            cwd=place,
            env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "PYTHONPATH": str(place)},
            user=61234,
            group=61234,
            extra_groups=[],
            capture_output=True,
            text=True,
        )

    return run
