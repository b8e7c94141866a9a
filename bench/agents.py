"""What the sandbox and the relay cost: the same agent, run bare and as a session runs it, against one scripted model.

    battery agents install pi codex claude-code
    python bench/agents.py [--runs 5] [--agents pi,codex,claude-code]

A run is two calls and one use of a shell tool.  "Bare" is the agent as a process of its own that asks the model directly; "in the
sandbox" is a fresh sandbox, whose hidden paths were looked for, and every call through the relay, recorded.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pytest_battery.edges.agents.drivers import Launch, driver  # noqa: E402
from pytest_battery.edges.agents.installing import WHERE, installed  # noqa: E402
from pytest_battery.edges.models.providers import ProviderConfig  # noqa: E402
from pytest_battery.edges.models.relay import HttpUpstream, Relay  # noqa: E402
from pytest_battery.edges.sandboxes import Confinement, Mount, open_bubblewrap  # noqa: E402
from pytest_battery.values.subjects import parse_subject  # noqa: E402
from tests.relay.scripted import scripted  # noqa: E402


def bare(launch: Launch, name: str, place: Path) -> float:
    start = driver(name).start(launch)
    environment = {"HOME": str(place), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TMPDIR": str(place)}
    started = time.perf_counter()
    done = subprocess.run(
        start.argv,
        input=start.stdin,
        env=environment | dict(start.environment),
        cwd=place / "work",
        capture_output=True,
    )
    seconds = time.perf_counter() - started
    told = driver(name).told(launch, done.stdout, done.stderr, done.returncode, False)
    assert told.error is None, told
    return seconds


def sandboxed(launch: Launch, name: str, place: Path, base_url: str) -> float:
    subject = parse_subject("lan/battery-1@max_tokens=4096")
    config = ProviderConfig("lan", launch.api, base_url)

    async def work() -> float:
        upstream = HttpUpstream(config)
        relay = Relay(subject, upstream, agent_model=launch.model)
        start = driver(name).start(launch)
        mounts = [Mount(place / "work", "/work", writable=True), Mount(launch.agent_dir, "/agent", writable=True)]
        mounts += [Mount(host, inside) for host, inside in start.mounts]
        started = time.perf_counter()
        async with open_bubblewrap(Confinement(mounts, start.environment, [Path.home()])) as sandbox:
            done = await sandbox.run(start.argv, stdin=start.stdin, serving=relay.serving)
        seconds = time.perf_counter() - started
        told = driver(name).told(launch, done.stdout, done.stderr, done.exit_code, done.timed_out)
        assert told.error is None, told
        assert relay.summary().turns == 2
        await upstream.aclose()
        return seconds

    return anyio.run(work)


def measured(name: str, runs: int, base: str) -> tuple[list[float], list[float]]:
    here = installed(name, ROOT / WHERE)
    agent = driver(name)
    base_url = base if agent.apis[0] == "anthropic" else f"{base}/v1"
    found: tuple[list[float], list[float]] = ([], [])
    ways: list[Callable[[Launch, Path], float]] = [
        lambda launch, place: bare(
            replace(
                launch, base_url=base, inside_dir=str(launch.agent_dir), workdir=str(place / "work"),
                inside_install=str(here.root), inside_bricks=None,
            ),
            name, place,
        ),
        lambda launch, place: sandboxed(launch, name, place, base_url),
    ]  # fmt: skip
    for _ in range(runs + 1):
        for seconds, way in zip(found, ways, strict=True):
            place = Path(tempfile.mkdtemp(prefix="battery-bench-"))
            place.chmod(0o711)
            (place / "work").mkdir()
            (place / "agent").mkdir()
            (place / "work" / "hello.txt").write_text("hello from the workspace\n")
            launch = Launch(
                prompt="What does hello.txt say?", model="battery-1", api=agent.apis[0], base_url="http://127.0.0.1:8080",
                agent_dir=place / "agent", install=here.root, knobs={"max_tokens": "4096"}, retries=0,
            )  # fmt: skip
            seconds.append(way(launch, place))
            shutil.rmtree(place, ignore_errors=True)
    return found[0][1:], found[1][1:]  # the first run of each reads the agent from the disk


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--agents", default="pi,codex,claude-code")
    options = parser.parse_args()
    print("| agent | bare s | in the sandbox, through the relay s | ratio | more a run s |")
    print("| --- | --- | --- | ---: | ---: |")
    with scripted() as server:
        for name in options.agents.split(","):
            alone, inside = measured(name, options.runs, server.at("ok"))
            cells = [f"{statistics.median(some):.2f} ({min(some):.2f}-{max(some):.2f})" for some in (alone, inside)]
            ratio = statistics.median(one / other for one, other in zip(inside, alone, strict=True))
            more = statistics.median(one - other for one, other in zip(inside, alone, strict=True))
            print(f"| {name} | {cells[0]} | {cells[1]} | {ratio:.2f} x | {more:.2f} |")


if __name__ == "__main__":
    main()
