"""The command `battery`."""

from __future__ import annotations

import json

import pytest


def test_why_says_what_changed_from_what_to_what_and_what_obeying_costs(project):
    project.task(cases=2)
    fresh = project.battery("why", "benchmarks/echo.toml::t01")
    assert fresh.ret == 0
    fresh.stdout.fnmatch_lines(["benchmarks/echo.toml::t01?fake/small-none?", "  run 1: measure: missing; costs a run"])
    project.run()
    kept = project.battery("why", "benchmarks/echo.toml::t01[fake/big-none]")
    kept.stdout.fnmatch_lines(["  run 1: keep: fresh (measured 20*UTC); costs nothing"])
    assert len([line for line in kept.outlines if line.startswith("benchmarks")]) == 1
    project.task(cases=2, replace={"ECHO:": "Say ECHO:"})
    stale = project.battery("why", "benchmarks/echo.toml::t01[fake/big-none]")
    stale.stdout.fnmatch_lines(
        [
            "  run 1: measure: stale: prompt changed (measured *); costs a run, $0.0000 last time",
            "    prompt: * -> *",
            "    -ECHO:w",
            "    +Say ECHO:w",
        ]
    )
    told = json.loads(project.battery("why", "benchmarks", "--json", "-k", "t02").stdout.str())
    assert [run["action"] for one in told for run in one["runs"]] == ["measure", "measure"]


def test_why_without_evidence_says_that_it_is_missing(project):
    import shutil

    project.task(cases=1)
    project.run()
    for evidence in (project.path / "store").rglob("*.evidence"):
        shutil.rmtree(evidence)
    project.task(cases=1, replace={"ECHO:": "Say ECHO:"})
    project.battery("why", "benchmarks").stdout.fnmatch_lines(["    (the evidence of what was asked then is not here)"])


def test_status_counts_runs_by_what_they_need(project):
    project.task(cases=3, runs=2)
    project.run("-k", "t01 or t02")
    told = json.loads(project.battery("status", "--json").stdout.str())
    assert told["cells"] == [
        {
            "task": "echo",
            "subject": f"fake/{model}",
            "stack": "none",
            "fresh": 4,
            "re-score": 0,
            "stale": 0,
            "invalid": 0,
            "missing": 2,
        }
        for model in ("small", "big")
    ]
    text = project.battery("status")
    text.stdout.fnmatch_lines(["*fresh*re-score*stale*invalid*missing", "echo  fake/small/none *4 *- *- *- *2"])


def test_summarise_writes_the_same_table_at_full_precision_from_disk_alone(project):
    project.task(cases=8)
    project.fake("return word if request.subject.model == 'big' else 'no'")
    project.run()
    calls = len(project.calls)
    result = project.battery("summarise")
    assert result.ret == 0
    assert len(project.calls) == calls
    summary = json.loads((project.path / "store/summary.json").read_text())
    gap = next(row["gap"] for row in summary["table"]["rows"] if row["gap"])
    assert gap["estimate"] == 1.0
    assert gap["state"] == "established"
    assert 0 < gap["p"] < 0.05
    before = (project.path / "store/summary.json").read_bytes()
    project.battery("summarise")
    assert (project.path / "store/summary.json").read_bytes() == before


@pytest.mark.parametrize("verb", ["why", "status", "summarise"])
def test_a_verb_on_what_cannot_be_used_ends_with_4_and_says_why(project, verb):
    project.task(cases=1, replace={"runs = 1": "runs = 0"})
    result = project.battery(verb, "benchmarks")
    assert result.ret == 4
    assert "task.runs" in result.stderr.str() + result.stdout.str()
    assert "Traceback" not in result.stderr.str()
    nothing = project.battery(verb, "nowhere.toml")
    assert nothing.ret == 4
    assert "nowhere.toml" in nothing.stderr.str()


def test_verbs_see_the_projects_own_options_and_workers(project):
    project.task(cases=1)
    (project.path / "pytest.ini").write_text(
        "[pytest]\naddopts = -ra -v -n 2 --color=yes -p no:asyncio\nfilterwarnings = error\n"
    )
    result = project.battery("status", "--json")
    assert result.ret == 0
    assert json.loads(result.stdout.str())["cells"][0]["missing"] == 1


def test_local_list_names_models_licences_and_how_to_get_them(project):
    told = json.loads(project.battery("local", "list", "--json").stdout.str())
    assert {row["name"] for row in told} == {"smollm2-135m", "gemma3-270m"}
    assert all(row["licence"] and row["fetch"].startswith("battery local fetch ") for row in told)


def test_terms_are_shown_and_not_agreed_to_by_silence(project, monkeypatch):
    monkeypatch.setenv("PYTEST_BATTERY_WEIGHTS", str(project.path / "none"))
    result = project.battery("local", "fetch", "gemma3-270m")
    assert result.ret == 4
    assert "Gemma Terms of Use" in result.stdout.str()
    assert "--accept-terms" in result.stderr.str()
    unknown = project.battery("local", "fetch", "gpt-9")
    assert unknown.ret == 4
    assert "gpt-9" in unknown.stderr.str()


def test_knobs_says_what_a_model_takes_and_where_that_is_known_from(project):
    result = project.battery("knobs", "anthropic/claude-haiku-4-5")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "anthropic/claude-haiku-4-5 (anthropic; claude-4.5)",
            "  temperature        a number from 0 to 1",
            "*on the wire: temperature",
            "*not with thinking-on, top_p",
            "*source: anthropic * (PyPI)*",
        ]
    )
    rows = json.loads(project.battery("knobs", "google/gemini-2.5-flash", "--json").stdout.str())
    assert all(row["source"] and row["date"] for row in rows)
    assert {"temperature", "thinking", "max_tokens"} <= {row["knob"] for row in rows}


def test_knobs_of_a_declared_provider_and_of_one_that_is_not_there(project):
    manifest = '[providers.lan]\napi = "openai-chat"\nbase_url = "http://127.0.0.1:1/v1"\ndialect = "vllm"\n'
    (project.path / "battery.toml").write_text(manifest)
    project.battery("knobs", "lan/any").stdout.fnmatch_lines(["lan/any (openai-chat, vllm; *"])
    result = project.battery("knobs", "bedrock/claude")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["bedrock: Amazon Bedrock signs its requests in another way*"])
