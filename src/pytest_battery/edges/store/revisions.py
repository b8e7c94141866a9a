"""A store as another git revision has it, read through git's objects."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath

from pytest_battery.edges.git import Entry, Revision, blobs, tree
from pytest_battery.edges.store.evidence import CALLS, REPLY, digest_of_calls
from pytest_battery.edges.store.files import EVIDENCE, RECORD, SUMMARY
from pytest_battery.edges.store.reading import Problem, parse_record
from pytest_battery.errors import GitError
from pytest_battery.values.permutations import Cell, Lane, Permutation
from pytest_battery.values.records import Record

__all__ = ["RevisionStore", "export"]

_LARGEST = 20_000_000  # bytes of a file that is exported: a task's prompt or cases, not a model


class RevisionStore:
    """The records that *revision* has below *root*, the store's directory in the working tree.

    All of them are read at once, when the first is asked for.
    """

    def __init__(self, revision: Revision, root: Path) -> None:
        self.revision, self.root = revision, root
        self._prefix = revision.inside(root)

    def prove_readable(self) -> None:
        """Raises `GitError` for a revision that has no record there, `NewerSchemaError` for a record of a newer version."""
        if not self._records:
            raise GitError(
                f"{self.revision.name} ({self.revision.short}) has no record in {self._prefix}: "
                "measure there and commit its store first"
            )

    def cases(self, cell: Cell) -> tuple[str, ...]:
        """Ids of the cases of which *cell* has records, in order."""
        return tuple(sorted({case for case, _ in self._of(cell)}))

    def every_run(self, permutation: Permutation) -> dict[int, Record | Problem]:
        """All runs of one case, however many the permutation asks for."""
        found = {
            run: record for (case, run), record in self._of(permutation.cell).items() if case == permutation.case.id
        }
        for run, record in found.items():
            if isinstance(record, Record) and record.subject.key != permutation.subject.key:
                found[run] = Problem(Path(self._prefix), "misplaced", f"is a record of {record.subject.key}")
        return found

    def whole_reply(self, lane: Lane, record: Record) -> str | None:
        """The reply of *record*; None where it was cut and its evidence is not committed."""
        if not record.reply_cut:
            return record.reply
        cell = lane.permutation.cell
        place = (cell.task, cell.stack.key, cell.subject.directory, f"{lane.permutation.case.id}-{lane.run}{EVIDENCE}")
        beside = self._evidence.get("/".join(place), {})
        if REPLY not in beside or CALLS not in beside:
            return None
        reply, calls = blobs(self.revision, [beside[REPLY], beside[CALLS]])
        if reply is None or calls is None or digest_of_calls(calls) != record.evidence:
            return None
        return reply.decode("utf-8", "surrogatepass")

    def problems(self) -> Iterator[Problem]:
        """Records that are not counted, and why."""
        for records in self._records.values():
            yield from (record for record in records.values() if isinstance(record, Problem))

    def _of(self, cell: Cell) -> dict[tuple[str, int], Record | Problem]:
        return self._records.get((cell.task, cell.stack.key, cell.subject.directory), {})

    @cached_property
    def _entries(self) -> list[tuple[tuple[str, ...], Entry]]:
        below = "" if self._prefix == "." else f"{self._prefix}/"
        entries = tree(self.revision, self._prefix)
        return [
            (PurePosixPath(entry.path.removeprefix(below)).parts, entry)
            for entry in entries
            if entry.path.startswith(below)
        ]

    @cached_property
    def _evidence(self) -> dict[str, dict[str, str]]:
        """Of each directory of evidence, the objects of its files by name."""
        found: dict[str, dict[str, str]] = {}
        for parts, entry in self._entries:
            if len(parts) == 5 and parts[3].endswith(EVIDENCE) and entry.kind == "file":
                found.setdefault("/".join(parts[:4]), {})[parts[4]] = entry.sha
        return found

    @cached_property
    def _records(self) -> dict[tuple[str, str, str], dict[tuple[str, int], Record | Problem]]:
        """By task, stack and subject directory, then by case and run."""
        named = [
            (parts, entry, match)
            for parts, entry in self._entries
            if len(parts) == 4 and parts[-1] != SUMMARY and (match := RECORD.match(parts[3]))
        ]
        contents = blobs(self.revision, [entry.sha for _, entry, _ in named if entry.kind == "file"])
        found: dict[tuple[str, str, str], dict[tuple[str, int], Record | Problem]] = {}
        for parts, entry, match in named:
            content = next(contents) if entry.kind == "file" else None
            key = (match["case"], int(match["run"]))
            cell = found.setdefault((parts[0], parts[1], parts[2]), {})
            cell[key] = self._record(entry, content, (parts[0], parts[1], *key))
        return found

    def _record(self, entry: Entry, content: bytes | None, place: tuple[str, str, str, int]) -> Record | Problem:
        path = Path(f"{self.revision.name}:{entry.path}")
        if entry.kind != "file":
            return Problem(path, "foreign", f"is a {entry.kind}")
        if content is None:
            return Problem(path, "not-a-record", f"cannot be read: git object {entry.sha} is missing or corrupt")
        record = parse_record(path, content)
        if isinstance(record, Record) and (record.task, record.stack.key, record.case, record.run) != place:
            return Problem(path, "misplaced", f"says it is {record.case} run {record.run} of {record.task}")
        return record


def export(revision: Revision, directory: Path, into: Path) -> None:
    """Write the files below *directory* as *revision* has them into *into*; links, submodules and what is over 20 MB are
    left out.  Raises `GitError`."""
    prefix = revision.inside(directory)
    below = "" if prefix == "." else f"{prefix}/"
    entries = [
        entry
        for entry in tree(revision, prefix)
        if entry.kind == "file" and entry.path.startswith(below) and ".." not in PurePosixPath(entry.path).parts
    ]
    for entry, content in zip(entries, blobs(revision, [entry.sha for entry in entries]), strict=True):
        if content is None or len(content) > _LARGEST:
            continue
        path = into / entry.path.removeprefix(below)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
