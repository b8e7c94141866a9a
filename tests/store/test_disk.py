"""A disk that refuses: what was there stays, nothing half-written is left, and the message says where and why."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pytest_battery.edges.store import Evidence, Store
from pytest_battery.errors import StoreWriteError
from pytest_battery.values.records import Record

Make = Callable[..., Any]

FULL = """\
    import resource, sys
    from pathlib import Path
    from pytest_battery.edges.store import Evidence, Store
    from pytest_battery.errors import StoreWriteError
    from pytest_battery.values.records import Record
    from conftest import _lane as lane, _record as record

    store, where, replacing = Store(Path(sys.argv[1])), sys.argv[2], sys.argv[3] == "replacing"
    old = Evidence([{"text": "old"}], {})
    for case in ("a", "b") if replacing else ("b",):
        store.put(lane(case), record(lane(case), evidence=old.digest()), old)

    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    big = "x" * 8000
    new = Evidence([{"text": big if where == "evidence" else "new"}], {}, big if where == "reply" else None)
    try:
        store.put(lane(), record(lane(), reply=big if where == "record" else "r", evidence=new.digest()), new)
    except StoreWriteError as error:
        print(error)
    for case in ("a", "b"):
        found = store.read_lane(lane(case))
        print(case, found.evidence == old.digest() if isinstance(found, Record) else found)
    print(*sorted(path.relative_to(store.root).as_posix() for path in store.root.rglob("*") if not path.is_dir()))
"""


@pytest.mark.parametrize("replacing", [True, False], ids=["replacing", "new"])
@pytest.mark.parametrize("where", ["record", "evidence", "reply"])
def test_a_full_disk_leaves_earlier_records_and_no_half_file(
    script: Callable[..., list[str]], tmp_path: Path, where: str, replacing: bool
) -> None:
    root = tmp_path / "store"
    message, first, second, files = script(FULL, root, where, "replacing" if replacing else "new")
    path = root / "t/none/fake--m/a-1.json"
    assert message == f"{path}: could not be written: File too large. Earlier records are intact"
    assert (first, second) == ("a True" if replacing else "a None", "b True")
    left = {name.rpartition("/")[2] for name in files.split() if "a-1" not in name}
    assert left == {"b-1.json", "calls.jsonl", "request-knobs.json"}
    assert ("t/none/fake--m/a-1.json" in files) is replacing
    assert ".tmp-" not in files


@contextmanager
def unwritable(directory: Path) -> Iterator[None]:
    """*directory* refuses new files meanwhile: to root too, who is nobody for as long."""
    mode = directory.stat().st_mode
    directory.chmod(0o555)
    user = os.geteuid()
    try:
        if os.access(directory, os.W_OK):
            os.seteuid(65534)
        yield
    finally:
        os.seteuid(user)
        directory.chmod(mode)


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that everybody may enter, as pytest's own is not."""
    directory = Path(tempfile.mkdtemp(prefix="battery-", dir="/tmp"))
    directory.chmod(0o777)
    yield directory
    shutil.rmtree(directory)


def test_a_read_only_store_is_read_and_its_refusal_is_named(public: Path, lane: Make, record: Make) -> None:
    store = Store(public / "store")
    path = store.put(lane(), record(lane()), Evidence([], {}))
    content = path.read_bytes()
    with unwritable(path.parent):
        assert isinstance(store.read_lane(lane()), Record)
        for write in (
            lambda: store.put(lane(), record(lane(), reply="new")),
            lambda: store.put(lane(run=2), record(lane(run=2)), Evidence([], {})),
            lambda: store.delete(lane().permutation),
            lambda: store.prove_writable(lane().permutation),
        ):
            with pytest.raises(StoreWriteError, match=r"could not be written: Permission denied\. Earlier records are"):
                write()
    assert path.read_bytes() == content
    assert sorted(file.name for file in path.parent.iterdir()) == ["a-1.evidence", "a-1.json"]


def test_a_store_that_cannot_be_made_is_told_before_anything_is_paid(tmp_path: Path, lane: Make) -> None:
    (tmp_path / "file").write_text("")
    for root, reason in ((tmp_path / "file", "File exists"), (tmp_path / ("x" * 300), "File name too long")):
        with pytest.raises(StoreWriteError) as caught:
            Store(root).prove_writable(lane().permutation)
        assert str(caught.value) == f"{root}: could not be written: {reason}. Earlier records are intact"


def test_the_longest_name_is_proven_with_the_path_it_will_have(tmp_path: Path, lane: Make) -> None:
    root = tmp_path
    while len(str(root)) < 3900:
        root = root / ("d" * min(200, 3899 - len(str(root))) if len(str(root)) < 3899 else "d")
    of = lane(case="c" * 100, run=12, subject=f"fake/{'m' * 300}")
    with pytest.raises(StoreWriteError, match="File name too long"):
        Store(root).prove_writable(of.permutation)
    Store(tmp_path / "s").prove_writable(of.permutation)


def test_proving_that_a_store_can_be_written_leaves_nothing_but_the_directory(store: Store, lane: Make) -> None:
    store.prove_writable(lane().permutation)
    assert [path.name for path in store.root.rglob("*") if path.is_file()] == [".gitignore"]
    assert list(store.walk()) == []


def test_evidence_locks_and_files_being_written_are_not_committed(store: Store) -> None:
    store.prepare()
    ignored = (store.root / ".gitignore").read_text().splitlines()
    assert {"*.evidence/", ".lock", ".tmp-*"} <= set(ignored)
    (store.root / ".gitignore").write_text("mine\n")
    store.prepare()
    assert (store.root / ".gitignore").read_text() == "mine\n"


def test_a_write_that_is_interrupted_leaves_nothing(
    store: Store, lane: Make, record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store.put(lane(), record(lane(), reply="old"))

    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.put(lane(), record(lane(), reply="new"), Evidence([], {}))
    assert b'"reply": "old"' in path.read_bytes()
    assert not list(store.root.rglob(".tmp-*"))


def test_an_ignore_file_of_an_earlier_version_is_brought_up_to_date_and_anothers_is_left(store: Store) -> None:
    store.prepare()
    path = store.root / ".gitignore"
    now = path.read_text()
    path.write_text(now.replace(".budget.sqlite*\n", ""))
    store.prepare()
    assert path.read_text() == now
    path.write_text("*.evidence/\n")
    store.prepare()
    assert path.read_text() == "*.evidence/\n"
