"""The directory beside a record: every call of the run, and its knobs on the wire."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_battery.edges.store.writing import json_bytes, json_line, temporary_name

__all__ = ["Evidence", "read_artifacts", "read_reply", "write_evidence"]

CALLS = "calls.jsonl"
KNOBS = "request-knobs.json"
REPLY = "reply.txt"


@dataclass(frozen=True, slots=True)
class Evidence:
    """``artifacts``: one mapping per model call, in order; ``knobs``: requested and observed, per request;
    ``reply``: the final text, where the record has to cut it."""

    artifacts: Sequence[Mapping[str, Any]]
    knobs: Mapping[str, Any]
    reply: str | None = None

    def calls_file(self) -> bytes:
        return b"".join(json_line(artifact) for artifact in self.artifacts)

    def digest(self) -> str:
        """Of the calls, as the record keeps it: evidence of another measurement is noticed."""
        return hashlib.sha256(self.calls_file()).hexdigest()[:32]


def write_evidence(directory: Path, evidence: Evidence) -> None:
    """Replace *directory*: made beside it, then moved into place.  Raises OSError."""
    made = directory.parent / temporary_name()
    try:
        made.mkdir()
        (made / CALLS).write_bytes(evidence.calls_file())
        (made / KNOBS).write_bytes(json_bytes(evidence.knobs))
        if evidence.reply is not None:
            (made / REPLY).write_bytes(evidence.reply.encode("utf-8", "surrogatepass"))
        if directory.exists():
            old = directory.parent / temporary_name()
            directory.rename(old)
            made.rename(directory)
            shutil.rmtree(old, ignore_errors=True)
        else:
            made.rename(directory)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


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
    return content if digest is None or hashlib.sha256(content).hexdigest()[:32] == digest else None
