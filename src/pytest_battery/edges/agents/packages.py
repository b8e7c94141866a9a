"""The agents that can be installed: which package, which version, and where its executable lies."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["NODE", "NPM", "PIP", "NodePackage", "NpmPackage", "PipPackage", "machine", "names"]


@dataclass(frozen=True, slots=True)
class NodePackage:
    """Node itself comes from npm too, so that the one of this machine doesn't matter."""

    version: str

    @property
    def package(self) -> str:
        return f"node-linux-{machine()}"

    @property
    def executable(self) -> str:
        return f"node_modules/{self.package}/bin/node"


@dataclass(frozen=True, slots=True)
class NpmPackage:
    """``home`` is the package that holds what is run, below ``node_modules``, and ``path`` lies in it; in both ``{npm}`` and
    ``{rust}`` are the machine, as npm and as Rust call it.  ``node`` says whether it takes Node to run it."""

    package: str
    version: str
    home: str
    path: str
    node: bool

    @property
    def directory(self) -> str:
        """The package that holds the executable, from the root of the installation."""
        return f"node_modules/{_named(self.home)}"

    @property
    def executable(self) -> str:
        return f"{self.directory}/{_named(self.path)}"


@dataclass(frozen=True, slots=True)
class PipPackage:
    """In an environment of its own, below the root of the installation, by the agent's name."""

    package: str
    version: str
    executable: str


NODE = NodePackage("22.23.5")

NPM: Mapping[str, NpmPackage] = {
    "pi": NpmPackage(
        "@earendil-works/pi-coding-agent", "1.6.0", "@earendil-works/pi-coding-agent", "dist/bundle/cli.js", node=True
    ),
    "codex": NpmPackage(
        "@openai/codex",
        "0.171.0",
        "@openai/codex-linux-{npm}",
        "vendor/{rust}-unknown-linux-musl/bin/codex",
        node=False,
    ),
    # Without install scripts the package's own executable is a stub; the real one is in the package of the platform.
    "claude-code": NpmPackage(
        "@anthropic-ai/claude-code", "2.1.332", "@anthropic-ai/claude-code-linux-{npm}", "claude", node=False
    ),
}

PIP: Mapping[str, PipPackage] = {"mini-swe-agent": PipPackage("mini-swe-agent", "2.4.6", "mini-swe-agent/bin/python")}

_RUST = {"x64": "x86_64", "arm64": "aarch64"}


def names() -> tuple[str, ...]:
    return (*NPM, *PIP)


def machine() -> str:
    """This machine, as npm's packages call it."""
    found = platform.machine().lower()
    return "arm64" if found in ("aarch64", "arm64") else "x64" if found in ("x86_64", "amd64") else found


def _named(template: str) -> str:
    return template.format(npm=machine(), rust=_RUST.get(machine(), machine()))
