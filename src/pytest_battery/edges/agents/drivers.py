"""The agents that can be driven, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pytest_battery.edges.agents.claude_code import ClaudeCode
from pytest_battery.edges.agents.codex import Codex
from pytest_battery.edges.agents.command import Command
from pytest_battery.edges.agents.launches import Brick, Kind, Launch, Start, Told
from pytest_battery.edges.agents.mini_swe_agent import MiniSweAgent
from pytest_battery.edges.agents.pi import Pi
from pytest_battery.errors import AgentError

__all__ = ["DRIVERS", "Brick", "Command", "Driver", "Launch", "Start", "Told", "driver"]


class Driver(Protocol):
    """How one agent is started, and what it says of its run.  Stateless.

    ``apis`` are in order of preference, ``bricks`` the kinds it takes, ``version`` the one that is installed by default.
    """

    @property
    def name(self) -> str: ...
    @property
    def apis(self) -> tuple[str, ...]: ...
    @property
    def bricks(self) -> tuple[Kind, ...]: ...
    @property
    def version(self) -> str: ...

    def fault(self, launch: Launch) -> str | None:
        """Why the run can't be made, and what is allowed; nothing is written."""
        ...

    def start(self, launch: Launch) -> Start:
        """Write the agent's directory, and say how to start it.  One launch, one result; call it where `fault` found none."""
        ...

    def told(self, launch: Launch, stdout: bytes, stderr: bytes, exit_code: int, timed_out: bool) -> Told:
        """What the agent said.  Never raises for what it wrote."""
        ...

    def expected(self, launch: Launch) -> Mapping[str, Any]:
        """What the agent itself, without the relay, writes into its requests for the launch's knobs: path in the body to
        value, as in ``reasoning.effort``.  A knob that is not here is the relay's to write."""
        ...


DRIVERS: Mapping[str, Driver] = {one.name: one for one in (Pi(), ClaudeCode(), Codex(), MiniSweAgent())}
"""Those that need nothing to be told.  A `Command` is made from its template."""


def driver(name: str) -> Driver:
    """Raises `AgentError` for a name that is none."""
    if name not in DRIVERS:
        raise AgentError(f"no agent is called {name!r}; there are loop, {', '.join(DRIVERS)} and command")
    return DRIVERS[name]
