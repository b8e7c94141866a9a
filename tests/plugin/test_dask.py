"""Runs asked by the workers of a Dask cluster: a scheduler and three workers, each a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ..models.http_server import Answer, Asked, PlayingServer, playing
from .conftest import Project

pytest.importorskip("distributed", reason="the extra [dask] is not installed here")

QUIET = [option for name in ("randomly", "asyncio", "timeout", "cacheprovider") for option in ("-p", f"no:{name}")]
TASK = """\
[task]
title = "Say the word"
kind = "call"
runs = 2
timeout = 30
prompt = { text = "ECHO:{{ case.word }}" }
subjects = ["lan/m@temperature=0"]

[scorer]
use = "matchers"
equals = "{{ case.word }}"

[metrics.correct]
better = "higher"
"""


class Cluster:
    """A scheduler and its workers; ``workers`` are their processes.

    *host* is where the scheduler listens, *inside* what a worker's command begins with (to run it in another network),
    *more* are options of the workers.
    """

    def __init__(
        self,
        directory: Path,
        host: str = "127.0.0.1",
        inside: Sequence[Sequence[str]] = ((), (), ()),
        more: Sequence[str] = (),
    ) -> None:
        environment = os.environ | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "10s", "PYTHONPATH": ""}
        file = directory / "scheduler.json"
        self._processes = [
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", host, "--port", "0"),
                    *("--no-dashboard", "--scheduler-file", str(file)),
                ],
                cwd=directory,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        ]
        self.workers = []
        for number, before in enumerate(inside):
            place = directory / f"worker{number}"
            place.mkdir()
            worker = subprocess.Popen(
                [
                    *(
                        *before,
                        sys.executable,
                        "-m",
                        "distributed.cli.dask_worker",
                        "--scheduler-file",
                        str(file),
                        "--no-nanny",
                    ),
                    *("--nthreads", "1", "--no-dashboard", "--local-directory", str(place), "--death-timeout", "60"),
                    *more,
                ],
                cwd=place,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            self.workers.append(worker)
            self._processes.append(worker)
        import distributed

        with distributed.Client(scheduler_file=str(file), timeout=60, set_as_default=False) as client:
            client.wait_for_workers(len(inside), timeout=60)
            self.address = client.scheduler.address

    def close(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait(10)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    found = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield found
    finally:
        found.close()


def answer(asked: Asked, delay: float = 0.0) -> Answer:
    word = asked.json["messages"][-1]["content"].partition("ECHO:")[2]
    message = {"message": {"content": word}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    return Answer(body={"model": "m-1", "choices": [message], "usage": usage}, delay=delay)


def setup(project: Project, server: PlayingServer, cases: int = 6) -> None:
    (project.path / "conftest.py").unlink()
    (project.path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    manifest = f'[providers.lan]\napi = "openai-chat"\nbase_url = "{server.url}/v1"\nprice = 0\n'
    (project.path / "battery.toml").write_text(manifest, encoding="utf-8")
    (project.path / "benchmarks").mkdir()
    text = "".join(f'\n[[case]]\nid = "t{number}"\nword = "w{number}"\n' for number in range(cases))
    (project.path / "benchmarks" / "echo.toml").write_text(TASK + text, encoding="utf-8")


def test_the_clusters_workers_ask_and_the_records_are_those_of_a_local_session(
    project: Project, cluster: Cluster
) -> None:
    with playing(answer) as server:
        setup(project, server)
        assert project.run("benchmarks", f"--on=dask={cluster.address}", process=True).ret == 0
        assert len(server.asked) == 12
        there = project.records()
        local = project.run("benchmarks", "--battery-store=local", process=True)
    assert local.ret == 0
    here = [json.loads(path.read_bytes()) for path in sorted((project.path / "local" / "echo").glob("*/*/*.json"))]
    accidents = ("measured_at", "wall_ms", "evidence", "seal", "environment")
    for one, other in zip(there, here, strict=True):
        assert {key: one[key] for key in one if key not in accidents} == {
            key: other[key] for key in other if key not in accidents
        }
    assert there[0]["knobs"]["observed"] == {"temperature": 0}
    assert project.battery("replay", "benchmarks").ret == 0


def test_a_lost_workers_run_is_not_asked_again(project: Project, cluster: Cluster) -> None:
    """Three runs are being asked when a worker is killed: its run is lost, cost unknown; the others go on."""
    with playing(lambda asked: answer(asked, delay=1.0)) as server:
        setup(project, server, cases=3)
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *QUIET, "benchmarks", f"--on=dask={cluster.address}"],
            cwd=project.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        deadline = time.monotonic() + 60
        while server.at_once < 3 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(cluster.workers[0].pid, signal.SIGKILL)
        text, _ = process.communicate(timeout=120)
        asked = len(server.asked)
    assert process.returncode == 1, text
    records = project.records()
    lost = [record for record in records if record["state"] == "invalid"]
    assert [record["error"]["class"] for record in lost] == ["lost"], text
    assert lost[0]["cost"] == {"incomplete": True, "price_date": None, "priced_by": None, "usd": None}
    assert (len(records), asked) == (6, 6)


def test_a_providers_limit_holds_over_all_workers(project: Project, cluster: Cluster) -> None:
    with playing(lambda asked: answer(asked, delay=0.2)) as server:
        setup(project, server)
        manifest = (project.path / "battery.toml").read_text(encoding="utf-8")
        (project.path / "battery.toml").write_text(f"{manifest}max_in_flight = 2\n", encoding="utf-8")
        assert project.run("benchmarks", f"--on=dask={cluster.address}", process=True).ret == 0
        assert (len(server.asked), server.most_at_once) == (12, 2)


def test_a_worker_does_no_more_at_once_than_its_resource_of_the_providers_name(
    project: Project, tmp_path: Path
) -> None:
    """One worker with eight threads that declares two of `lan`, one that declares none and so is given nothing."""
    directory = tmp_path / "cluster"
    directory.mkdir()
    found = Cluster(directory, inside=[()], more=["--nthreads", "8", "--resources", "lan=2"])
    try:
        with playing(lambda asked: answer(asked, delay=0.2)) as server:
            setup(project, server)
            assert project.run("benchmarks", f"--on=dask={found.address}", process=True).ret == 0
            assert (len(server.asked), server.most_at_once) == (12, 2)
    finally:
        found.close()


@pytest.fixture
def networks() -> Iterator[tuple[str, list[list[str]]]]:
    """An address of this machine, and commands that run in three other networks which reach it and each other."""
    if os.geteuid() or shutil.which("ip") is None:
        pytest.skip("network namespaces are made by root, with `ip` (apt-get install iproute2)")
    tag = f"{os.getpid() % 10000:04d}"
    bridge, names = f"pbb{tag}", [f"pbn{tag}-{number}" for number in range(3)]
    made: list[list[str]] = []

    def ip(*words: str) -> None:
        done = subprocess.run(["ip", *words], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"this machine makes no network namespaces: ip {' '.join(words)}: {done.stderr.strip()}")

    try:
        ip("link", "add", bridge, "type", "bridge")
        made.append(["link", "del", bridge])
        ip("addr", "add", "10.213.77.1/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for number, name in enumerate(names):
            ip("netns", "add", name)
            made.append(["netns", "del", name])
            outer, inner = f"pbo{tag}-{number}", f"pbi{tag}-{number}"
            ip("link", "add", outer, "type", "veth", "peer", "name", inner)
            ip("link", "set", inner, "netns", name)
            ip("link", "set", outer, "master", bridge, "up")
            ip("-n", name, "addr", "add", f"10.213.77.{number + 2}/24", "dev", inner)
            ip("-n", name, "link", "set", inner, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield "10.213.77.1", [["ip", "netns", "exec", name] for name in names]
    finally:
        for words in reversed(made):
            subprocess.run(["ip", *words], capture_output=True)


def test_workers_in_other_networks_ask_and_one_is_lost(
    project: Project, tmp_path: Path, networks: tuple[str, list[list[str]]]
) -> None:
    host, inside = networks
    directory = tmp_path / "cluster"
    directory.mkdir()
    found = Cluster(directory, host, inside)
    try:
        with playing(lambda asked: answer(asked, delay=0.5), host) as server:
            setup(project, server)
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *QUIET, "benchmarks", f"--on=dask={found.address}"],
                cwd=project.path,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            while server.at_once < 3 and process.poll() is None:
                time.sleep(0.01)
            os.kill(found.workers[0].pid, signal.SIGKILL)
            text, _ = process.communicate(timeout=120)
            peers = {asked.peer for asked in server.asked}
    finally:
        found.close()
    assert process.returncode == 1, text
    states = [record["state"] for record in project.records()]
    assert (states.count("valid"), states.count("invalid"), len(server.asked)) == (11, 1, 12), text
    assert peers == {"10.213.77.2", "10.213.77.3", "10.213.77.4"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--on", "ray=x"], "*--on ray=x: write dask=tcp://HOST:PORT*"),
        (["--on", "dask=nowhere"], "*--on dask=nowhere: write dask=tcp://HOST:PORT*"),
        (["--on", "dask=tcp://127.0.0.1:1"], "*fake is made in a conftest, which the cluster's workers don't have*"),
    ],
)
def test_what_a_cluster_cannot_do_is_refused(project: Project, options: list[str], message: str) -> None:
    project.task()
    result = project.run("benchmarks", *options)
    assert result.ret == 4
    result.stderr.fnmatch_lines([message])
    assert project.calls == []


def test_no_scheduler_is_told(project: Project) -> None:
    with playing(answer) as server:
        setup(project, server, cases=1)
        result = project.run("benchmarks", "--on=dask=tcp://127.0.0.1:1", process=True)
        assert server.asked == []
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*--on dask=tcp://127.0.0.1:1: no scheduler answers there*"])
