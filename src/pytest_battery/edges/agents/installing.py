"""Installing agents into a folder of the project's own, and finding what is installed there.

Packages run no scripts of theirs.  What is there is written into `RECEIPT` after it was checked, and struck out before
anything is changed, so that nothing half-installed is taken for installed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_battery.edges.agents.packages import NODE, NPM, PIP, machine, names
from pytest_battery.errors import AgentError

__all__ = ["RECEIPT", "WHERE", "Installed", "Runner", "install", "install_command", "installed", "run", "standing"]

WHERE = Path(".battery/agents")
"""The folder, from the root of the project."""
RECEIPT = "installed.json"

Runner = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]
"""Runs a command to its end, with its output as text.  Raises OSError where it can't be started."""


@dataclass(frozen=True, slots=True)
class Installed:
    """``root`` is what a `Launch` has as ``install``; ``executable`` and ``node`` lie in it, the latter None where it takes none."""

    name: str
    version: str
    root: Path
    executable: Path
    node: Path | None


def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """The runner of `install`."""
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )


def install_command(names: Sequence[str]) -> str:
    """What a person types to have *names*."""
    return f"battery agents install {' '.join(names)}"


def installed(name: str, where: Path, version: str | None = None) -> Installed:
    """The agent *name* in the folder *where*, in *version* or the one that is installed by default.

    Raises `AgentError` for a name that is none, and where it isn't there, or in another version.
    """
    _check([name])
    root = where.absolute()
    wanted = version or _version(name)
    found = _receipt(root).get(name)
    if found is None:
        raise AgentError(f"{name} is not installed in {where}: run `{install_command([name])}`")
    if found != wanted:
        way = (
            f"run `{install_command([name])}`" if wanted == _version(name) else f"this plugin installs {_version(name)}"
        )
        raise AgentError(f"{name} is here in version {found}, not {wanted} ({where}): {way}")
    if wrong := _wrong(name, found, root):
        raise AgentError(f"{name} is damaged ({wrong}): run `{install_command([name])}`")
    return _installed(name, found, root)


def standing(where: Path) -> list[dict[str, str | None]]:
    """One row for each agent that can be installed: ``name``, ``version`` by default, ``here`` (the version that is here,
    or None), ``why`` it can't be used, and ``install``, the command that mends it."""
    rows: list[dict[str, str | None]] = []
    for name in names():
        row: dict[str, str | None] = {"name": name, "version": _version(name), "here": None, "why": None}
        try:
            row["here"] = installed(name, where).version
        except AgentError as error:
            row["here"], row["why"] = _receipt(where.absolute()).get(name), str(error)
        rows.append({**row, "install": install_command([name])})
    return rows


def install(wanted: Sequence[str], where: Path, runner: Runner = run) -> list[Installed]:
    """Install *wanted* into the folder *where*, which is made, and hidden from git; the other agents there stay.

    npm is called once for all that come from it, pip for the others.  Raises `AgentError` for a name that is none, a tool that is
    missing, and a failure, with the tool's own last words.
    """
    _check(wanted)
    root, wanted = where.absolute(), list(dict.fromkeys(wanted))
    from_npm = [name for name in wanted if name in NPM]
    if from_npm and machine() not in ("x64", "arm64"):
        raise AgentError(
            f"{', '.join(from_npm)}: there are packages for x64 and arm64, and this machine is {machine()}"
        )
    npm = shutil.which("npm") if from_npm else None
    if from_npm and npm is None:
        raise AgentError(
            f"{', '.join(from_npm)}: npm is not on the path, and it takes npm to install them: install Node with npm "
            "(any version; the agents get a Node of their own)"
        )
    from filelock import FileLock

    try:
        root.mkdir(parents=True, exist_ok=True)
        (root / ".gitignore").write_text("*\n", encoding="utf-8")
        with FileLock(root / ".lock"):
            return _install(wanted, from_npm, npm, root, runner)
    except OSError as error:
        raise AgentError(f"agents can't be installed into {where}: {error.strerror or error}") from error


def _install(wanted: list[str], from_npm: list[str], npm: str | None, root: Path, runner: Runner) -> list[Installed]:
    before = _receipt(root)
    _write_receipt(root, {})
    try:
        if npm is not None:
            _run(runner, _npm_command(npm, from_npm, before, root), from_npm)
        for name in wanted:
            if name in PIP:
                _from_pip(name, root, runner)
    except AgentError:
        # npm takes back what it began; what was here is looked at all the same, and what is new isn't trusted.
        _write_receipt(root, _whole(before, root))
        raise
    found = _whole({**before, **{name: _version(name) for name in wanted}}, root)
    _write_receipt(root, found)
    for name in wanted:
        if name not in found:
            raise AgentError(f"{name} was installed and can't be used: {_wrong(name, _version(name), root)}")
    return [_installed(name, _version(name), root) for name in wanted]


def _whole(versions: Mapping[str, str], root: Path) -> dict[str, str]:
    return {name: version for name, version in versions.items() if _wrong(name, version, root) is None}


def _npm_command(npm: str, from_npm: list[str], before: Mapping[str, str], root: Path) -> list[str]:
    # Those of before are named too: what npm finds no request for, it takes away.
    every = [name for name in NPM if name in from_npm or name in before]
    version = {name: NPM[name].version if name in from_npm else before[name] for name in every}
    return [
        *(npm, "install", "--prefix", str(root), "--ignore-scripts", "--no-audit", "--no-fund", "--save-exact"),
        *("--no-update-notifier", "--loglevel", "error", f"{NODE.package}@{NODE.version}"),
        *(f"{NPM[name].package}@{version[name]}" for name in every),
    ]


def _from_pip(name: str, root: Path, runner: Runner) -> None:
    package, home = PIP[name], root / name
    shutil.rmtree(home, ignore_errors=True)
    _run(runner, [sys.executable, "-m", "venv", str(home)], [name])
    python = str(root / package.executable)
    pip = [python, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    try:
        _run(runner, [*pip, f"{package.package}=={package.version}"], [name])
    except AgentError:
        shutil.rmtree(home, ignore_errors=True)
        raise


def _run(runner: Runner, command: list[str], wanted: list[str]) -> None:
    try:
        ended = runner(command)
    except OSError as error:
        raise AgentError(f"{', '.join(wanted)}: {command[0]} can't be run: {error.strerror or error}") from error
    if ended.returncode != 0:
        said = [line for line in (ended.stderr.strip() or ended.stdout.strip()).splitlines() if line.strip()]
        said = [line for line in said if line.startswith(("npm error", "npm ERR!", "ERROR"))] or said
        raise AgentError(
            "\n".join(
                [
                    f"{', '.join(wanted)}: not installed: `{' '.join(command)}` failed with exit code {ended.returncode}; "
                    "its words:",
                    *(line[:300] for line in said[:6]),
                ]
            )
        )


# -- what is there ---------------------------------------------------------------------------------


def _check(wanted: Sequence[str]) -> None:
    if not wanted:
        raise AgentError(f"name the agents to install: {', '.join(names())}")
    for name in wanted:
        if name not in names():
            raise AgentError(
                f"no agent called {name!r} can be installed; there are {', '.join(names())} (loop is built in)"
            )


def _version(name: str) -> str:
    return NPM[name].version if name in NPM else PIP[name].version


def _installed(name: str, version: str, root: Path) -> Installed:
    if name in PIP:
        return Installed(name, version, root, root / PIP[name].executable, None)
    node = root / NODE.executable if NPM[name].node else None
    return Installed(name, version, root, root / NPM[name].executable, node)


def _there(name: str, root: Path) -> str | None:
    """The version that lies in *root*, whole or not."""
    if name in PIP:
        found = sorted((root / name).glob("lib/python*/site-packages/*.dist-info"))
        start = f"{PIP[name].package.replace('-', '_')}-"
        versions = [path.name[len(start) :].removesuffix(".dist-info") for path in found if path.name.startswith(start)]
        return versions[0] if len(versions) == 1 else None
    try:
        document = json.loads((root / "node_modules" / NPM[name].package / "package.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    version = document.get("version") if isinstance(document, dict) else None
    return version if isinstance(version, str) else None


def _wrong(name: str, version: str, root: Path) -> str | None:
    """Why what lies in *root* can't be used."""
    found = _there(name, root)
    if found != version:
        return f"its package is {'gone' if found is None else f'of version {found}'}"
    one = _installed(name, version, root)
    for path in (one.executable, *([one.node] if one.node else ())):
        if not path.is_file():
            return f"{path} is missing"
    runs = one.node or one.executable
    return None if os.access(runs, os.X_OK) else f"{runs} can't be executed"


def _receipt(root: Path) -> dict[str, str]:
    try:
        document = json.loads((root / RECEIPT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {name: version for name, version in document.items() if name in names() and isinstance(version, str)}


def _write_receipt(root: Path, found: Mapping[str, str]) -> None:
    part = root / f"{RECEIPT}.part"
    part.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    part.replace(root / RECEIPT)
