"""battery.toml: read whole, every fault in one message."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_battery.doing.providing import config_of, declared_price, late_providers
from pytest_battery.edges.manifest import Manifest, load_manifest
from pytest_battery.edges.prices import Declared
from pytest_battery.errors import ManifestError, ProviderError

GOOD = """\
[providers.lan]
api = "openai-chat"
base_url = "http://127.0.0.1:8080/v1"
key_env = "LAN_KEY"
price = { input = 0.1, output = 0.4 }
max_in_flight = 32
dialect = "vllm"

[providers.free]
api = "openai-chat"
base_url = "http://127.0.0.1:8081/v1"
price = 0

[stacks.shipped]
agent = "pi"

[[slice]]
task = "triage"
subjects = ["lan/small", "lan/big"]
sweep = { temperature = [0, 1] }
runs = 5
production = { subject = "lan/small", stack = "none", why = "cheapest" }
"""


def written(path: Path, text: str) -> Path:
    (path / "battery.toml").write_text(text, encoding="utf-8")
    return path


def test_a_manifest_is_read(tmp_path: Path) -> None:
    manifest = load_manifest(written(tmp_path, GOOD))
    assert config_of(manifest, "lan").max_in_flight == 32
    assert config_of(manifest, "lan").dialect == "vllm"
    assert declared_price(config_of(manifest, "lan")) == Declared(0.1, 0.4)
    assert declared_price(config_of(manifest, "free")) == Declared(0, 0)
    assert manifest.slice[0].runs == 5


def test_no_manifest_is_an_empty_one(tmp_path: Path) -> None:
    assert load_manifest(tmp_path) == Manifest()


def test_a_provider_of_the_manifest_goes_before_one_built_in(tmp_path: Path) -> None:
    text = '[providers.openai]\napi = "openai-responses"\nbase_url = "http://127.0.0.1/v1"\n'
    manifest = load_manifest(written(tmp_path, text))
    assert config_of(manifest, "openai").api == "openai-responses"
    assert config_of(manifest, "openai").key_env is None


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('api = "openai-chat"\nbase_url = "http://127.0.0.1:8080/v1"', 'base_url = "http://127.0.0.1:8080/v1"', "1: providers.lan.api is missing"),
        ("max_in_flight = 32", "max_in_fligth = 32", "6: providers.lan.max_in_fligth is not known here; known: api, base_url"),
        ("max_in_flight = 32", "max_in_flight = 0", "6: providers.lan.max_in_flight should be greater than or equal to 1"),
        ('"http://127.0.0.1:8080/v1"', '"127.0.0.1:8080"', "3: providers.lan.base_url is '127.0.0.1:8080'; it begins with http"),
        ('"http://127.0.0.1:8080/v1"', '"http://me:pw@h/v1"', "3: providers.lan.base_url holds credentials or a query"),
        ('"http://127.0.0.1:8080/v1"', '"http://h/v1?key=1"', "3: providers.lan.base_url holds credentials or a query"),
        ('"LAN_KEY"', '"sk-proj-abc/def+123"', "4: providers.lan.key_env is not the name of a variable"),
        ('dialect = "vllm"', 'headers = { Authorization = "x" }', "7: providers.lan.headers holds Authorization"),
        ('api = "openai-chat"\nbase_url = "http://127.0.0.1:8080/v1"', 'api = "google"\nbase_url = "http://h"', '7: providers.lan.dialect is for api = "openai-chat"'),
        ("[providers.lan]", "[providers.local]", "1: providers.local cannot be a provider's name"),
        ('subjects = ["lan/small", "lan/big"]', 'subjects = ["lan/small", "lan/small"]', "which another place lists too"),
        ('subjects = ["lan/small", "lan/big"]', 'subjects = ["small"]', "slice.0.subjects.0"),
        ("sweep = { temperature = [0, 1] }", "sweep = { temperature = [] }", "slice.0.sweep"),
        ("[stacks.shipped]", "[timeout.shipped]", "timeout is not known here; known: providers, slice, stacks, lab"),
        ('dialect = "vllm"', "dialect = ", "battery.toml:"),
    ],
)  # fmt: skip
def test_each_fault_is_told_with_its_line(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert old in GOOD
    with pytest.raises(ManifestError) as caught:
        load_manifest(written(tmp_path, GOOD.replace(old, new, 1)))
    assert fault in str(caught.value)
    assert str(caught.value).startswith("battery.toml:")


def test_a_key_that_stands_in_the_file_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as caught:
        load_manifest(written(tmp_path, GOOD.replace('"LAN_KEY"', '"sk-proj-abc/def+123"')))
    assert "sk-proj" not in str(caught.value)


def test_all_faults_come_in_one_message(tmp_path: Path) -> None:
    text = (
        GOOD.replace("max_in_flight = 32", "max_in_flight = 0")
        .replace('agent = "pi"', "")
        .replace("runs = 5", "runs = 0")
    )
    with pytest.raises(ManifestError) as caught:
        load_manifest(written(tmp_path, text))
    assert len(caught.value.faults) == 2


def test_bedrock_says_that_it_is_not_there() -> None:
    with pytest.raises(ProviderError, match="bedrock: Amazon Bedrock signs its requests in another way"):
        late_providers(Manifest())["bedrock"]()
    with pytest.raises(ProviderError, match="bedrock: Amazon Bedrock"):
        config_of(Manifest(), "bedrock")
