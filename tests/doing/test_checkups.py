"""The check-up tells what is there without asking a model or showing a key."""

from __future__ import annotations

from pathlib import Path

from pytest_battery.doing.checkups import Checkup, checkups
from pytest_battery.edges.manifest import Manifest


def found(tmp_path: Path, environ: dict[str, str], manifest: Manifest | None = None) -> dict[tuple[str, str], Checkup]:
    return {(one.about, one.name): one for one in checkups(tmp_path, manifest or Manifest(), environ)}


def test_a_key_is_told_by_the_name_of_its_variable_and_never_shown(tmp_path: Path) -> None:
    told = found(tmp_path, {"OPENAI_API_KEY": "sk-very-secret", "ANTHROPIC_API_KEY": " "})
    assert told["key", "openai"] == Checkup("key", "openai", True, "OPENAI_API_KEY is set")
    assert told["key", "anthropic"] == Checkup(
        "key", "anthropic", False, "ANTHROPIC_API_KEY is not set", "export ANTHROPIC_API_KEY=..."
    )
    assert "sk-very-secret" not in repr(told)


def test_the_manifests_providers_are_among_them(tmp_path: Path) -> None:
    table = {"api": "openai-chat", "base_url": "http://127.0.0.1:1/v1", "key_env": "LAN_KEY"}
    manifest = Manifest.model_validate({"providers": {"lan": table, "free": {**table, "key_env": None}}})
    told = found(tmp_path, {}, manifest)
    assert not told["key", "lan"].works
    assert ("key", "free") not in told


def test_whatever_does_not_work_says_what_would_mend_it(tmp_path: Path) -> None:
    told = found(tmp_path, {})
    assert told["agent", "loop"].works
    assert told["agent", "pi"].mend == "battery agents install pi"
    assert all(one.mend for one in told.values() if not one.works)
    assert not any(one.mend for one in told.values() if one.works)
    assert {about for about, _ in told} == {"sandbox", "git", "agent", "key", "weights", "extra"}
