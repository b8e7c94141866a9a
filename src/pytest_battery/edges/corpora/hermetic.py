"""Git, run in directories of our own: nobody's configuration, hooks, filters or environment count."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pytest_battery.errors import CorpusError

__all__ = ["ATTRIBUTES", "as_alternate", "own_git"]

ATTRIBUTES = "* -text !eol !crlf !ident !filter !working-tree-encoding !diff !merge\n"
"""For ``info/attributes``, which go before a tree's own: files are bytes, and no driver that a tree names is used."""

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.autocrlf=false",
    "core.fileMode=true",
    "core.symlinks=true",
    "core.ignoreCase=false",
    "core.precomposeUnicode=false",
    "core.logAllRefUpdates=false",
    # Names that would be a trap on another system are files like others here.
    "core.protectNTFS=false",
    "core.protectHFS=false",
    "gc.auto=0",
    "maintenance.auto=false",
)
_COMMAND = ("git", "--no-pager", *(part for setting in _SETTINGS for part in ("-c", setting)))
_SECONDS = 600


def own_git(
    git_dir: Path,
    *arguments: str,
    cwd: Path | None = None,
    stdin: bytes = b"",
    variables: Mapping[str, str] | None = None,
    allowed: tuple[int, ...] = (0,),
) -> bytes:
    """What git prints with *git_dir* for its repository, run in *cwd*.

    *variables* are added to an environment that holds nothing of the caller's but the path.  Raises `CorpusError` with what
    git complains of, unless it ends with one of *allowed*.
    """
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.devnull,
        "LC_ALL": "C",
        "GIT_DIR": str(git_dir.absolute()),
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }
    try:
        done = subprocess.run(
            [*_COMMAND, *arguments],
            cwd=git_dir if cwd is None else cwd,
            input=stdin,
            env=environment | dict(variables or {}),
            capture_output=True,
            check=False,
            timeout=_SECONDS,
        )
    except FileNotFoundError:
        raise CorpusError("git is not installed; corpora are kept and compared with it") from None
    except subprocess.TimeoutExpired:
        raise CorpusError(f"git {arguments[0]} did not end within {_SECONDS} s, and was stopped") from None
    except OSError as error:
        raise CorpusError(f"git cannot be run in {cwd or git_dir}: {error.strerror}") from None
    if done.returncode not in allowed:
        said = done.stderr.decode("utf-8", "replace").strip()
        lines = [line.split(": ", 1)[1] for line in said.splitlines() if line.startswith(("error: ", "fatal: "))]
        raise CorpusError(f"git {arguments[0]}: {'; '.join(dict.fromkeys(lines)) or said or 'failed without a word'}")
    return done.stdout


def as_alternate(objects: Path) -> str:
    """An object directory in the manner of git's lists of them, where a colon would be the end of it."""
    escaped = (
        str(objects.absolute()).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    )
    return f'"{escaped}"'
