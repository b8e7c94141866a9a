"""Launches for tests, and real agents run without a sandbox: a home of their own, an empty environment, loopback alone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_battery.edges.agents.drivers import DRIVERS, Driver, Launch, Start, Told
from pytest_battery.edges.agents.installing import WHERE, Installed, installed
from pytest_battery.errors import AgentError

__all__ = ["APIS", "SECONDS", "Ran", "asked", "installed_or_skipped", "launch_of", "run", "started"]

APIS = {name: driver.apis[0] for name, driver in DRIVERS.items()}
SECONDS = 60


@dataclass(frozen=True)
class Ran:
    told: Told
    exit_code: int
    stdout: bytes
    stderr: bytes


def installed_or_skipped(name: str) -> Installed:
    """The agent in BATTERY_AGENTS, or in the project's own folder."""
    where = os.environ.get("BATTERY_AGENTS")
    try:
        return installed(name, Path(where) if where else Path(__file__).parents[2] / WHERE)
    except AgentError as error:
        pytest.skip(str(error))


def launch_of(name: str, base: Path, base_url: str = "http://127.0.0.1:8080", **more: Any) -> Launch:
    """Of an agent that sees the host's own paths."""
    return replace(
        Launch(
            prompt="What does hello.txt say?",
            model="battery-1",
            api=APIS[name],
            base_url=base_url,
            agent_dir=base / "agent",
            install=base / "install",
            inside_dir=str(base / "agent"),
            workdir=str(base / "work"),
            inside_install=str(base / "install"),
            inside_bricks=None,
            retries=0,
        ),
        **more,
    )


def started(launch: Launch, start: Start, base: Path, seconds: float = SECONDS) -> tuple[bytes, bytes, int, bool]:
    """Its output, exit code, and whether its time was up."""
    work, home = base / "work", base / "home"
    for directory in (work, home):
        directory.mkdir(exist_ok=True)
    (work / "hello.txt").write_text("hello from the workspace\n")
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TMPDIR": str(home)}
    done = subprocess.run(
        start.argv,
        input=start.stdin,
        env={**environment, **start.environment},
        cwd=work,
        capture_output=True,
        timeout=seconds,
        check=False,
    )
    return done.stdout, done.stderr, done.returncode, False


def run(driver: Driver, base: Path, base_url: str, **more: Any) -> Ran:
    """Start a real agent and wait for its end; it must have no fault."""
    here = installed_or_skipped(driver.name)
    root = str(here.root)
    launch = launch_of(driver.name, base, base_url, install=here.root, inside_install=root, **more)
    assert driver.fault(launch) is None
    stdout, stderr, exit_code, timed_out = started(launch, driver.start(launch), base)
    return Ran(driver.told(launch, stdout, stderr, exit_code, timed_out), exit_code, stdout, stderr)


def asked(server: Any) -> list[Mapping[str, Any]]:
    """The bodies of the calls that came."""
    return [one.body for one in server.asked if one.body]
