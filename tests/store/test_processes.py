"""Several processes on one store: nothing torn, nothing paid for twice, no lock outlives its holder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import anyio

from pytest_battery.edges.store import LaneLocks, Store, Stored

Script = Callable[..., list[str]]

EIGHT = """\
    import os, sys
    from pathlib import Path
    from pytest_battery.edges.store import Evidence, Store
    from conftest import _lane as lane, _record as record

    start, go = os.pipe()
    children = []
    for number in range(8):
        child = os.fork()
        if not child:
            os.close(go)
            os.read(start, 1)  # returns when the parent lets go: all begin at once
            store = Store(Path(sys.argv[1]))
            failed = 1
            try:
                store.prove_writable(lane().permutation)
                for of in (lane(f"own-{number}"), lane("shared")):
                    store.put(of, record(of, reply=str(number) * 5000), Evidence([{"n": number}], {}))
                store.put_summary({"n": number})
                failed = 0
            finally:
                os._exit(failed)
        children.append(child)
    os.close(go)
    print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""

# One process is inside the call of the model when the other comes to the lane.
TWO = """\
    import os, sys, threading
    from pathlib import Path
    import anyio
    from pytest_battery import FakeModel
    from pytest_battery.doing.choosing import Choice, permutations_of
    from pytest_battery.doing.measuring import Measuring
    from pytest_battery.doing.planning import Models, decide_all
    from pytest_battery.doing.preparing import prepare
    from pytest_battery.edges.store import Store, locks
    from pytest_battery.scoring import Registry
    from pytest_battery.values.subjects import parse_subject

    root = Path(sys.argv[1])
    store, choice = Store(root / "store"), Choice((parse_subject("fake/m"),))
    prepared = prepare(root / "t.toml", root, Registry())
    (permutation,) = permutations_of(prepared.task, choice)

    async def measured(handler):
        models = Models({"fake": FakeModel(handler)})
        measuring = Measuring(store, models, jobs=4)
        results = await measuring.permutation(prepared, decisions)
        await measuring.aclose()
        return " ".join(f"{result.how}:{result.record.reply}" for result in results)

    asked_out, asked_in = os.pipe()      # the first process has asked its model
    blocked_out, blocked_in = os.pipe()  # the second one has found the lane taken

    decisions = decide_all(store, Models({"fake": FakeModel(str)}), prepared, permutation)

    def first(request):
        with open(root / "calls", "a") as calls:
            calls.write("first\\n")
        os.write(asked_in, b"x")
        os.read(blocked_out, 1)
        return "one"

    def second(request):
        with open(root / "calls", "a") as calls:
            calls.write("second\\n")
        return "two"

    child = os.fork()
    if not child:
        os.close(blocked_in)  # so that it ends with its parent
        print("first", anyio.run(measured, first), flush=True)
        os._exit(0)

    os.read(asked_out, 1)
    trying = locks._try
    def told(descriptor, offset):
        taken = trying(descriptor, offset)
        if not taken:
            os.write(blocked_in, b"x")
        return taken
    locks._try = told
    print("second", anyio.run(measured, second), flush=True)
    os.waitpid(child, 0)
"""

HOLDER = """\
    import os, sys
    from pathlib import Path
    import anyio
    from pytest_battery.edges.store import LaneLocks

    async def hold():
        async with LaneLocks(Path(sys.argv[1])).holding("t/none/fake--m/a-1.json"):
            os.write(holds_in, b"x")
            os.read(end_out, 1)  # until it is killed, or its parent is gone

    holds_out, holds_in = os.pipe()
    end_out, end_in = os.pipe()
    child = os.fork()
    if not child:
        os.close(end_in)
        anyio.run(hold)
        os._exit(1)
    os.read(holds_out, 1)

    async def others():
        locks = LaneLocks(Path(sys.argv[1]))
        async with locks.holding("t/none/fake--m/a-2.json") as waited:
            print("another lane waited:", waited)
        with anyio.move_on_after(0):
            async with locks.holding("t/none/fake--m/a-1.json"):
                print("taken from a live holder")
        os.kill(child, 9)
        os.waitpid(child, 0)
        async with locks.holding("t/none/fake--m/a-1.json") as waited:
            print("after kill -9 waited:", waited)

    anyio.run(others)
"""


def test_eight_processes_create_one_store_at_once(script: Script, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    assert script(EIGHT, store.root) == ["0 0 0 0 0 0 0 0"]
    walked = list(store.walk())
    assert all(isinstance(one, Stored) for one in walked), walked
    assert [one.record.case for one in walked if isinstance(one, Stored)] == [
        *(f"own-{number}" for number in range(8)),
        "shared",
    ]
    assert not list(store.root.rglob(".tmp-*"))


def test_two_processes_never_pay_for_one_run_twice(script: Script, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(
        '[task]\ntitle = "T"\nkind = "call"\nruns = 1\ntimeout = 60\nprompt = { text = "?" }\n'
        '[scorer]\nuse = "matchers"\ncontains = "one"\n[metrics.correct]\nbetter = "higher"\n[[case]]\nid = "a"\n'
    )
    printed = script(TWO, tmp_path)
    assert sorted(printed) == ["first measured:one", "second kept:one"]
    assert (tmp_path / "calls").read_text() == "first\n"


def test_a_lock_dies_with_its_holder_and_not_before(script: Script, tmp_path: Path) -> None:
    assert script(HOLDER, tmp_path / "store") == ["another lane waited: False", "after kill -9 waited: False"]


def test_a_store_that_cannot_be_made_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")

    async def held() -> bool:
        async with LaneLocks(tmp_path / "store").holding("x") as waited:
            return waited

    assert anyio.run(held) is False


def test_the_lock_file_is_not_left_to_children(tmp_path: Path) -> None:
    locks = LaneLocks(tmp_path)

    async def inheritable() -> bool:
        async with locks.holding("x"):
            assert locks._descriptor is not None
            return os.get_inheritable(locks._descriptor)

    assert anyio.run(inheritable) is False
    locks.close()
    locks.close()
