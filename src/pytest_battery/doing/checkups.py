"""What works on this machine, and what would mend what does not."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from pytest_battery.edges.agents.installing import WHERE, standing
from pytest_battery.edges.manifest import Manifest
from pytest_battery.edges.models.providers import BUILT_IN
from pytest_battery.edges.models.weights import CATALOGUE
from pytest_battery.edges.sandboxes import ability

__all__ = ["Checkup", "checkups"]

_EXTRAS = {"xdist": ("xdist",), "dask": ("distributed",), "agents": ("starlette", "uvicorn"), "local": ("xllamacpp",)}


@dataclass(frozen=True, slots=True)
class Checkup:
    """One thing that can be there or not; ``what`` says how it is, ``mend`` what to do where it does not work."""

    about: str
    name: str
    works: bool
    what: str
    mend: str = ""


def checkups(root: Path, manifest: Manifest, environ: Mapping[str, str] = os.environ) -> tuple[Checkup, ...]:
    """The sandbox (a real one is started), git, the agents, the keys by the names of their variables, weights and extras.

    No model is asked, and no key is shown.
    """
    return (
        _sandbox(),
        _git(),
        *_agents(root),
        *_keys(manifest, environ),
        *_weights(),
        *_extras(),
    )


def _sandbox() -> Checkup:
    able = ability()
    what = "a sandbox was started" if able.works else able.why
    return Checkup("sandbox", "bubblewrap", able.works, what, able.mend)


def _git() -> Checkup:
    if shutil.which("git") is None:
        return Checkup("git", "git", False, "is not installed", "apt-get install git")
    told = subprocess.run(["git", "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return Checkup("git", "git", told.returncode == 0, told.stdout.strip() or told.stderr.strip())


def _agents(root: Path) -> Iterator[Checkup]:
    yield Checkup("agent", "loop", True, "is built in")
    for row in standing(root / WHERE):
        here = row["why"] is None
        what = f"version {row['here']}" if here else "not installed" if row["here"] is None else str(row["why"])
        yield Checkup("agent", str(row["name"]), here, what, "" if here else str(row["install"]))


def _keys(manifest: Manifest, environ: Mapping[str, str]) -> Iterator[Checkup]:
    variables = {name: config.key_env for name, config in BUILT_IN.items()}
    variables |= {name: table.key_env for name, table in manifest.providers.items()}
    for name, variable in sorted(variables.items()):
        if variable is None:
            continue
        here = bool(environ.get(variable, "").strip())
        yield Checkup(
            "key", name, here, f"{variable} is {'set' if here else 'not set'}", "" if here else f"export {variable}=..."
        )


def _weights() -> Iterator[Checkup]:
    for model in CATALOGUE.values():
        here = model.path.exists()
        yield Checkup(
            "weights",
            f"local/{model.name}",
            here,
            "here" if here else "not here",
            "" if here else str(model.fetch_command),
        )


def _extras() -> Iterator[Checkup]:
    for name, modules in _EXTRAS.items():
        missing = [module for module in modules if find_spec(module) is None]
        what = f"{', '.join(missing)} is not installed" if missing else "installed"
        yield Checkup("extra", name, not missing, what, f"pip install 'pytest-battery[{name}]'" if missing else "")
