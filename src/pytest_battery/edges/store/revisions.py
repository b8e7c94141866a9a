"""A store as another git revision has it, read through git's objects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from pytest_battery.edges.git import Entry, Objects, Revision, sizes, tree
from pytest_battery.edges.store.evidence import CALLS, REPLY, digest_of_calls
from pytest_battery.edges.store.files import EVIDENCE, LEFTOVER, RECORD, SUMMARY
from pytest_battery.edges.store.looks import LOOKS
from pytest_battery.edges.store.reading import Problem, Stored, parse_record
from pytest_battery.edges.store.writing import TEMPORARY
from pytest_battery.errors import GitError, NewerSchemaError
from pytest_battery.values.permutations import Cell, Lane, Permutation
from pytest_battery.values.records import SCHEMA, Record

__all__ = ["RevisionStore", "export"]

_LARGEST = 20_000_000  # bytes of a file that is exported: a task's prompt or cases, not a model
_OURS = frozenset({".gitignore", LOOKS, SUMMARY})
_SCHEMA = re.compile(rb'"schema"\s*:\s*([0-9]{1,9})')


class RevisionStore:
    """The records that *revision* has below *root*, the store's directory in the working tree.

    Files are listed once, records are read when they are asked for, through one git process.  Raises `GitError` for a
    root outside the repository.
    """

    def __init__(self, revision: Revision, root: Path) -> None:
        self.revision, self.root = revision, root
        self._prefix = revision.inside(root)
        self._objects = Objects(revision.top)

    def prove_readable(self) -> None:
        """Look at every record, before anything is asked of a model because of them.

        Raises `GitError` for a revision that has none there, or whose objects this clone lacks, and `NewerSchemaError`
        for a record of a newer version.
        """
        entries = [entry for cell in self._index.values() for runs in cell.values() for entry in runs.values()]
        if not entries:
            raise GitError(
                f"{self.revision.name} ({self.revision.short}) has no record in {self._prefix}: "
                "measure there and commit its store first"
            )
        files = [entry for entry in entries if entry.kind == "file"]
        for entry, content in zip(files, self._objects.read([entry.sha for entry in files]), strict=True):
            # Parsing all of them takes ten times as long as this does.
            if content is not None and any(int(schema) > SCHEMA for schema in _SCHEMA.findall(content)):
                parse_record(self._path(entry), content)

    def cases(self, cell: Cell) -> tuple[str, ...]:
        """Ids of the cases of which *cell* has records, in order."""
        return tuple(sorted(self._of(cell)))

    def every_run(self, permutation: Permutation) -> dict[int, Record | Problem]:
        """All runs of one case, however many the permutation asks for.  Raises `GitError`, `NewerSchemaError`."""
        runs = self._of(permutation.cell).get(permutation.case.id, {})
        files = [entry.sha for _, entry in sorted(runs.items()) if entry.kind == "file"]
        contents = self._objects.read(files)
        found: dict[int, Record | Problem] = {}
        for run, entry in sorted(runs.items()):
            record = self._record(entry, next(contents) if entry.kind == "file" else None)
            if isinstance(record, Record) and record.subject.key != permutation.subject.key:
                record = Problem(self._path(entry), "misplaced", f"holds a record of {record.subject.key}; not counted")
            found[run] = record
        return found

    def whole_reply(self, lane: Lane, record: Record) -> str | None:
        """The reply of *lane*'s *record*; None where it was cut and its own evidence is not committed.

        Raises `GitError`.
        """
        if not record.reply_cut:
            return record.reply
        cell = lane.permutation.cell
        place = "/".join((*_place(cell), f"{lane.permutation.case.id}-{lane.run}{EVIDENCE}"))
        beside = [self._files.get(f"{place}/{name}") for name in (CALLS, REPLY)]
        shas = [entry.sha for entry in beside if entry is not None and entry.kind == "file"]
        calls, reply = self._objects.read(shas) if len(shas) == 2 else (None, None)
        if calls is None or reply is None or digest_of_calls(calls) != record.evidence:
            return None
        return reply.decode("utf-8", "surrogatepass")

    def walk(self) -> Iterator[Stored | Problem]:
        """Every record, in the order of their paths, and every file that is none.  Raises `GitError`."""
        records = {entry.path for cell in self._index.values() for runs in cell.values() for entry in runs.values()}
        files = [entry for entry in self._files.values() if entry.path in records and entry.kind == "file"]
        contents = self._objects.read([entry.sha for entry in files])
        for path, entry in self._files.items():
            if entry.path in records:
                yield self._walked(entry, next(contents) if entry.kind == "file" else None)
            elif problem := self._stray(path.split("/"), entry):
                yield problem

    def _walked(self, entry: Entry, content: bytes | None) -> Stored | Problem:
        path = self._path(entry)
        try:
            record = self._record(entry, content)
        except NewerSchemaError as error:
            return Problem(path, "newer", str(error).removeprefix(f"{path}: "))
        return record if isinstance(record, Problem) else Stored(path, record)

    def _stray(self, parts: list[str], entry: Entry) -> Problem | None:
        if any(part.startswith(TEMPORARY) for part in parts):
            return Problem(self._path(entry), "leftover", LEFTOVER)
        if entry.kind != "file":
            return Problem(self._path(entry), "foreign", f"is a {entry.kind}; not followed")
        if parts[0] in _OURS or (len(parts) == 5 and parts[3].endswith(EVIDENCE)):
            return None
        return Problem(self._path(entry), "foreign", "is not ours")

    def _path(self, entry: Entry) -> Path:
        return Path(f"{self.revision.name}:{entry.path}")

    def _of(self, cell: Cell) -> Mapping[str, Mapping[int, Entry]]:
        return self._index.get(_place(cell), {})

    @cached_property
    def _files(self) -> dict[str, Entry]:
        """All that is below the root, by the path from there."""
        below = _below(self._prefix)
        entries = tree(self.revision, self._prefix)
        return {entry.path.removeprefix(below): entry for entry in entries if entry.path.startswith(below)}

    @cached_property
    def _index(self) -> dict[tuple[str, str, str], dict[str, dict[int, Entry]]]:
        """What is named as a record is: by task, stack and subject directory, then by case, then by run."""
        found: dict[tuple[str, str, str], dict[str, dict[int, Entry]]] = {}
        for path, entry in self._files.items():
            parts = path.split("/")
            match = RECORD.match(parts[3]) if len(parts) == 4 else None
            if match and not any(part.startswith(TEMPORARY) for part in parts):
                cell = found.setdefault((parts[0], parts[1], parts[2]), {})
                cell.setdefault(match["case"], {})[int(match["run"])] = entry
        return found

    def _record(self, entry: Entry, content: bytes | None) -> Record | Problem:
        """The record that stands at *entry*, whose name is a record's.  Raises `NewerSchemaError`."""
        path = self._path(entry)
        if entry.kind != "file":
            return Problem(path, "foreign", f"is a {entry.kind}; not followed")
        if content is None:
            return Problem(path, "not-a-record", f"cannot be read: git object {entry.sha} is missing or corrupt")
        record = parse_record(path, content)
        if isinstance(record, Problem):
            return record
        here = entry.path.removeprefix(_below(self._prefix)).split("/")
        if here != [record.task, record.stack.key, here[2], f"{record.case}-{record.run}.json"]:
            return Problem(
                path, "misplaced", f"says it is {record.case} run {record.run} of {record.task}; not counted"
            )
        return record


def _place(cell: Cell) -> tuple[str, str, str]:
    return cell.task, cell.stack.key, cell.subject.directory


def _below(prefix: str) -> str:
    return "" if prefix == "." else f"{prefix}/"


def export(revision: Revision, directory: Path, into: Path) -> None:
    """Write the files below *directory* as *revision* has them into *into*, byte for byte as they were committed.

    Links, submodules and files over 20 MB are left out.  Raises `GitError`.
    """
    prefix = revision.inside(directory)
    below = _below(prefix)
    entries = [e for e in tree(revision, prefix) if e.kind == "file" and e.path.startswith(below)]
    objects = Objects(revision.top)
    try:
        for entry, size in zip(entries, sizes(revision, [entry.sha for entry in entries]), strict=True):
            parts = entry.path.removeprefix(below).split("/")
            if size is None or size > _LARGEST or not {"", ".", ".."}.isdisjoint(parts):  # a made-up tree may hold ..
                continue
            (content,) = objects.read([entry.sha])
            if content is not None:
                _write(into.joinpath(*parts), content, f"{revision.name}:{entry.path}")
    finally:
        objects.close()


def _write(path: Path, content: bytes, name: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except (OSError, ValueError) as error:
        raise GitError(f"{name} cannot be written to {path}: {error}") from None
