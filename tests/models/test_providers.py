"""The providers that are built in, and credentials that are read late and never shown."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_battery.edges.models.api_names import api
from pytest_battery.edges.models.providers import BUILT_IN, UNAVAILABLE, Credential, ProviderConfig
from pytest_battery.errors import ProviderError


def commanded(*command: str) -> Credential:
    return Credential(ProviderConfig("x", "anthropic", "http://h", key_command=command))


@pytest.mark.parametrize("name", BUILT_IN)
def test_each_provider_speaks_an_api_that_is_there(name: str) -> None:
    config = BUILT_IN[name]
    assert config.name == name
    assert api(config.api).name == config.api
    assert not config.base_url.endswith("/")


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_is_asked_without_a_key_is_on_this_machine(name: str) -> None:
    config = BUILT_IN[name]
    keyless = config.key_env is None and not config.key_command
    assert keyless == config.base_url.startswith("http://127.0.0.1:")
    if keyless:
        assert Credential(config, {}).value() is None


def test_a_provider_that_is_not_there_names_another_way() -> None:
    assert "vertex-anthropic" in UNAVAILABLE["bedrock"]
    assert not set(UNAVAILABLE) & set(BUILT_IN)


@pytest.mark.parametrize("environ", [{}, {"OPENAI_API_KEY": ""}, {"OPENAI_API_KEY": " \n"}])
def test_a_missing_key_names_its_variable(environ: dict[str, str]) -> None:
    with pytest.raises(ProviderError, match="openai: the variable OPENAI_API_KEY holds no key"):
        Credential(BUILT_IN["openai"], environ).value()


def test_a_key_is_read_when_it_is_asked_for() -> None:
    environ: dict[str, str] = {}
    credential = Credential(BUILT_IN["openai"], environ)
    assert credential.known() == {}
    environ["OPENAI_API_KEY"] = "sk-0123\n"
    assert credential.value() == "sk-0123"
    assert credential.known() == {"OPENAI_API_KEY": "sk-0123"}


@pytest.mark.parametrize("key", ["sk-abc def", "sk-abc\u2026", "sk-abc\x07", "Bearer sk-abc"])
def test_a_key_that_was_copied_badly_is_told_and_not_shown(key: str) -> None:
    with pytest.raises(ProviderError, match="the variable OPENAI_API_KEY holds something") as caught:
        Credential(BUILT_IN["openai"], {"OPENAI_API_KEY": key}).value()
    assert "sk-abc" not in str(caught.value)


def test_neither_a_config_nor_a_credential_shows_the_key() -> None:
    credential = Credential(BUILT_IN["openai"], {"OPENAI_API_KEY": "sk-0123"})
    credential.value()
    assert "sk-0123" not in f"{credential!r} {BUILT_IN['openai']!r}"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("/nonexistent",), "key_command /nonexistent cannot be run"),
        (("sh", "-c", "echo no >&2; exit 3"), "printed no token; it said: no"),
        (("sh", "-c", "echo token; exit 3"), "printed no token; it said: nothing"),
        (("true",), "printed no token; it said: nothing"),
        (("echo", "two words"), "what key_command echo 'two words' printed holds something with blanks"),
        (("printf", "\\377"), "cannot be run"),
    ],
)
def test_a_token_command_that_fails_is_told(command: Sequence[str], message: str) -> None:
    with pytest.raises(ProviderError, match=message) as caught:
        commanded(*command).value()
    assert "token;" not in str(caught.value).partition("it said")[2]


def test_a_token_command_is_asked_once_and_its_token_never_shown() -> None:
    credential = commanded("sh", "-c", "echo t-$$-abc")
    assert credential.known() == {}, "not asked before it is needed"
    first = credential.value()
    assert first is not None
    assert credential.value() == first
    assert first not in repr(credential)
    assert credential.known() == {"x token": first}


def test_a_refused_token_is_renewed_once_for_all_who_held_it(tmp_path: Path) -> None:
    log = tmp_path / "runs"
    credential = commanded("sh", "-c", f'echo x >> "{log}"; echo "token-$(wc -l < "{log}")"')
    first = credential.value()
    assert [credential.renewed(first) for _ in range(3)] == [True] * 3
    assert len(log.read_text().splitlines()) == 2
    assert credential.value() != first
    assert set(credential.known().values()) == {first, credential.value()}, "both may stand in what is written down"


def test_a_command_that_prints_the_refused_token_again_is_not_asked_for_ever(tmp_path: Path) -> None:
    log = tmp_path / "runs"
    credential = commanded("sh", "-c", f'echo x >> "{log}"; echo the-same')
    first = credential.value()
    assert [credential.renewed(first) for _ in range(3)] == [False] * 3
    assert len(log.read_text().splitlines()) == 2


def test_a_key_of_a_variable_is_not_renewed() -> None:
    credential = Credential(BUILT_IN["openai"], {"OPENAI_API_KEY": "sk-0123"})
    assert credential.renewed(credential.value()) is False


def test_a_failing_command_leaves_no_token_in_the_traceback() -> None:
    with pytest.raises(ProviderError) as caught:
        commanded("sh", "-c", "echo secret-token; exit 1").value()
    shown = "".join(traceback.format_exception(caught.value))
    assert "CalledProcessError" not in shown
    assert caught.value.__cause__ is None


# -- what answers under a name ------------------------------------------------------------------------


def lan(**more: Any) -> ProviderConfig:
    return replace(ProviderConfig("lan", "openai-chat", "https://models.example/v1"), **more)


@pytest.mark.parametrize(
    "more",
    [
        {"base_url": "https://other.example/v1"},
        {"base_url": "https://models.example/v2"},
        {"base_url": "http://127.0.0.1:8080/v1"},
        {"api": "openai-responses"},
        {"dialect": "vllm"},
        {"headers": {"x-route": "a"}},
    ],
)
def test_another_place_or_way_of_asking_is_another_provider(more: dict[str, Any]) -> None:
    assert lan(**more).identity() != lan().identity()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"base_url": "http://models.example:8443/v1/"}),
        ({}, {"key_env": "OTHER", "price": {"input": 1.0, "output": 2.0}, "max_in_flight": 3, "stream": True}),
        ({"headers": {"X-A": "1", "x-b": "2"}}, {"headers": {"x-b": "2", "x-a": "1"}}),
        ({"base_url": "http://127.0.0.1:8080/v1"}, {"base_url": "http://localhost:9090/v1"}),
    ],
)
def test_an_accident_makes_no_other_provider(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert lan(**one).identity() == lan(**other).identity()


def test_what_is_built_in_is_its_name_however_it_is_limited() -> None:
    assert BUILT_IN["openai"].identity() == replace(BUILT_IN["openai"], max_in_flight=2).identity() == {}
    assert replace(BUILT_IN["openai"], base_url="https://gateway.example/v1").identity() != {}
