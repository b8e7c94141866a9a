"""kill -9 at a random moment, over and over: is a finished run ever lost, or asked twice?

    python bench/kills.py [--kills 100] [--seed 1] [--workers 0]

A battery of one subject and many cases asks a loopback server that counts who asked what, and answers with the number of the
request.  The session (or, with --workers, one of its workers) is killed at a random moment and started again, until the battery
is whole.  After each kill the store is read: every record must be readable and say what the server answered.  A run that
was on disk must stay as it was; a run that the server answered and that was *reported* must be on disk.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from pytest_battery.edges.store import Problem, Store

TASK = """\
[task]
title = "Say a number"
kind = "call"
runs = 2
timeout = 60
cases = "cases.jsonl"
subjects = ["lan/m@max_tokens=5"]
prompt = { text = "CASE:{{ case.id }}" }

[scorer]
use = "matchers"
contains = "answer"

[metrics.correct]
better = "higher"
"""


class Server:
    """Counts the requests for each case, and answers after a moment."""

    def __init__(self, latency: float) -> None:
        self.asked: Counter[str] = Counter()
        self.latency, self.in_flight = latency, 0
        self._ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()
        self._ready.wait(10)

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await asyncio.Event().wait()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                length = next(int(line[15:]) for line in head.split("\r\n") if line.startswith("content-length:"))
                body = json.loads(await reader.readexactly(length))
                case = body["messages"][-1]["content"].partition("CASE:")[2]
                self.asked[case] += 1
                number = self.asked[case]
                self.in_flight += 1
                try:
                    await asyncio.sleep(self.latency * random.uniform(0.5, 1.5))
                finally:
                    self.in_flight -= 1
                message = {"message": {"content": f"answer {number} to {case}"}, "finish_reason": "stop"}
                content = json.dumps({"model": "m", "choices": [message]}).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(content)
                )
                writer.write(content)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def project(root: Path, port: int, cases: int) -> None:
    (root / "benchmarks").mkdir()
    (root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    manifest = f'[providers.lan]\napi = "openai-chat"\nbase_url = "http://127.0.0.1:{port}/v1"\nprice = 0\n'
    (root / "battery.toml").write_text(manifest, encoding="utf-8")
    (root / "benchmarks" / "numbers.toml").write_text(TASK, encoding="utf-8")
    lines = [f'{{"id": "c{number:04d}"}}\n' for number in range(cases)]
    (root / "benchmarks" / "cases.jsonl").write_text("".join(lines), encoding="utf-8")


def on_disk(root: Path) -> dict[str, bytes]:
    """Every record's bytes; raises SystemExit for one that cannot be read."""
    found = {}
    for one in Store(root / "store").walk():
        if isinstance(one, Problem):
            if one.kind == "leftover":
                continue
            sys.exit(f"the store is not readable: {one.path}: {one.what}")
        found[f"{one.record.case}-{one.record.run}"] = one.path.read_bytes()
    return found


def start(root: Path, workers: int, jobs: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pytest", "benchmarks", "-v", f"--jobs={jobs}", "-p", "no:cacheprovider"]
    command += [option for name in ("randomly", "asyncio", "html", "timeout") for option in ("-p", f"no:{name}")]
    command += ["-n", str(workers)] if workers else []
    return subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            if int(stat.rpartition(") ")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found


def _at_a_random_moment(process: subprocess.Popen[str], server: Server, chance: random.Random) -> None:
    """While it starts, one time in eight; else up to a second and a half after it has begun to ask."""
    if chance.random() < 1 / 8:
        time.sleep(chance.uniform(0.1, 0.7))
        return
    before = sum(server.asked.values())
    while sum(server.asked.values()) == before and process.poll() is None:
        time.sleep(0.01)
    time.sleep(chance.uniform(0.0, 1.5))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=8)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    server = Server(latency=0.15)
    lost = repeated = reported_lost = sessions = kills = idle = 0
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        cases = 30 * options.kills
        project(root, server.port, cases)
        before: dict[str, bytes] = {}
        asked_before: Counter[str] = Counter()
        while kills < options.kills:
            process = start(root, options.workers, options.jobs)
            sessions += 1
            _at_a_random_moment(process, server, chance)
            victims = children(process.pid) if options.workers and chance.random() < 0.5 else []
            victim = chance.choice(victims) if victims else None
            if victim is not None:
                os.kill(victim, signal.SIGKILL)
                time.sleep(0.3)
            at_work = process.poll() is None and bool(server.in_flight)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            kills += 1
            after = on_disk(root)
            idle += victim is None and not at_work
            lost += sum(after.get(key) != content for key, content in before.items())
            whole = {
                key.rpartition("-")[0]
                for key in before
                if f"{key.rpartition('-')[0]}-1" in before and f"{key.rpartition('-')[0]}-2" in before
            }
            repeated += sum(server.asked[case] > asked_before[case] for case in whole)
            for line in output.splitlines():
                if " MEASURED" in line and "::" in line:
                    case = line.partition("::")[2].partition("[")[0]
                    reported_lost += any(f"{case}-{run}" not in after for run in (1, 2))
            before, asked_before = after, Counter(server.asked)
        killed_at = len(before)
        process = start(root, options.workers, 64)
        process.communicate()
        after = on_disk(root)
        lost += sum(after.get(key) != content for key, content in before.items())
        whole_at_end = len(after) == 2 * cases
    print(
        f"{kills} kills in {sessions} sessions, {kills - idle} of them while runs were being asked; {killed_at} of {2 * cases} runs on disk at the last one\n"
    )
    print("| what | count |")
    print("| --- | ---: |")
    print(f"| finished runs lost or changed | {lost} |")
    print(f"| runs that were reported and are not on disk | {reported_lost} |")
    print(f"| cases whose runs were all on disk, and that were asked again | {repeated} |")
    print(f"| answers asked for and lost in flight, asked again | {sum(server.asked.values()) - 2 * cases} |")
    print(f"| the battery is whole at the end | {'yes' if whole_at_end else 'NO'} |")
    sys.exit(bool(lost or repeated or reported_lost or not whole_at_end))


if __name__ == "__main__":
    main()
