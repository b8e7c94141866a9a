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
        ("max_in_flight = 32", "max_in_fligth = 32", "6: providers.lan.max_in_fligth is not known here; did you mean 'max_in_flight'? known: api, base_url"),
        ("max_in_flight = 32", "max_in_flight = 0", "6: providers.lan.max_in_flight should be greater than or equal to 1; found an integer, 0"),
        ('"http://127.0.0.1:8080/v1"', '"127.0.0.1:8080"', "3: providers.lan.base_url is '127.0.0.1:8080'; it begins with http"),
        ('"http://127.0.0.1:8080/v1"', '"http://me:pw@h/v1"', "3: providers.lan.base_url holds credentials or a query"),
        ('"http://127.0.0.1:8080/v1"', '"http://h/v1?key=1"', "3: providers.lan.base_url holds credentials or a query"),
        ('"LAN_KEY"', '"sk-proj-abc/def+123"', "4: providers.lan.key_env is not the name of a variable"),
        ('dialect = "vllm"', 'headers = { Authorization = "x" }', "7: providers.lan.headers holds Authorization"),
        ('api = "openai-chat"\nbase_url = "http://127.0.0.1:8080/v1"', 'api = "google"\nbase_url = "http://h"', '7: providers.lan.dialect is for api = "openai-chat"'),
        ("[providers.lan]", "[providers.local]", "1: providers.local cannot be a provider's name"),
        ('subjects = ["lan/small", "lan/big"]', 'subjects = ["lan/small", "lan/small"]', "19: slice.0.subjects lists lan/small twice"),
        ('subjects = ["lan/small", "lan/big"]', 'subjects = ["lan/a@top_p=0.50", "lan/a@topP=0.5"]', "19: slice.0.subjects lists lan/a@top_p=0.5 twice"),
        ('subjects = ["lan/small", "lan/big"]', 'subjects = ["small"]', "19: slice.0.subjects.0 'small' is not a model reference"),
        ('subjects = ["lan/small", "lan/big"]', "subjects = []", "19: slice.0.subjects is empty"),
        ("runs = 5", 'stacks = ["none", "none"]', "21: slice.0.stacks lists none twice"),
        ("runs = 5", 'stacks = ["no ne"]', "21: slice.0.stacks.0 'no ne' is not an id"),
        ("runs = 5", "runs = true", "21: slice.0.runs should be an integer; found a boolean, true"),
        ("runs = 5", "prompt = 'x'", "21: slice.0.prompt is not known here; known: task, subjects, sweep"),
        ('why = "cheapest"', 'whyy = "cheapest"', "22: slice.0.production.whyy is not known here; did you mean 'why'? known: subject, stack, why"),
        ("sweep = { temperature = [0, 1] }", "sweep = { temperature = [] }", "20: slice.0.sweep temperature=: write KNOB=VALUE"),
        ("[0, 1] }", '["0,1"] }', "20: slice.0.sweep temperature has a string, '0,1', for a value"),
        ("[0, 1] }", "[[0]] }", "20: slice.0.sweep temperature has an array, [0], for a value"),
        ("[0, 1] }", "[0, 0.0] }", "20: slice.0.sweep temperature=0,0.0: a value is given twice"),
        ("{ temperature = [0, 1] }", "{ top_p = [0.5], topP = [0.6] }", "20: slice.0.sweep gives the knob top_p twice"),
        ("{ temperature = [0, 1] }", '{ thinking = ["of"] }', "20: slice.0.sweep thinking=of: the levels are"),
        ("[stacks.shipped]", "[timeout.shipped]", "timeout is not known here; known: providers, slice, stacks, lab"),
        ("[stacks.shipped]", "[prompt]", "14: prompt is not known here; known: providers, slice, stacks, lab"),
        ("[stacks.shipped]", "[slices]", "14: slices is not known here; did you mean 'slice'? known: providers"),
        ('dialect = "vllm"', "dialect = ", "7: not TOML"),
        ('"openai-chat"', '"opanai"', "2: providers.lan.api should be 'openai-chat', 'openai-responses', 'anthropic' or 'google'; found a string, 'opanai'"),
        ('"http://127.0.0.1:8080/v1"', '"http://h:99999/v1"', "3: providers.lan.base_url is 'http://h:99999/v1'; it begins with"),
        ('"http://127.0.0.1:8080/v1"', '"http:///v1"', "3: providers.lan.base_url is 'http:///v1'; it begins with"),
        ('"http://127.0.0.1:8080/v1"', '"ftp://h/v1"', "3: providers.lan.base_url is 'ftp://h/v1'; it begins with"),
        ('"http://127.0.0.1:8080/v1"', '"http://h h/v1"', "3: providers.lan.base_url is 'http://h h/v1'; it begins with"),
        ('dialect = "vllm"', "key_command = ['print-token']", "7: providers.lan.key_command and key_env are both given"),
        ('key_env = "LAN_KEY"', "key_command = []", "4: providers.lan.key_command is empty"),
        ('key_env = "LAN_KEY"', "key_command = 'print-token'", "4: providers.lan.key_command should be an array; found a string"),
        ('dialect = "vllm"', "stream = 1", "7: providers.lan.stream should be a boolean; found an integer, 1"),
        ('dialect = "vllm"', "headers = { a = 1 }", "7: providers.lan.headers.a should be a string; found an integer"),
        ("input = 0.1", 'input = "0.1"', "5: providers.lan.price.input should be a number; found a string, '0.1'"),
        ("input = 0.1", "input = true", "5: providers.lan.price.input should be a number; found a boolean, true"),
        ("input = 0.1", "input = -0.1", "5: providers.lan.price.input should be greater than or equal to 0; found a float, -0.1"),
        ("input = 0.1", "input = inf", "5: providers.lan.price.input should be a finite number"),
        ("input = 0.1, ", "", "5: providers.lan.price.input is missing"),
        ("input = 0.1", "input = 0.1, inptu = 1", "5: providers.lan.price.inptu is not known here; did you mean 'input'?"),
        ("price = 0\n", "price = 1\n", "12: providers.free.price should be a table { input, output, cache_read, cache_write }, or 0; found an integer"),
        ("price = 0\n", "price = false\n", "12: providers.free.price should be a table { input, output, cache_read, cache_write }, or 0; found a boolean"),
        ("[providers.lan]", '[providers."L A N"]', "1: providers.L A N cannot be a provider's name"),
        ('agent = "pi"', "[lab]\n[[case]]\nid = 1", "battery.toml:16: case is not known here"),
    ],
)  # fmt: skip
def test_each_fault_is_told_with_its_line(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert old in GOOD
    with pytest.raises(ManifestError) as caught:
        load_manifest(written(tmp_path, GOOD.replace(old, new, 1)))
    assert fault in str(caught.value)
    assert str(caught.value).startswith("battery.toml:")


SECRETS = {
    "a key": 'key_env = "sk-proj-abcSECRET/def+123"',
    "a key of letters and digits": 'key_env = "ghp_abcSECRETwxyz0123456789"',
    "another": 'key_env = "AIzaSyASECRETabcdefghijk"',
    "one without a vendor's sign": 'key_env = "a0b1c2d3SECRET4e5f6a7b8c9d0e1f2a"',
    "the name of a variable that is none": 'key_env = "MY SECRET KEY"',
    "a command": 'key_command = ["echo", "sk-proj-abcSECRETdef"]',
    "a command that is a text": 'key_command = "echo SECRET"',
    "Authorization": 'headers = { Authorization = "SECRET" }',
    "a header for a token": 'headers = { X-Auth-Token = "SECRET" }',
    "a cookie": 'headers = { Set-Cookie = "SECRET" }',
    "a bearer": 'headers = { x-team = "Bearer SECRET" }',
    "a header's value": 'headers = { x-team = "sk-abcdSECRETefgh" }',
    "a header that is a list": 'headers = ["SECRET"]',
    "a URL": 'base_url = "http://me:SECRET@h/v1"',
    "a URL without a scheme": 'base_url = "me:SECRET@h/v1"',
    "a URL with one slash": 'base_url = "http:/me:SECRET@h/v1"',
    "a query": 'base_url = "http://h/v1?key=SECRET"',
    "a fragment": 'base_url = "http://h/v1#SECRET"',
    "a path": 'base_url = "http://h/sk-abcdSECRETefgh/v1"',
    "a list": 'base_url = ["SECRET"]',
    "a price": 'price = "sk-abcdSECRETefgh"',
    "a dialect": 'dialect = "sk-abcdSECRETefgh"',
}


@pytest.mark.parametrize("line", SECRETS.values(), ids=SECRETS)
def test_a_credential_in_the_file_is_refused_and_not_repeated(tmp_path: Path, line: str) -> None:
    rest = "" if line.startswith("base_url") else 'base_url = "http://h/v1"\n'
    with pytest.raises(ManifestError) as caught:
        load_manifest(written(tmp_path, f'[providers.lan]\napi = "openai-chat"\n{rest}{line}\n'))
    assert len(caught.value.faults) == 1
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        'key_env = "AZURE_OPENAI_KEY_20260101"',
        'key_env = "myVeryOwnOpenAICompatibleServersKey"',
        'key_env = "sk_key"',
        'key_command = ["vault", "read", "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"]',
        'headers = { OpenAI-Organization = "org-a1B2c3D4e5F6g7H8i9J0k1L2", x-team = "basic" }',
    ],
)
def test_what_only_resembles_a_credential_is_accepted(tmp_path: Path, line: str) -> None:
    url = "https://gateway.test:8443/v1/0123456789abcdef0123456789abcdef/openai"
    manifest = load_manifest(written(tmp_path, f'[providers.lan]\napi = "openai-chat"\nbase_url = "{url}"\n{line}\n'))
    assert manifest.providers["lan"].base_url == url


def test_all_faults_come_in_one_message_by_line(tmp_path: Path) -> None:
    text = (
        GOOD.replace("max_in_flight = 32", "max_in_flight = 0")
        .replace("[providers.free]", "[providers.local]")
        .replace('base_url = "http://127.0.0.1:8080/v1"\n', "")
        .replace("runs = 5", "runs = 0")
    )
    with pytest.raises(ManifestError) as caught:
        load_manifest(written(tmp_path, text))
    assert caught.value.path == tmp_path / "battery.toml"
    assert [fault.split(" ")[:2] for fault in caught.value.faults] == [
        ["battery.toml:1:", "providers.lan.base_url"],
        ["battery.toml:5:", "providers.lan.max_in_flight"],
        ["battery.toml:8:", "providers.local"],
        ["battery.toml:20:", "slice.0.runs"],
    ]
    assert str(caught.value) == "\n".join(caught.value.faults)


TWO = """[[slice]]
task = "a"
subjects = ["lan/x"]
sweep = {{ thinking = ["off", "low"] }}

[slice.production]
subject = "lan/x"
why = '''
[[slice]]
'''

[[slice]]
task = "{task}"
subjects = ["{subject}"]
stacks = ["{stack}"]
runs = {runs}
"""


def test_the_second_slices_faults_have_its_lines(tmp_path: Path) -> None:
    text = TWO.format(task="a", subject="lan/x:low", stack="none", runs=0) + "[slice.production]\nsubject = 1\n"
    with pytest.raises(ManifestError) as caught:
        load_manifest(written(tmp_path, text))
    assert [fault.split(" ")[:2] for fault in caught.value.faults] == [
        ["battery.toml:16:", "slice.1.runs"],
        ["battery.toml:18:", "slice.1.production.subject"],
    ]


def test_another_array_of_tables_does_not_move_a_slices_lines(tmp_path: Path) -> None:
    text = "[[case]]\nid = 1\n" + TWO.format(task="b", subject="lan/x", stack="none", runs=0)
    with pytest.raises(ManifestError) as caught:
        load_manifest(written(tmp_path, text))
    assert [fault.split(" ")[:2] for fault in caught.value.faults] == [
        ["battery.toml:1:", "case"],
        ["battery.toml:18:", "slice.1.runs"],
    ]


def test_a_permutation_of_two_slices_is_an_error_though_a_sweep_makes_it(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as caught:
        load_manifest(written(tmp_path, TWO.format(task="a", subject="lan/x@thinking=low", stack="none", runs=1)))
    assert caught.value.faults == (
        "battery.toml:12: slice.1 lists a with lan/x:low under none, which the slice of line 1 lists too",
    )


@pytest.mark.parametrize(
    ("task", "subject", "stack"), [("b", "lan/x:low", "none"), ("a", "lan/x", "none"), ("a", "lan/x:low", "shipped")]
)
def test_slices_that_differ_in_task_subject_or_stack_stand_side_by_side(
    tmp_path: Path, task: str, subject: str, stack: str
) -> None:
    manifest = load_manifest(written(tmp_path, TWO.format(task=task, subject=subject, stack=stack, runs=1)))
    assert [one.task for one in manifest.slice] == ["a", task]


def test_a_sweep_gives_the_subjects_that_the_command_line_would(tmp_path: Path) -> None:
    text = """[[slice]]
task = "a"
subjects = ["lan/x", "lan/x:high@cache=true"]
sweep = { thinking = ["off", "low"], cache = [true], temperature = [0.70] }
"""
    manifest = load_manifest(written(tmp_path, text))
    assert [subject.key for subject in manifest.slice[0].swept()] == [
        "lan/x:off@cache=true,temperature=0.7",
        "lan/x:low@cache=true,temperature=0.7",
    ]
    assert manifest.slice[0].runs is None


def test_the_lab_is_not_judged(tmp_path: Path) -> None:
    manifest = load_manifest(written(tmp_path, '[lab.lens.X]\ntask = "triage"\n'))
    assert manifest.lab == {"lens": {"X": {"task": "triage"}}}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"\xef\xbb\xbf[lab]\n", "battery.toml:1: the file begins with a byte order mark"),
        ("[lab]\n".encode("utf-16"), "battery.toml:1: the file is UTF-16"),
        (b"[lab]\na = '\xff'\n", "battery.toml:2: byte 0xff is not UTF-8"),
        (b"[lab]\na = 1\na = 2\n", "battery.toml:3: not TOML"),
    ],
    ids=["BOM", "UTF-16", "not UTF-8", "given twice"],
)
def test_what_is_no_text_or_no_toml_is_told(tmp_path: Path, content: bytes, fault: str) -> None:
    (tmp_path / "battery.toml").write_bytes(content)
    with pytest.raises(ManifestError, match=fault):
        load_manifest(tmp_path)


def test_a_manifest_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "battery.toml").mkdir()
    with pytest.raises(ManifestError, match=r"battery\.toml: cannot be read: Is a directory"):
        load_manifest(tmp_path)


def test_bedrock_says_that_it_is_not_there() -> None:
    with pytest.raises(ProviderError, match="bedrock: Amazon Bedrock signs its requests in another way"):
        late_providers(Manifest())["bedrock"]()
    with pytest.raises(ProviderError, match="bedrock: Amazon Bedrock"):
        config_of(Manifest(), "bedrock")
