"""Where records lie, and how they are put there, read and taken away."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from pytest_battery.edges.store.evidence import Evidence, read_artifacts, read_reply, write_evidence
from pytest_battery.edges.store.looks import LOOKS, append_looks, read_looks
from pytest_battery.edges.store.reading import Problem, Stored, parse_record, read_record
from pytest_battery.edges.store.writing import TEMPORARY, Pending, json_bytes, record_bytes, refusals_named, write_whole
from pytest_battery.errors import NewerSchemaError, StoreError
from pytest_battery.values.looks import Look
from pytest_battery.values.permutations import Cell, Lane, Permutation
from pytest_battery.values.records import Record

__all__ = ["Putting", "Store"]

EVIDENCE = ".evidence"
LEFTOVER = "was left by a session that is writing, or was killed; in the second case it can be deleted"
SUMMARY = "summary.json"
_WHY = "# Evidence is bulky and may hold what should not travel; records are meant to be committed.\n"
_IGNORED = f"{_WHY}*.evidence/\n.lock\n.budget.sqlite*\n.tmp-*\n"
_IGNORED_BEFORE = (f"{_WHY}*.evidence/\n.lock\n.tmp-*\n",)  # brought up to date where nobody has changed it
RECORD = re.compile(r"(?P<case>.+)-(?P<run>[1-9][0-9]*)\.json\Z")
_OURS = frozenset({".gitignore", ".lock", ".budget.sqlite", ".budget.sqlite-journal", LOOKS, SUMMARY})


class Putting:
    """A record on its way into the store, its evidence first: `write`, then `sync`, then `name`, in whatever thread.

    Each raises `StoreWriteError`; what stood there before is then intact.  Many records at once are put by each step for
    all of them.
    """

    def __init__(self, path: Path, content: bytes, evidence: Evidence | None) -> None:
        self._path, self._evidence = path, evidence
        self._pending = Pending(path, content)

    def write(self) -> None:
        with refusals_named(self._path):
            try:
                self._written()
            except FileNotFoundError:  # the cell's first record
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._written()

    def _written(self) -> None:
        if self._evidence is not None:
            write_evidence(self._path.with_suffix(EVIDENCE), self._evidence)
        self._pending.write()

    def sync(self) -> None:
        with refusals_named(self._path):
            self._pending.sync()

    def name(self) -> None:
        with refusals_named(self._path):
            self._pending.name()


class Store:
    """``ROOT/TASK/STACK/SUBJECT/CASE-RUN.json``, with ``CASE-RUN.evidence/`` beside it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._directories: dict[Cell, str] = {}  # as text: to put a Path together costs as much as to read a record

    def directory(self, cell: Cell) -> Path:
        return self.root / cell.task / cell.stack.key / cell.subject.directory

    def _directory(self, cell: Cell) -> str:
        found = self._directories.get(cell)
        if found is None:
            found = self._directories[cell] = str(self.directory(cell))
        return found

    def key(self, lane: Lane) -> str:
        """Where the lane's record stands below the root, wherever that is: the same in every session on this store."""
        return self._path(lane)[len(str(self.root)) + 1 :]

    def path(self, lane: Lane) -> Path:
        return Path(self._path(lane))

    def _path(self, lane: Lane) -> str:
        return f"{self._directory(lane.permutation.cell)}/{lane.permutation.case.id}-{lane.run}.json"

    # -- reading ---------------------------------------------------------------------------------

    def read(self, permutation: Permutation) -> dict[int, Record | Problem]:
        """The records of runs 1 to ``permutation.runs`` that are there, and what is wrong with those that are not.

        Raises `NewerSchemaError`, and `StoreError` for a directory that holds another subject's records (two keys
        may have one directory name, on a file system that folds letter case above all).
        """
        found: dict[int, Record | Problem] = {}
        start = f"{self._directory(permutation.cell)}/{permutation.case.id}-"
        for run in range(1, permutation.runs + 1):
            path = f"{start}{run}.json"
            record = read_record(path)
            if isinstance(record, Record):
                self._check_place(path, record, permutation, run)
            if record is not None:
                found[run] = record
        return found

    def every_run(self, permutation: Permutation) -> dict[int, Record | Problem]:
        """As `read`, all the runs there are, however many the permutation asks for."""
        runs = [run for case, run in self._names(permutation.cell) if case == permutation.case.id]
        return self.read(replace(permutation, runs=max(runs, default=0)))

    def cases(self, cell: Cell) -> tuple[str, ...]:
        """Ids of the cases of which *cell* has records, in order."""
        return tuple(sorted({case for case, _ in self._names(cell)}))

    def _names(self, cell: Cell) -> Iterator[tuple[str, int]]:
        """Case and run of every record of *cell*, by the names of their files."""
        try:
            names = os.listdir(self.directory(cell))
        except (FileNotFoundError, NotADirectoryError):
            return
        for name in names:
            if match := RECORD.match(name):
                yield match["case"], int(match["run"])

    def read_lane(self, lane: Lane) -> Record | Problem | None:
        """The record of one run, now.  Raises as `read` does."""
        path = self._path(lane)
        found = read_record(path)
        if isinstance(found, Record):
            self._check_place(path, found, lane.permutation, lane.run)
        return found

    def whole_reply(self, lane: Lane, record: Record) -> str | None:
        """The reply of *lane*'s *record*; None where the record had to cut it and its evidence is not here.

        The evidence here may be another measurement's: records travel, evidence does not.
        """
        if not record.reply_cut:
            return record.reply
        return read_reply(self.path(lane).with_suffix(EVIDENCE), record.evidence)

    def _check_place(self, path: str, record: Record, permutation: Permutation, run: int) -> None:
        if record.subject.key != permutation.subject.key:
            raise StoreError(
                f"{path}: holds a record of {record.subject.key}, where {permutation.subject.key} belongs. "
                "Two subjects share this directory name; keep one of them in another store"
            )
        here = (permutation.task, permutation.stack.key, permutation.case.id, run)
        there = (record.task, record.stack.key, record.case, record.run)
        if here != there:
            raise StoreError(
                f"{path}: says it is of {' '.join(map(str, there))}, and stands where {' '.join(map(str, here))} belongs. "
                "Move it back, or delete it"
            )

    def walk(self) -> Iterator[Stored | Problem]:
        """Every record below the root, in the order of their paths, and every file that is none."""
        if self.root.is_dir():
            yield from self._walk(self.root, 0)

    def walk_task(self, task: str) -> Iterator[Stored | Problem]:
        """As `walk`, the records of one task."""
        if (self.root / task).is_dir():
            yield from self._walk(self.root / task, 1)

    def _walk(self, directory: Path, depth: int) -> Iterator[Stored | Problem]:
        for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
            path = Path(entry.path)
            if entry.name.startswith(TEMPORARY):
                yield Problem(path, "leftover", LEFTOVER)
            elif entry.is_dir(follow_symlinks=False):
                if depth < 3:
                    yield from self._walk(path, depth + 1)
                elif not entry.name.endswith(EVIDENCE):
                    yield Problem(path, "foreign", "is not ours")
            elif not (depth == 0 and entry.name in _OURS):
                yield self._walked(path, depth)

    def _walked(self, path: Path, depth: int) -> Stored | Problem:
        match = RECORD.match(path.name)
        if depth != 3 or not match:
            return Problem(path, "foreign", "is not ours")
        try:
            record = parse_record(path, path.read_bytes())
        except NewerSchemaError as error:
            return Problem(path, "newer", str(error).removeprefix(f"{path}: "))
        except OSError as error:
            return Problem(path, "not-a-record", f"cannot be read: {error.strerror}")
        if isinstance(record, Problem):
            return record
        here = (*path.relative_to(self.root).parts[:2], match["case"], int(match["run"]))
        if here != (record.task, record.stack.key, record.case, record.run):
            return Problem(
                path, "misplaced", f"says it is {record.case} run {record.run} of {record.task}; not counted"
            )
        return Stored(path, record)

    def strays(self, cell: Cell) -> Iterator[Problem]:
        """What lies among the cell's records and is none, told by its name alone."""
        directory = self.directory(cell)
        for entry in sorted(os.scandir(directory), key=lambda entry: entry.name) if directory.is_dir() else ():
            if entry.name.startswith(TEMPORARY):
                yield Problem(Path(entry.path), "leftover", LEFTOVER)
            elif not RECORD.match(entry.name) and not entry.name.endswith(EVIDENCE):
                yield Problem(Path(entry.path), "foreign", "is not ours")

    def artifacts(self, path: Path, digest: str | None) -> list[dict[str, object]] | None:
        """The calls behind the record at *path*, where its evidence is here and is its own."""
        return read_artifacts(path.with_suffix(EVIDENCE), digest)

    def evidence_directory(self, path: Path) -> Path:
        return path.with_suffix(EVIDENCE)

    # -- writing ---------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make the root and its .gitignore; safe for any number of sessions at once.  Raises `StoreWriteError`."""
        ignore = self.root / ".gitignore"
        with refusals_named(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            if not ignore.exists() or ignore.read_text(encoding="utf-8", errors="replace") in _IGNORED_BEFORE:
                write_whole(ignore, _IGNORED.encode())

    def prove_writable(self, permutation: Permutation) -> None:
        """Write and take back a file where the permutation's longest name will stand; before anything is paid.

        Raises `StoreWriteError` naming the path and what the system said.
        """
        self.prepare()
        path = self.path(Lane(permutation, permutation.runs))
        with refusals_named(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            probe = path.with_name(f"{path.name[:-5]}.evidence.probe-{os.getpid()}")
            write_whole(probe, b"{}\n")
            probe.unlink()

    def put(self, lane: Lane, record: Record, evidence: Evidence | None = None) -> Path:
        """Write *record*, its evidence first.  Raises `StoreWriteError`; what stood there before is then intact."""
        putting = self.begin(lane, record, evidence)
        putting.write()
        putting.sync()
        putting.name()
        return self.path(lane)

    def begin(
        self,
        lane: Lane,
        record: Record,
        evidence: Evidence | None = None,
        secret_in: Callable[[bytes], str | None] = lambda content: None,
    ) -> Putting:
        """The first part of `put`: all that takes the interpreter, and nothing of the disk.

        *secret_in* looks at what is about to be written: where it finds something, that is refused with a `StoreError`.
        """
        path = self.path(lane)
        content = record_bytes(record.model_dump(mode="json", by_alias=True))
        beside = () if evidence is None else (evidence.calls_file, *evidence.files.values())
        for part in (content, *beside):
            if (name := secret_in(part)) is not None:
                raise StoreError(f"{path}: what was measured holds the value of {name}, and is not written down")
        return Putting(path, content, evidence)

    def put_bytes(self, path: Path, content: bytes) -> None:
        """A record of another store as it is, whole or not at all.  Raises `StoreWriteError`."""
        with refusals_named(path):
            write_whole(path, content)

    def put_summary(self, document: dict[str, object]) -> Path:
        path = self.root / SUMMARY
        with refusals_named(path):
            write_whole(path, json_bytes(document))
        return path

    def looks(self) -> tuple[list[Look], list[Problem]]:
        """The ledger of looks, and the lines of it that are none."""
        return read_looks(self.root)

    def append_looks(self, looks: Iterable[Look]) -> None:
        """Raises `StoreWriteError`."""
        append_looks(self.root, looks)

    def delete(self, permutation: Permutation) -> int:
        """Take away the permutation's records, whatever their run, and their evidence; how many there were."""
        count = 0
        directory = self.directory(permutation.cell)
        with refusals_named(directory):
            for path in sorted(directory.glob("*.json")) if directory.is_dir() else ():
                match = RECORD.match(path.name)
                if match and match["case"] == permutation.case.id:
                    path.unlink()
                    shutil.rmtree(path.with_suffix(EVIDENCE), ignore_errors=True)
                    count += 1
        return count
