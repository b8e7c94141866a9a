"""The directory beside a record: every call of the run, and its knobs on the wire."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_battery.edges.store.writing import json_line, temporary_name, write_plain

__all__ = ["CALLS", "REPLY", "Evidence", "digest_of_calls", "read_artifacts", "read_reply", "write_evidence"]

CALLS = "calls.jsonl"
KNOBS = "request-knobs.json"
REPLY = "reply.txt"


@dataclass(frozen=True)
class Evidence:
    """``artifacts``: one mapping per model call, in order; ``knobs``: requested and observed, per request;
    ``reply``: the final text, where the record has to cut it; ``files``: what else a run left, by name."""

    artifacts: Sequence[Mapping[str, Any]]
    knobs: Mapping[str, Any]
    reply: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)

    @cached_property
    def calls_file(self) -> bytes:
        return b"".join(json_line(artifact) for artifact in self.artifacts)

    def digest(self) -> str:
        """Of the calls, as the record keeps it: evidence of another measurement is noticed."""
        return digest_of_calls(self.calls_file)


def digest_of_calls(content: bytes) -> str:
    """Of the file of calls, as records keep it."""
    return hashlib.sha256(content).hexdigest()[:32]


def write_evidence(directory: Path, evidence: Evidence) -> None:
    """Make *directory*, or replace it: made beside it, then moved into place.  Raises OSError."""
    beside = str(directory.parent)
    made = f"{beside}/{temporary_name()}"
    try:
        os.mkdir(made)
        write_plain(f"{made}/{CALLS}", evidence.calls_file)
        write_plain(f"{made}/{KNOBS}", json_line(evidence.knobs))
        if evidence.reply is not None:
            write_plain(f"{made}/{REPLY}", evidence.reply.encode("utf-8", "surrogatepass"))
        for name, content in evidence.files.items():
            write_plain(f"{made}/{name}", content)
        while True:
            try:
                os.rename(made, directory)
                return
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            _out_of_the_way(directory, f"{beside}/{temporary_name()}")
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _out_of_the_way(directory: Path, old: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # somebody else was quicker
        os.rename(directory, old)
        shutil.rmtree(old, ignore_errors=True)


def read_reply(directory: Path, digest: str | None) -> str | None:
    """The final text that was too long for the record, or None where it is not here or not that record's."""
    try:
        if _calls(directory, digest) is None:
            return None
        return (directory / REPLY).read_bytes().decode("utf-8", "surrogatepass")
    except (OSError, ValueError):
        return None


def read_artifacts(directory: Path, digest: str | None) -> list[dict[str, Any]] | None:
    """The calls in *directory*, or None where they are absent, damaged, or not those that *digest* names."""
    try:
        content = _calls(directory, digest)
        return None if content is None else [json.loads(line) for line in content.splitlines() if line]
    except (OSError, ValueError):
        return None


def _calls(directory: Path, digest: str | None) -> bytes | None:
    content = (directory / CALLS).read_bytes()
    return content if digest is None or digest_of_calls(content) == digest else None
