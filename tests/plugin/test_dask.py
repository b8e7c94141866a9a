"""Runs asked by the workers of a Dask cluster: a scheduler and three workers, each a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
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
    """A scheduler and its workers; ``workers`` are their processes."""

    def __init__(self, directory: Path) -> None:
        environment = os.environ | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "10s", "PYTHONPATH": ""}
        file = directory / "scheduler.json"
        self._processes = [
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"),
                    *("--no-dashboard", "--scheduler-file", str(file)),
                ],
                cwd=directory,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        ]
        self.workers = []
        for number in range(3):
            place = directory / f"worker{number}"
            place.mkdir()
            worker = subprocess.Popen(
                [
                    *(sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file), "--no-nanny"),
                    *("--nthreads", "1", "--no-dashboard", "--local-directory", str(place), "--death-timeout", "60"),
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
            client.wait_for_workers(3, timeout=60)
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
