"""This plugin and its peers, side by side against one server: the table of what must hold.

    WORK=DIR bash ../shared/bench/install.sh                       (once: an environment for each peer, 10 minutes, 4 GB)
    DIR/venv-base/bin/pip install zipfile-zstd                     (once: inspect's logs are zipped with it)
    WORK=DIR DIR/venv-base/bin/python bench/peers.py [--reps 5] [--rows wall,overhead,...] [--peers battery,...]

The jobs, the server and the peers' drivers are those of ../shared/bench; what is added here is one peer, `battery`: a pytest
process with this plugin from an environment of its own.  Every run is of a whole process in a fresh directory; each
repetition goes through all peers, so that what else the machine does hits all alike.  A run counts only where its own output was
read back and every answer is right; what is missing is told.
"""

from __future__ import annotations

import argparse
import glob
import importlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

TASK = """\
[task]
title = "Say it back"
kind = "call"
runs = 1
timeout = 120
cases = "cases.jsonl"
subjects = ["lan/fake@max_tokens=32,temperature=0"]
prompt = { text = "{{ case.input }}" }

[scorer]
use = "matchers"
equals = "{{ case.target }}"

[metrics.correct]
better = "higher"
"""

MANIFEST = """\
[providers.lan]
api = "openai-chat"
base_url = "http://127.0.0.1:{port}/v1"
price = 0
"""

JOBS: dict[str, dict[str, Any]] = {
    "start": {"n": 1, "c": 64, "peers": "raw aio_aiohttp pev_httpx pev_openai promptfoo inspect lmeval battery"},
    "wall": {
        "n": 1000,
        "c": 64,
        "latency": 0.5,
        "peers": "raw aio_aiohttp pev_httpx pev_openai promptfoo inspect battery",
    },
    "overhead": {"n": 2000, "c": 64, "peers": "raw aio_aiohttp pev_httpx pev_openai promptfoo inspect battery"},
    "429": {
        "n": 200,
        "c": 32,
        "latency": 0.5,
        "max_inflight": 4,
        "retry_after": "1",
        "peers": "pev_openai promptfoo inspect battery",
    },
    "500": {"n": 1000, "c": 64, "latency": 0.1, "p500": 0.02, "peers": "pev_openai promptfoo inspect battery"},
    "warm": {"n": 2000, "c": 64, "peers": "promptfoo_cache inspect_cache battery"},
    "kill": {"n": 1000, "c": 64, "latency": 0.5, "peers": "pev_httpx promptfoo inspect battery"},
}
SLOW = {"inspect": 2, "inspect_cache": 2, "lmeval": 2}
"""Peers that take minutes are not repeated more often than that."""


def load(shared: Path) -> ModuleType:
    """The harness of ../shared/bench, with one peer more."""
    sys.path.insert(0, str(shared))
    bench = importlib.import_module("bench")
    prepared: Callable[..., Path] = bench.prep

    def prep(peer: str, n: int, fresh: bool = True, suffix: str = "") -> Path:
        work = prepared(peer, n, fresh, suffix)
        if peer == "battery":
            rows = (work / "data.jsonl").read_text()
            (work / "cases.jsonl").write_text(rows)
            (work / "echo.toml").write_text(TASK)
            (work / "battery.toml").write_text(MANIFEST.format(port=bench.PORT))
            (work / "pytest.ini").write_text("[pytest]\n")
        return work

    def argv(c: int) -> list[str]:
        return [bench.py("battery"), "-m", "pytest", "-q", "-p", "no:cacheprovider", "echo.toml", "--jobs", str(c)]

    def verify(work: Path, out: str) -> dict[str, int]:
        records = [json.loads(Path(path).read_bytes()) for path in records_in(work)]
        return {
            "scored": sum(record["state"] == "valid" for record in records),
            "correct": sum(record["metrics"].get("correct") is True for record in records),
            "errors": sum(record["state"] != "valid" for record in records),
        }

    bench.prep = prep
    bench.PEERS["battery"] = (argv, {}, verify)
    return bench


def records_in(work: Path) -> list[str]:
    return glob.glob(str(work / "store/*/*/*/*.json"))


def install(bench: ModuleType) -> None:
    """An environment with nothing but the plugin as it is in this tree."""
    python = Path(bench.py("battery"))
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(python.parent.parent)], check=True)
        pip = [str(python), "-m", "pip", "install", "-q", "--constraint", str(ROOT / "constraints.txt")]
        subprocess.run([*pip, "--editable", str(ROOT)], check=True)


# Every run has a directory of its own, and none is deleted: ext4 looks at each file that was deleted in the last seconds
# before it makes a new one, and a run in the place of another would pay for that.


def quiet(bench: ModuleType) -> None:
    """Wait a moment for whatever the run before left the machine with: writes to the disk, above all."""
    os.sync()
    bench.quiet(0.3, 6)


def measured(bench: ModuleType, row: str, peers: Iterable[str], reps: int) -> dict[str, list[dict[str, Any]]]:
    job = JOBS[row]
    server = bench.Server(
        **{name: job[name] for name in ("latency", "max_inflight", "retry_after", "p500") if name in job}
    )
    found: dict[str, list[dict[str, Any]]] = {peer: [] for peer in peers}
    try:
        if row == "warm":
            for peer in found:
                bench.show(bench.one(peer, job["n"], job["c"], server, True))
        for repetition in range(reps):
            for peer in found:
                if repetition >= SLOW.get(peer, reps):
                    continue
                quiet(bench)
                if row == "kill":
                    one = battery_killed(bench, server, job) if peer == "battery" else peer_killed(bench, peer, job)
                    print(peer, json.dumps(one), flush=True)
                else:
                    place = "" if row == "warm" else f"-{os.getpid()}-{row}-{repetition}"
                    one = bench.one(peer, job["n"], job["c"], server, row != "warm", suffix=place)
                    bench.show(one)
                found[peer].append(one)
    finally:
        server.stop()
    return found


def battery_killed(bench: ModuleType, server: Any, job: Mapping[str, Any]) -> dict[str, Any]:
    """kill -9 when half is answered, what is on disk, and what the next session asks again."""
    n, c = job["n"], job["c"]
    server.reset(dump_keys=True)
    work = bench.prep("battery", n, True, f"-{os.getpid()}-{time.time_ns()}")
    process = bench.spawn("battery", n, c, work)
    while bench.http("/stats")["ok"] < n // 2 and process.poll() is None:
        time.sleep(0.02)
    if process.poll() is not None:
        raise SystemExit(f"the session ended before half was answered: see {work / 'stdout.txt'}")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(job["latency"] + 1)
    served = bench.http("/stats")
    kept = len(records_in(work))
    again = bench.spawn("battery", n, c, work)
    again.wait()
    after = bench.http("/stats")
    verified = bench.PEERS["battery"][2](work, "")
    return {
        "served_before_kill": served["ok"],
        "on_disk": kept,
        "requests_on_resume": after["ok"] - served["ok"],
        "repeated": after["dup_ok"] - served["dup_ok"],
        "after": verified,
    }


def peer_killed(bench: ModuleType, peer: str, job: Mapping[str, Any]) -> dict[str, Any]:
    port = str(bench.PORT + 50)
    script = Path(bench.__file__).with_name("kill_test.py")
    told = subprocess.run(
        [sys.executable, str(script), peer, str(job["n"]), str(job["c"]), str(job["latency"])],
        env={**os.environ, "PB_PORT": port},
        capture_output=True,
        text=True,
    ).stdout
    found = json.loads(told) if told.strip() else {}
    return {
        name: found.get(name) for name in ("served_before_kill", "on_disk", "requests_on_resume", "repeated", "after")
    }


# -- what is printed -----------------------------------------------------------------------------


def spread(values: Iterable[float], form: str = ".2f") -> str:
    """Median and range; a single value stands alone."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    low, middle, high = min(known), statistics.median(known), max(known)
    return f"{middle:{form}}" if len(known) == 1 else f"{middle:{form}} ({low:{form}}-{high:{form}})"


def answered(runs: list[dict[str, Any]]) -> str:
    """Right answers of all, and those that differ between the repetitions."""
    rights = sorted({run["verify"].get("correct", 0) for run in runs})
    return f"{rights[0]}" if len(rights) == 1 else f"{rights[0]}-{rights[-1]}"


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def printed(row: str, found: Mapping[str, list[dict[str, Any]]]) -> str:
    job = JOBS[row]
    n, c, latency = job["n"], job["c"], job.get("latency", 0.0)
    ours = found.get("battery")
    if row == "kill":
        heads = [
            "peer",
            "answered before the kill",
            "on disk",
            "asked again",
            "of them twice",
            "right in the end",
            "runs",
        ]
        return table(
            heads,
            [
                [
                    peer,
                    *(spread((run[name] for run in runs), ".0f") for name in heads_of_kill()),
                    spread(((run["after"] or {}).get("correct", 0) for run in runs), ".0f"),
                    str(len(runs)),
                ]
                for peer, runs in found.items()
            ],
        )
    ideal = {"wall": n * latency / c, "429": n * latency / job.get("max_inflight", c), "500": n * latency / c}.get(row)
    heads = [
        "peer",
        "wall s",
        "x ideal",
        "first request s",
        "CPU ms a sample",
        "peak MB",
        f"right of {n}",
        "/ ours",
        "runs",
    ]
    rows = []
    for peer, runs in found.items():
        wall = [run["wall_s"] for run in runs]
        cpu = [run["cpu_ms_per_sample"] for run in runs]
        compared = "overhead" if row == "overhead" else "wall"
        values, own = (
            (cpu, [run["cpu_ms_per_sample"] for run in ours or []])
            if compared == "overhead"
            else (
                wall,
                [run["wall_s"] for run in ours or []],
            )
        )
        ratio = spread(value / mine for value, mine in zip(values, own, strict=False)) if own else "-"
        rows.append(
            [
                peer,
                spread(wall),
                spread((value / ideal for value in wall), ".2f") if ideal else "-",
                spread(run["first_req_s"] for run in runs) if row != "warm" else "-",
                spread(cpu),
                spread((run["rss_mb"] for run in runs), ".0f"),
                answered(runs),
                "1" if peer == "battery" else ratio,
                str(len(runs)),
            ]
        )
    return table(heads, rows)


def heads_of_kill() -> tuple[str, ...]:
    return ("served_before_kill", "on_disk", "requests_on_resume", "repeated")


def at_rest(bench: ModuleType) -> str:
    """Bytes of our store for 1,000 answers, and the time to read 10,000 records into rows, in a process of its own."""
    work = max(Path(bench.B, f"work{bench.PORT}").glob("battery-*-overhead-0"), key=lambda path: path.stat().st_mtime)
    records = [Path(path) for path in records_in(work)]
    evidence = [path for path in (work / "store").rglob("*") if path.is_file() and ".evidence" in path.parent.name]
    size = sum(path.stat().st_size for path in records) / len(records)
    beside = sum(path.stat().st_size for path in evidence) / len(records)
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom pytest_battery.edges.store import Store, Stored\n"
        "started = time.perf_counter()\n"
        "rows = [(one.record.task, one.record.subject.key, one.record.case, one.record.run, one.record.metrics)\n"
        "        for _ in range(5) for one in Store(Path(sys.argv[1])).walk() if isinstance(one, Stored)]\n"
        "print(time.perf_counter() - started, len(rows))\n"
    )
    seconds = []
    for _ in range(5):
        told = subprocess.run(
            [bench.py("battery"), "-c", script, str(work / "store")], capture_output=True, text=True, check=True
        )
        second, rows = told.stdout.split()
        seconds.append(float(second))
    return (
        f"battery: {size:.0f} bytes a record, {beside:.0f} bytes of evidence beside it ({len(records)} records); "
        f"{rows} records read, checked and put into rows in {spread(seconds)} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared" / "bench")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--rows", default=",".join(JOBS) + ",rest")
    parser.add_argument("--peers", default="", help="only these, besides battery")
    given = parser.parse_args()
    bench = load(given.shared)
    install(bench)
    os.environ["PYTHONDONTWRITEBYTECODE"] = ""
    for row in given.rows.split(","):
        if row == "rest":
            print(f"\n## rest\n\n{at_rest(bench)}\n", flush=True)
            continue
        peers = [
            peer
            for peer in JOBS[row]["peers"].split()
            if not given.peers or peer in (*given.peers.split(","), "battery")
        ]
        found = measured(bench, row, peers, given.reps)
        job = ", ".join(f"{name} {value}" for name, value in JOBS[row].items() if name != "peers")
        print(f"\n## {row}: {job}\n\n{printed(row, found)}\n", flush=True)


if __name__ == "__main__":
    main()
