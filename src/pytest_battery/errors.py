"""Everything this package raises on purpose.

    BatteryError
    ├── OptionError          the command line asks for something that cannot be done
    ├── SubjectError         a subject or a sweep that cannot be read
    ├── TaskFileError        a task file (or its cases, prompts, schemas) that cannot be used; carries every fault
    ├── ManifestError        battery.toml cannot be used; carries every fault
    ├── ProviderError        refused before any call: unknown provider or model, weights missing, knob not honoured
    ├── OverBudgetError      runs that were not started, because the budget would not hold
    ├── StoppedError         runs that were not started, because the session is ending
    ├── CallError            a model call that ended without a reply; says whose fault it was
    ├── GitError             git could not be asked, or does not have what was asked for
    ├── CorpusError          a corpus that is not there as it is pinned, or a workspace that can't be made or compared
    ├── AgentError           an agent that there is not, that is not installed, or not in the version asked for
    ├── SandboxError         a sandbox that cannot be made, or does not hide what it must; nothing ran in it
    ├── ScoringError         a scorer that raised or returned what it may not
    │   └── ContractError    a metric missing, of the wrong type, or not finite
    └── StoreError           a store that cannot be read or written
        ├── NewerSchemaError a record written by a newer version
        └── StoreWriteError  the disk refused a record; nothing half-written was left

Messages are written for the person who reads them: what was found, where, what is allowed, what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

__all__ = [
    "AgentError",
    "BatteryError",
    "CallError",
    "ContractError",
    "CorpusError",
    "Fault",
    "GitError",
    "ManifestError",
    "NewerSchemaError",
    "OptionError",
    "OverBudgetError",
    "ProviderError",
    "SandboxError",
    "ScoringError",
    "StoppedError",
    "StoreError",
    "StoreWriteError",
    "SubjectError",
    "TaskFileError",
]

Fault = Literal["subject", "infrastructure", "us", "task"]
"""Who is at fault: the model, what stands between it and us, this plugin, or the task (its scorer included)."""


class BatteryError(Exception):
    """The root of the tree."""


class OptionError(BatteryError):
    """An option that cannot be honoured."""


class SubjectError(BatteryError, ValueError):
    """A subject or sweep that cannot be read."""


class TaskFileError(BatteryError):
    """A task file that cannot be used; every fault found in it is in one message."""

    def __init__(self, path: Path | str, faults: Sequence[str]) -> None:
        self.path = Path(path)
        self.faults = tuple(faults)
        super().__init__("\n".join(self.faults))


class ManifestError(BatteryError):
    """A manifest that cannot be used; every fault found in it is in one message."""

    def __init__(self, path: Path | str, faults: Sequence[str]) -> None:
        self.path = Path(path)
        self.faults = tuple(faults)
        super().__init__("\n".join(self.faults))


class ProviderError(BatteryError):
    """A subject that cannot be asked, found out before any call."""


class OverBudgetError(BatteryError):
    """Runs that were not started: the budget leaves no room for them.  What was started is finished and kept."""


class StoppedError(BatteryError):
    """A run that was not started: the session is ending."""


class CallError(BatteryError):
    """A model call that ended without a reply.

    ``kind`` names the class of the failure: ``timeout``, ``connection``, ``http-500``, ``not-json``, ...
    """

    def __init__(self, kind: str, fault: Fault, message: str) -> None:
        self.kind = kind
        self.fault: Fault = fault
        super().__init__(message)


class GitError(BatteryError):
    """Git could not be asked, or does not have what was asked for."""


class CorpusError(BatteryError):
    """A corpus that is not there as it is pinned, or a workspace that cannot be made of it or compared with it."""


class AgentError(BatteryError):
    """An agent that there is not, that is not installed or is in another version, or that can't be installed."""


class SandboxError(BatteryError):
    """A sandbox that cannot be made here, or in which something could be seen that must not be: nothing was run."""


class ScoringError(BatteryError):
    """A scorer that raised, or that cannot be used as the task asks."""


class ContractError(ScoringError):
    """A scorer that did not return what the task's ``[metrics]`` promise."""


class StoreError(BatteryError):
    """A store, or one file in it, that cannot be used."""


class NewerSchemaError(StoreError):
    """A record written by a newer version of the plugin: neither read nor overwritten."""


class StoreWriteError(StoreError):
    """A record that could not be written; what stood there before is intact."""
