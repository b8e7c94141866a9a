"""The records of a revision, and their whole replies."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_battery.edges.store import Evidence, Store, Stored
from pytest_battery.values.records import MAX_REPLY, Record

from ..git_repository import Repository
from .looking import CELL, LaneMaker, RecordMaker, reading, replies


def test_all_runs_of_a_case_are_read_however_many_are_asked_for(measured: Repository, lane: LaneMaker) -> None:
    store = reading(measured)
    found = store.every_run(replace(lane("a").permutation, runs=1))
    assert [(run, record.reply) for run, record in found.items() if isinstance(record, Record)] == [
        (1, "a 1"),
        (2, "a 2"),
        (12, "a 12"),
    ]
    assert store.cases(lane("a").permutation.cell) == ("a", "b")
    assert store.every_run(lane("nowhere").permutation) == {}
    assert store.cases(lane(subject="fake/other").permutation.cell) == ()


def test_records_are_what_a_session_reads_from_the_working_tree(
    repository: Repository, kept: Callable[..., Path], lane: LaneMaker
) -> None:
    root = repository.path / "store"
    kept(root, reply="caf\u00e9 \ud800 \u2028", metrics={"correct": True, "share": 0.1 + 0.2}, later={"unknown": [1]})
    repository.commit()
    assert reading(repository).every_run(lane().permutation) == Store(root).every_run(lane().permutation)


def test_the_revision_is_read_and_not_the_working_tree_or_the_index(
    measured: Repository, kept: Callable[..., Path], lane: LaneMaker
) -> None:
    kept(measured.path / "store", "a", 1, reply="changed")
    measured("add", "--all")
    assert replies(reading(measured), lane("a"))[1] == "a 1"
    measured("commit", "--quiet", "-m", "changed")
    assert replies(reading(measured), lane("a")) == {1: "changed"}
    assert replies(reading(measured, "HEAD~1"), lane("a"))[1] == "a 1"


def test_many_records_take_one_process(
    repository: Repository,
    kept: Callable[..., Path],
    lane: LaneMaker,
    before_git: Callable[[str], None],
    tmp_path: Path,
) -> None:
    path = kept(repository.path / "store", "case", 1)
    text = path.read_text(encoding="utf-8")
    for number in range(2, 301):
        path.with_name(f"case-{number}.json").write_text(text.replace('"run": 1,', f'"run": {number},'), "utf-8")
    repository.commit()
    log = tmp_path / "log"
    before_git(f'echo "$@" >> {log}\nexec {{git}} "$@"')
    store = reading(repository)
    store.prove_readable()
    found = store.every_run(lane("case").permutation)
    assert list(found) == list(range(1, 301))
    assert all(isinstance(record, Record) for record in found.values())
    assert len(list(store.walk())) == 300
    lines = log.read_text().splitlines()
    assert sum("ls-tree" in line for line in lines) == 1
    assert sum("cat-file --batch" in line for line in lines) == 1


def test_reading_can_be_left_in_the_middle(measured: Repository, lane: LaneMaker) -> None:
    store = reading(measured)
    walk = store.walk()
    next(walk)
    assert replies(store, lane("b")) == {1: "b 1"}
    rest = [one.record.reply for one in walk if isinstance(one, Stored)]
    assert rest == ["a 12", "a 2", "b 1"]


def test_an_interrupt_between_two_answers_mixes_nothing_up(
    measured: Repository, lane: LaneMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(content: bytes, length: int) -> str:
        raise KeyboardInterrupt

    store = reading(measured)
    with monkeypatch.context() as patch:
        patch.setattr("pytest_battery.edges.git._name_of", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.every_run(lane("a").permutation)
    assert replies(store, lane("a")) == {1: "a 1", 2: "a 2", 12: "a 12"}


PROVED = """
import os, signal, subprocess, sys
from pathlib import Path
from pytest_battery.edges.git import resolve
from pytest_battery.edges.store.revisions import RevisionStore

started = []

class Seen(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        started.append(self)

subprocess.Popen = Seen
store = RevisionStore(resolve(Path(sys.argv[1]), "HEAD"), Path(sys.argv[1], "store"))
store.prove_readable()
reader = started[-1]
assert reader.returncode is None
"""


@pytest.mark.parametrize(
    "then",
    [
        "del store; assert reader.returncode == 0",
        "",
        "signal.signal(signal.SIGINT, lambda *_: None); os.killpg(0, signal.SIGINT); store.prove_readable()",
    ],
    ids=["ends with the store", "ends with the session", "survives an interrupt"],
)
def test_the_process_that_reads(measured: Repository, then: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", PROVED + then, str(measured.path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        start_new_session=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


# -- evidence --------------------------------------------------------------------------------------


LONG = "é\ud800" * MAX_REPLY


@pytest.fixture
def cut(repository: Repository, lane: LaneMaker, record: RecordMaker) -> Record:
    """A record whose reply was too long for it; the evidence is committed too."""
    evidence = Evidence([{"response": LONG}], {}, reply=LONG)
    one: Record = record(lane(), reply=LONG[:100], reply_cut=True, evidence=evidence.digest())
    store = Store(repository.path / "store")
    store.put(lane(), one, evidence)
    repository.commit()
    return one


def test_a_reply_that_was_not_cut_needs_no_evidence(measured: Repository, lane: LaneMaker, record: RecordMaker) -> None:
    assert reading(measured).whole_reply(lane(), record(lane(), reply="short")) == "short"


def test_a_cut_reply_is_read_from_its_committed_evidence(repository: Repository, cut: Record, lane: LaneMaker) -> None:
    shutil.rmtree(repository.path / "store")
    assert reading(repository).whole_reply(lane(), cut) == LONG


@pytest.mark.parametrize("lost", ["all", "calls.jsonl", "reply.txt", "digest", "link"])
def test_a_cut_reply_is_not_made_up_from_what_is_left(
    repository: Repository, cut: Record, lane: LaneMaker, lost: str
) -> None:
    evidence = repository.path / "store" / CELL / "a-1.evidence"
    if lost == "all":
        shutil.rmtree(evidence)
    elif lost == "digest":
        (evidence / "calls.jsonl").write_text("{}\n")
    elif lost == "link":
        (evidence / "reply.txt").unlink()
        (evidence / "reply.txt").symlink_to("calls.jsonl")
    else:
        (evidence / lost).unlink()
    repository.commit()
    assert reading(repository).whole_reply(lane(), cut) is None
