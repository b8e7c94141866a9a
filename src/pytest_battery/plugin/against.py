"""What a name on the command line stands for: a git revision's store, or another directory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pytest_battery.doing.elsewhere import AskedThere, Other
from pytest_battery.doing.preparing import Prepared
from pytest_battery.edges.git import Revision, resolve
from pytest_battery.edges.store import Store
from pytest_battery.edges.store.revisions import RevisionStore, export
from pytest_battery.edges.taskfiles import Asking, load_task
from pytest_battery.errors import GitError, OptionError, TaskFileError
from pytest_battery.plugin.session import Battery

__all__ = ["other_of"]


def other_of(battery: Battery, named: str) -> Other:
    """A directory if there is one of that name, else a revision of the repository around the project.

    Raises `OptionError` for the session's own store, `GitError` for what git does not know.
    """
    directory = battery.config.invocation_params.dir / named
    if directory.is_dir():
        return _directory(battery, named, directory)
    try:
        revision = resolve(battery.root, named)
    except GitError as error:
        if os.sep in named or named.startswith("."):
            raise GitError(f"no such directory, and {error}") from None
        raise
    store = RevisionStore(revision, battery.store.root)
    store.prove_readable()
    known: dict[Path, Mapping[str, AskedThere] | None] = {}

    def asked(prepared: Prepared) -> Mapping[str, AskedThere] | None:
        path = prepared.task.path
        if prepared.source is not None:
            return None  # a Python test asked: its source is not run to find out
        if path not in known:
            known[path] = _asked(revision, path)
        return known[path]

    return Other(
        name=named,
        label=revision.short,
        store=store,
        commit=revision.commit,
        committed_at=revision.committed_at,
        asked=asked,
    )


def _directory(battery: Battery, named: str, directory: Path) -> Other:
    own = battery.store.root
    if own.is_dir() and directory.samefile(own):
        raise OptionError(
            f"{named} is this session's own store; a battery compared with itself has no gap. Name another "
            "store, or a git revision"
        )
    store = Store(directory)
    if not any(store.walk()):
        raise OptionError(f"{named} holds no record")
    return Other(name=named, label=Path(named).name or named, store=store)


def _asked(revision: Revision, path: Path) -> Mapping[str, AskedThere] | None:
    """What the task file at *path* asked in *revision*; None where it is not there, or cannot be read by this version."""
    with tempfile.TemporaryDirectory(prefix="battery-") as into:
        try:
            export(revision, path.parent, Path(into))
            task = load_task(Path(into) / path.name, Path(into))
        except (GitError, TaskFileError):
            return None
        asking = Asking(task)
        found = {}
        for case in () if asking.faults else task.cases:
            try:
                messages, read = asking.messages(case)
            except ValueError:
                continue
            found[case.id] = AskedThere(asking.digests(case, messages, read)[0], read)
        return found
