"""A cap that holds for every process at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_battery.edges.budget import BUDGET, Budget
from pytest_battery.errors import StoreError

WORKER = """\
import sys, time
from pathlib import Path
from pytest_battery.edges.budget import Budget

budget = Budget(Path(sys.argv[1]), 3.5, began=0.0)
sys.stdin.readline()
while True:
    admission, hold = budget.reserve(1.0)
    if admission != "wait":
        break
    time.sleep(0.01)
if admission == "admitted":
    print("asked", flush=True)
    time.sleep(0.05)
    budget.settle(hold, 1.0)
"""

HOLDER = """\
import sys
from pathlib import Path
from pytest_battery.edges.budget import Budget

print(Budget(Path(sys.argv[1]), 1.0, began=0.0).reserve(1.0)[0], flush=True)
sys.stdin.readline()
"""


def started(script: str, directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_sixteen_workers_against_a_cap_of_three_and_a_half_calls_admit_three(tmp_path: Path) -> None:
    Budget(tmp_path, 3.5, began=0.0)
    workers = [started(WORKER, tmp_path) for _ in range(16)]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    said = [worker.communicate(timeout=60)[0] for worker in workers]
    assert sum(text == "asked\n" for text in said) == 3
    assert Budget(tmp_path, 3.5, began=0.0).spent() == 3.0


def test_what_is_in_flight_counts_and_what_is_released_is_free_again(tmp_path: Path) -> None:
    budget = Budget(tmp_path, 1.0)
    first, hold = budget.reserve(0.7)
    assert (first, budget.reserve(0.7)[0]) == ("admitted", "wait")
    budget.settle(hold, 0.0)
    again, hold = budget.reserve(0.7)
    budget.settle(hold, 0.6)
    assert (again, budget.reserve(0.7)[0], budget.reserve(0.4)[0]) == ("admitted", "over", "admitted")


def test_a_hold_of_a_process_that_was_killed_is_let_go(tmp_path: Path) -> None:
    holder = started(HOLDER, tmp_path)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "admitted\n"
    budget = Budget(tmp_path, 1.0, began=0.0)
    assert budget.reserve(1.0)[0] == "wait"
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    assert budget.reserve(1.0)[0] == "admitted"


def test_a_session_counts_from_where_it_began(tmp_path: Path) -> None:
    first = Budget(tmp_path, 1.0)
    _, hold = first.reserve(1.0)
    first.settle(hold, 1.0)
    second = Budget(tmp_path, 1.0)
    assert second.spent() == 0
    assert second.reserve(1.0)[0] == "admitted"
    assert Budget(tmp_path, 1.0, began=second.began).reserve(0.5)[0] == "wait"


def test_sums_of_tenths_reach_the_cap_and_not_beyond(tmp_path: Path) -> None:
    budget = Budget(tmp_path, 0.3)
    for _ in range(3):
        admission, hold = budget.reserve(0.1)
        assert admission == "admitted"
        budget.settle(hold, 0.1)
    assert budget.reserve(0.1)[0] == "over"


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    (tmp_path / BUDGET).write_bytes(b"no database" * 100)
    with pytest.raises(StoreError, match="the budget cannot be kept"):
        Budget(tmp_path, 1.0)
