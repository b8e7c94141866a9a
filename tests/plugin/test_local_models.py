"""Two real models on this machine, from the task file to the table.  Weights: `battery local fetch smollm2-135m gemma3-270m`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from pytest_battery.edges.models.llama_host import LlamaHost
from pytest_battery.edges.models.weights import CATALOGUE, weights_directory
from pytest_battery.edges.sandboxes import ability

from ..store.git_repository import Repository

WEIGHTS = weights_directory()  # pytester moves the home directory

TASK = """\
[task]
title = "Two real models"
kind = "call"
runs = 1
timeout = 60
subjects = ["local/smollm2-135m@max_tokens=4,temperature=0", "local/gemma3-270m@max_tokens=4,temperature=0"]
prompt = { text = "Text: {{ case.text }}\\nCapitals:" }

[scorer]
use = "matchers"
regex = '^\\s*{{ case.text | upper }}'

[metrics.correct]
better = "higher"
"""


@pytest.fixture
def real(pytester, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")  # servers of other sessions on this machine stay out of it
    monkeypatch.setenv("PYTEST_BATTERY_WEIGHTS", str(WEIGHTS))
    monkeypatch.setenv("TMPDIR", str(pytester.path))
    words = ["red", "two", "sun", "cat"]
    cases = "".join(f'\n[[case]]\nid = "c{number}"\ntext = "{word}"\n' for number, word in enumerate(words))
    (pytester.path / "capitals.toml").write_text(TASK + cases)
    return pytester


def servers(pytester) -> list[int]:
    """Pids of the model servers that were started below the test's own directory."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"/proc/{entry.name}/cmdline", "rb") as file:
                    command = file.read()
                with open(f"/proc/{entry.name}/environ", "rb") as file:
                    environment = file.read()
            except OSError:
                continue
            if b"llama_child" in command and f"TMPDIR={pytester.path}".encode() in environment:
                found.append(int(entry.name))
    return found


def until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


QUIET = ["-p", "no:randomly", "-p", "no:asyncio", "-p", "no:cacheprovider"]


def test_two_real_models_are_measured_over_workers_by_one_server_each_and_then_cached(real):
    process = subprocess.Popen([sys.executable, "-m", "pytest", *QUIET, "-n", "4"], stdout=subprocess.PIPE, text=True)
    most = 0
    while process.poll() is None:
        most = max(most, len(servers(real)))
        time.sleep(0.05)
    text = process.communicate()[0]
    assert process.returncode == 0, text
    assert "8 passed" in text
    assert "local/gemma3-270m" in text
    assert 1 <= most <= 2
    until(lambda: not servers(real))
    again = real.runpytest_subprocess(*QUIET)
    again.assert_outcomes(skipped=8)
    assert not servers(real)


def test_kill_minus_9_of_the_session_ends_its_server(real):
    process = subprocess.Popen([sys.executable, "-m", "pytest", *QUIET, "-k", "smollm2"], stdout=subprocess.DEVNULL)
    until(lambda: servers(real) or process.poll() is not None)
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: not servers(real))


def test_the_gate_tells_a_worse_prompt_from_a_harmless_edit(real) -> None:
    """One model, eight cases: the examples taken out of the prompt is red; a space more is green."""
    words = ["green hill", "red sun", "two cats", "old book", "cold rain", "big tree", "new road", "soft bread"]
    shots = "Text: one more cup\\nCapitals: ONE MORE CUP\\nText: tall man\\nCapitals: TALL MAN\\n"
    path = real.path / "capitals.toml"
    task = TASK.replace('"local/smollm2-135m@max_tokens=4,temperature=0", ', "").replace(
        'text = "Text', f'text = "{shots}Text'
    )
    cases = "".join(f'\n[[case]]\nid = "c{number}"\ntext = "{word}"\n' for number, word in enumerate(words))
    task = task.replace("max_tokens=4", "max_tokens=8")
    path.write_text(task + cases)
    repository = Repository(real.path)
    arguments = ("-p", "no:randomly", "-p", "no:asyncio", "capitals.toml")
    assert real.runpytest_subprocess(*arguments).ret == 0
    repository.commit()
    path.write_text((task + cases).replace("Text: {{", "Text:  {{"))
    harmless = real.runpytest_subprocess(*arguments, "--against", "main", "--gate")
    assert harmless.ret == 0
    harmless.stdout.fnmatch_lines(["gate passed: *inconclusive: * of 8 shared cases differ*95%: no loss beyond*"])
    path.write_text((task + cases).replace(shots, ""))
    worse = real.runpytest_subprocess(*arguments, "--against", "main", "--gate")
    assert worse.ret == 1
    worse.stdout.fnmatch_lines(["gate failed: *established worse: correct -*"])


@pytest.mark.parametrize("stream", ["true", "false"])
def test_llama_cpps_server_is_asked_as_any_openai_compatible_provider(real, monkeypatch, stream: str) -> None:
    """The engine's own server behind ``[providers.x]``: knobs on its wire, its usage, its model's name."""
    host = LlamaHost(CATALOGUE["smollm2-135m"])
    server = host.ready()
    try:
        monkeypatch.setenv("LAN_TOKEN", server.token)
        manifest = f'[providers.lan]\napi = "openai-chat"\nbase_url = "{server.url}/v1"\nkey_env = "LAN_TOKEN"\n'
        manifest += f'dialect = "llamacpp"\nstream = {stream}\nprice = 0\n'
        (real.path / "battery.toml").write_text(manifest)
        arguments = ("-p", "no:randomly", "-p", "no:asyncio", "capitals.toml")
        model = "lan/smollm2-135m@max_tokens=4,temperature=0,top_k=5,seed=7"
        result = real.runpytest_subprocess(*arguments, "--model", model)
    finally:
        host.close()
    assert result.ret == 0
    records = [json.loads(path.read_text()) for path in sorted((real.path / "store").glob("*/*/*/*.json"))]
    assert len(records) == 4
    for record in records:
        assert record["knobs"]["observed"] == {"max_tokens": 4, "temperature": 0, "top_k": 5, "seed": 7}
        assert record["response_model"] == "smollm2-135m"
        assert 0 < record["usage"]["output"] <= 4
        assert record["usage"]["input"] + record["usage"]["cache_read"] > 0
        assert record["cost"]["usd"] == 0
        assert record["stop_reason"] in ("stop", "length")
    assert server.token.encode() not in b"".join(
        path.read_bytes() for path in (real.path / "store").rglob("*.*") if path.is_file()
    )


def test_the_built_in_agent_works_with_a_real_model(real, monkeypatch):
    """What a model of this size makes of tools is its own matter: the run is whole, its calls and what it did are kept."""
    monkeypatch.setenv("TMPDIR", "/tmp")  # pytester's own place is closed to the sandbox's user
    able = ability()
    if not able.works:
        pytest.skip(f"no sandbox here: {able.why}: {able.mend}")
    corpus = real.path / "corpus"
    corpus.mkdir()
    (corpus / "hello.txt").write_text("hello from the workspace\n")
    task = TASK.replace(
        'kind = "call"',
        'kind = "agent"\nagent = "loop"\ntools = ["read", "bash"]\nmax_turns = 3\ncorpus = { repo = "corpus" }',
    )
    task = task.replace("max_tokens=4", "max_tokens=24").replace(
        "Text: {{ case.text }}\\nCapitals:", "What does hello.txt say?"
    )
    task = task.replace(', "local/gemma3-270m@max_tokens=24,temperature=0"', "")
    (real.path / "agent.toml").write_text(task + '\n[[case]]\nid = "a"\ntext = "hello"\n')
    result = real.runpytest_subprocess("agent.toml")
    result.assert_outcomes(passed=1)
    (path,) = (real.path / "store" / "agent").glob("*/*/*.json")
    record = json.loads(path.read_bytes())
    assert record["state"] == "valid"
    assert record["turns"] >= 1
    assert record["usage"]["output"] > 0
    assert record["environment"]["agent"] == "loop 1"
    kept = path.with_suffix(".evidence")
    assert len((kept / "calls.jsonl").read_text().splitlines()) == record["turns"]
    assert (kept / "events.jsonl").read_text().count('"type": "reply"') == record["turns"]
