from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from pathlib import Path

import pytest

from pytest_battery.edges.models import weights
from pytest_battery.edges.models.weights import CATALOGUE, LocalModel, local_model, verified, weights_directory
from pytest_battery.errors import ProviderError

CONTENT = b"GGUF and so on"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalModel:
    monkeypatch.setenv("PYTEST_BATTERY_WEIGHTS", str(tmp_path / "weights"))
    (tmp_path / "weights").mkdir()
    return dataclasses.replace(local_model("smollm2-135m"), sha256=hashlib.sha256(CONTENT).hexdigest())


def test_the_catalogue_names_each_model_by_its_key_and_says_what_binds_its_user() -> None:
    assert {name: model.name for name, model in CATALOGUE.items()} == {name: name for name in CATALOGUE}
    assert local_model("smollm2-135m").terms is None
    assert "Gemma Terms of Use" in (local_model("gemma3-270m").terms or "")


def test_identity_is_plain_json_and_tells_models_apart() -> None:
    smollm2, gemma3 = (local_model(name).identity() for name in ("smollm2-135m", "gemma3-270m"))
    assert json.loads(json.dumps(smollm2)) == smollm2
    assert (smollm2["template"], smollm2["swa_full"]) == ("gguf", False)
    assert (len(gemma3["template"]), gemma3["swa_full"]) == (64, True)
    assert smollm2["slots"] == 4


def test_an_unknown_model_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ProviderError, match=r"local/gpt-9.*gemma3-270m, smollm2-135m.*battery local list"):
        local_model("gpt-9")


@pytest.mark.parametrize(
    ("chosen", "cache_home", "expected"),
    [
        ("/somewhere", "/cache", "/somewhere"),
        ("", "/cache", "/cache/pytest-battery/weights"),
        ("", "relative", "/home/me/.cache/pytest-battery/weights"),
        ("", "", "/home/me/.cache/pytest-battery/weights"),
    ],
)
def test_where_weights_lie(chosen: str, cache_home: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_BATTERY_WEIGHTS", chosen)
    monkeypatch.setenv("XDG_CACHE_HOME", cache_home)
    monkeypatch.setenv("HOME", "/home/me")
    assert weights_directory() == Path(expected)


def test_missing_weights_name_the_one_command(model: LocalModel) -> None:
    with pytest.raises(ProviderError, match="run `battery local fetch smollm2-135m` once"):
        verified(model)


def test_another_file_in_the_place_is_refused_by_name(model: LocalModel) -> None:
    model.path.write_bytes(b"something else")
    with pytest.raises(ProviderError) as caught:
        verified(model)
    for part in (str(model.path), hashlib.sha256(b"something else").hexdigest(), model.sha256, "remove it"):
        assert part in str(caught.value)


def test_the_right_file_is_hashed_once_and_again_when_it_changed(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[Path] = []
    real = weights.file_sha256

    def count(path: Path) -> str:
        hashed.append(path)
        return real(path)

    monkeypatch.setattr(weights, "file_sha256", count)
    model.path.write_bytes(CONTENT)
    assert verified(model) == verified(model) == model.path
    assert len(hashed) == 1
    model.path.write_bytes(CONTENT[::-1])
    os.utime(model.path, ns=(0, 12345))
    with pytest.raises(ProviderError, match="another file"):
        verified(model)
    assert len(hashed) == 2


@pytest.mark.parametrize("note", ["", "[]", "{}", '{"sha256": 3}', "null"])
def test_a_spoilt_note_beside_the_file_is_not_trusted(model: LocalModel, note: str) -> None:
    model.path.write_bytes(CONTENT)
    model.path.with_name(model.path.name + ".sha256.json").write_text(note)
    assert verified(model) == model.path
