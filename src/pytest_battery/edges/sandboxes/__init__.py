"""Where agents run: a process that can reach its workspace, its own configuration, its model, and nothing else."""

from pytest_battery.edges.sandboxes.ability import Ability, ability
from pytest_battery.edges.sandboxes.bubblewrap import open_bubblewrap
from pytest_battery.edges.sandboxes.confinement import Confinement, Finished, Limits, Mount, OnOutput, Sandbox, Serving
from pytest_battery.edges.sandboxes.unconfined import open_unconfined

__all__ = [
    "Ability",
    "Confinement",
    "Finished",
    "Limits",
    "Mount",
    "OnOutput",
    "Sandbox",
    "Serving",
    "ability",
    "open_bubblewrap",
    "open_unconfined",
]
