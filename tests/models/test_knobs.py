from __future__ import annotations

import datetime
import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

import httpx
import pytest
import tomli
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_battery.edges.models.knob_facts import ANY, Facts, FamilyFact, facts
from pytest_battery.edges.models.knobs import APIS, KnobRow, knob_rows, observed, refuse, wire_fields
from pytest_battery.errors import ProviderError
from pytest_battery.values.names import shortest_number
from pytest_battery.values.subjects import LEVELS, Subject, parse_subject

Sent = Callable[[dict[str, Any]], dict[str, Any]]

# Ids that the vendors' packages list, by the family they must land in; the first stands for the family below.
MODELS = {
    "claude-5.5": ["claude-sonnet-5-5", "claude-opus-5-5", "anthropic/claude-opus-5.5"],
    "claude-haiku-5.5": ["claude-haiku-5-5"],
    "claude-fable-5": ["claude-fable-5", "claude-fable-5-1", "claude-fable-5-2"],
    "claude-5": ["claude-opus-5", "claude-sonnet-5", "claude-opus-4-7", "claude-opus-4-8"],
    "claude-4.6": ["claude-opus-4-6", "claude-sonnet-4-6"],
    "claude-4.5": ["claude-haiku-4-5", "claude-haiku-4-5-20251001", "claude-haiku-4-5@20251001", "claude-opus-4-5"],
    "claude-sonnet-4": ["claude-sonnet-4-20250514", "claude-sonnet-4-0"],
    "claude-opus-4": ["claude-opus-4-1-20250805", "claude-opus-4-20250514", "claude-opus-4-0"],
    "other claude": ["claude-mythos-5", "claude-3-5-haiku-20241022", "claude-zephyr-7"],
    "o-series": ["o3", "o1-pro", "o4-mini-2025-04-16"],
    "gpt-5": ["gpt-5", "gpt-5-mini", "gpt-5-nano-2025-08-07", "openai/gpt-5"],
    "gpt-5-pro": ["gpt-5-pro-2025-10-06"],
    "gpt-5.1": ["gpt-5.1-2025-11-13"],
    "gpt-5.2 to 5.5": ["gpt-5.4-mini", "gpt-5.2", "gpt-5.3-codex", "gpt-5.5-2026-04-23"],
    "gpt-5.x-pro": ["gpt-5.2-pro", "gpt-5.5-pro-2026-04-23"],
    "gpt-5.3-codex-spark": ["gpt-5.3-codex-spark"],
    "gpt-5.6": ["gpt-5.6-sol"],
    "gpt-6": ["gpt-6-astra", "gpt-6.1-sol", "gpt-6.2-sol", "gpt-5.6-cyber"],
    "gpt-6 with off": ["gpt-6-sol", "gpt-6.1-terra", "gpt-daybreak-red-latest"],
    "gpt-4o-search": ["gpt-4o-mini-search-preview"],
    "gpt-4": ["gpt-4o", "gpt-4.1-nano", "gpt-3.5-turbo-0125", "gpt-5-chat-latest"],
    "other OpenAI model": ["gpt-5.1-codex", "gpt-9", "o9-mini", "chat-latest"],
    "gemini-2.5-pro": ["gemini-2.5-pro", "gemini-2.5-pro-preview-06-05"],
    "gemini-2.5-flash-lite": ["gemini-2.5-flash-lite"],
    "gemini-2.5-flash": ["gemini-2.5-flash", "gemini-2.5-flash-preview-05-20"],
    "gemini-3-flash": ["gemini-3-flash-preview", "gemini-3.5-flash-lite", "gemini-3.6-flash", "gemini-flash-latest"],
    "gemini-3.1-pro": ["gemini-3.1-pro-preview", "gemini-3.8-flash"],
    "gemini-4": ["gemini-4-argon"],
    "gemini-4 with xhigh": ["gemini-4-neon"],
    "gemma-4": ["gemma-4-31b-it"],
    "gemini-2.0-flash": ["gemini-2.0-flash-001", "gemini-2.0-flash-lite"],
    ANY: ["small", "gpt-oss-20b", "qwen/qwen3-coder:free", "gemini-2.5-flash-image"],
}


def _model(family: FamilyFact) -> str:
    return family.ids[0] if family.ids else MODELS[family.name][0]


FAMILIES = [(api, family.dialect or None, family) for family in facts().family for api in family.apis]
ROWS = [
    (row, _model(family))
    for api, dialect, family in FAMILIES
    for row in knob_rows(api, _model(family), dialect)
    if row.type != "refused"
]


def _values(row: KnobRow) -> list[str]:
    """Values of *row* that stand for all: the ends of its range, its middle, and each one that has a name."""
    if row.type == "level":
        return list(row.levels)
    if row.type == "word":
        return list(row.values)
    if row.type == "texts":
        return ["END", "5", "0.7"]
    low, high = row.minimum, row.maximum
    numbers = [*row.also, low if low is not None and not row.above_minimum else 1, high if high is not None else 1500]
    if row.type == "number":
        numbers.append(0.7)
    return list(dict.fromkeys(shortest_number(str(number)) or "" for number in numbers))


def _subject(row: KnobRow, model: str, value: str) -> Subject:
    """A subject with *value* for the knob of *row*, and what that does not go without."""
    subject = Subject(f"p/{model}").with_knob(row.knob, value)
    for needed in row.requires:
        subject = subject.with_knob(*needed.split("="))
    longest = next(other for other in knob_rows(row.api, model, row.dialect) if other.knob == "max_tokens")
    if longest.mandatory and row.knob != "max_tokens":
        subject = subject.with_knob("max_tokens", str(longest.maximum or 65536))
    return subject


def _wanted(subject: Subject) -> dict[str, str]:
    return dict(subject.knobs) | ({"thinking": subject.level} if subject.level else {})


def _texts(seen: dict[str, Any], subject: Subject) -> dict[str, str]:
    """What was seen of the knobs asked for, written as a subject writes it."""
    return {name: shortest_number(str(seen[name])) or str(seen[name]) for name in _wanted(subject) if name in seen}


def _differing(rows: list[tuple[KnobRow, str]]) -> list[tuple[KnobRow, str, str]]:
    """Each row with each of its values; rows that say the same for several families are there once."""
    found: dict[str, tuple[KnobRow, str, str]] = {}
    for row, model in rows:
        said = (
            row.api,
            row.dialect,
            row.knob,
            row.field,
            row.type,
            row.levels,
            row.minimum,
            row.maximum,
            row.alongside,
        )
        for value in _values(row):
            found.setdefault(repr((*said, row.values, row.excludes, row.requires, value)), (row, model, value))
    return list(found.values())


@pytest.fixture(scope="module")
def sent() -> Iterator[Sent]:
    """Posts a body to a server on loopback and gives back what the server received."""
    bodies: list[dict[str, Any]] = []

    class Recorder(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{server.server_port}", trust_env=False) as client:

        def send(body: dict[str, Any]) -> dict[str, Any]:
            client.post("/", json=body).raise_for_status()
            return bodies.pop()

        yield send
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(
    ("row", "model", "value"),
    [pytest.param(row, model, value, id=f"{row.where}-{row.knob}-{value}") for row, model, value in _differing(ROWS)],
)
def test_a_rows_value_arrives_on_the_wire(sent: Sent, row: KnobRow, model: str, value: str) -> None:
    subject = _subject(row, model, value)

    received = sent({"model": model, **wire_fields(row.api, subject, row.dialect)})

    assert _texts(observed(row.api, model, received, row.dialect), subject) == _wanted(subject)


@pytest.mark.parametrize(
    ("api", "subject", "dialect", "body"),
    [
        (
            "anthropic",
            "anthropic/claude-haiku-4-5:low@max_tokens=4000,stop=END",
            None,
            {"max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 2048}, "stop_sequences": ["END"]},
        ),
        (
            "anthropic",
            "anthropic/claude-opus-5:xhigh@max_tokens=9000",
            None,
            {"max_tokens": 9000, "thinking": {"type": "adaptive"}, "output_config": {"effort": "xhigh"}},
        ),
        (
            "anthropic",
            "anthropic/claude-sonnet-4-6:off@max_tokens=100,temperature=0.5,top_k=40",
            None,
            {"max_tokens": 100, "thinking": {"type": "disabled"}, "temperature": 0.5, "top_k": 40},
        ),
        (
            "openai-chat",
            "openai/gpt-5:minimal@max_tokens=500,verbosity=low,seed=7",
            None,
            {"max_completion_tokens": 500, "reasoning_effort": "minimal", "verbosity": "low", "seed": 7},
        ),
        (
            "openai-chat",
            "openai/gpt-4o@max_tokens=500,temperature=0,top_p=0.9,stop=END,presence_penalty=-0.5",
            None,
            {"max_tokens": 500, "temperature": 0, "top_p": 0.9, "stop": ["END"], "presence_penalty": -0.5},
        ),
        (
            "openai-responses",
            "openai/gpt-5.1:off@max_tokens=500,temperature=0.2,verbosity=high",
            None,
            {
                "max_output_tokens": 500,
                "reasoning": {"effort": "none"},
                "temperature": 0.2,
                "text": {"verbosity": "high"},
            },
        ),
        (
            "google",
            "google/gemini-2.5-flash@budget=4096,temperature=0.7,stop=END,top_k=40",
            None,
            {
                "generationConfig": {
                    "thinkingConfig": {"thinkingBudget": 4096},
                    "temperature": 0.7,
                    "stopSequences": ["END"],
                    "topK": 40,
                }
            },
        ),
        (
            "google",
            "google/gemini-3.8-flash:low@max_tokens=50",
            None,
            {"generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW"}, "maxOutputTokens": 50}},
        ),
        (
            "openai-chat",
            "openrouter/openai/gpt-5.1:off@min_p=0.1",
            "openrouter",
            {"reasoning": {"effort": "none"}, "min_p": 0.1, "provider": {"require_parameters": True}},
        ),
        (
            "openai-chat",
            "lan/qwen3:high@top_k=20,max_tokens=9",
            "vllm",
            {"reasoning_effort": "high", "top_k": 20, "max_completion_tokens": 9},
        ),
        (
            "openai-chat",
            "lan/qwen3@budget=64,max_tokens=9",
            "llamacpp",
            {"thinking_budget_tokens": 64, "max_tokens": 9},
        ),
        ("openai-chat", "ollama/llama3.2:3b:off@seed=3", "ollama", {"reasoning_effort": "none", "seed": 3}),
        ("openai-chat", "lan/small", None, {}),
    ],
)
def test_what_is_sent_is_what_the_vendor_documents(
    api: str, subject: str, dialect: str | None, body: dict[str, Any]
) -> None:
    assert wire_fields(api, parse_subject(subject), dialect) == body


@pytest.mark.parametrize(
    ("api", "subject", "dialect", "said"),
    [
        ("anthropic", "a/claude-haiku-4-5", None, r"demands max_tokens.*as in a/claude-haiku-4-5@max_tokens=4096"),
        (
            "anthropic",
            "a/claude-haiku-4-5:low@max_tokens=4000,temperature=0",
            None,
            "refuses temperature with thinking on",
        ),
        ("anthropic", "a/claude-haiku-4-5@budget=2000,max_tokens=4000,top_k=4", None, "refuses top_k with thinking on"),
        ("anthropic", "a/claude-haiku-4-5@max_tokens=9,temperature=0,top_p=1", None, "temperature together with top_p"),
        (
            "anthropic",
            "a/claude-haiku-4-5@budget=4000,max_tokens=4000",
            None,
            "budget must be less than max_tokens=4000",
        ),
        ("anthropic", "a/claude-haiku-4-5:high@max_tokens=4000", None, ":high is a budget of 16384 tokens"),
        ("anthropic", "a/claude-haiku-4-5:low@budget=2000,max_tokens=4000", None, "a level or budget, not both"),
        (
            "anthropic",
            "a/claude-haiku-4-5@budget=1023,max_tokens=4000",
            None,
            "a whole number from 1024 upwards, not 1023",
        ),
        ("anthropic", "a/claude-haiku-4-5@max_tokens=64001", None, "a whole number from 1 to 64000, not 64001"),
        (
            "anthropic",
            "a/claude-haiku-4-5:xhigh@max_tokens=4000",
            None,
            "no level xhigh.*choose one of off, minimal, low",
        ),
        ("anthropic", "a/claude-opus-5-5:off@max_tokens=4000", None, "no level off: always thinks"),
        ("anthropic", "a/claude-opus-5-5@budget=2000,max_tokens=4000", None, "thinking is adaptive only"),
        ("anthropic", "a/claude-opus-5:off@max_tokens=400,temperature=0", None, "refuses temperature: models after"),
        ("anthropic", "a/claude-haiku-4-5@max_tokens=400,seed=1", None, "refuses seed: the API has no field for it"),
        ("anthropic", "a/claude-zephyr-7:low@max_tokens=400", None, ":low is not known for this provider"),
        ("openai-chat", "o/gpt-5@temperature=0", None, "refuses temperature: reasoning models take no sampling"),
        ("openai-chat", "o/o3@stop=END", None, "refuses stop"),
        ("openai-chat", "o/gpt-5:off", None, "no level off: always thinks"),
        ("openai-chat", "o/gpt-5.1:minimal", None, "no level minimal"),
        ("openai-chat", "o/gpt-5.2@temperature=0", None, "temperature only with the level :off"),
        ("openai-chat", "o/gpt-5.2:low@temperature=0", None, "temperature only with the level :off"),
        ("openai-chat", "o/gpt-4o:low", None, "no level low.*choose one of off"),
        ("openai-chat", "o/gpt-4o@top_k=4", None, "refuses top_k: the API has no field for it"),
        ("openai-chat", "o/gpt-9:low", None, ":low is not known for this provider"),
        ("openai-chat", "lan/small@temperature=2.01", None, "a number from 0 to 2, not 2.01"),
        ("openai-chat", "lan/small@temperature=hot", None, "temperature must be a number from 0 to 2, not hot"),
        ("openai-chat", "lan/small@temperature=nan", None, "temperature must be a number from 0 to 2, not nan"),
        ("openai-chat", "lan/small@max_tokens=1.5", None, "a whole number from 1 upwards, not 1.5"),
        (
            "openai-chat",
            "lan/small@temperature=0.1234567890123456789",
            None,
            "more digits than a number on the wire keeps",
        ),
        (
            "openai-chat",
            "lan/small@num_ctx=32768",
            None,
            "num_ctx is not known for this provider.*known are.*temperature",
        ),
        ("openai-chat", "ollama/llama3.2:3b@num_ctx=32768", "ollama", "num_ctx is not known for this provider"),
        ("openai-chat", "ollama/llama3.2:3b@top_k=4", "ollama", "refuses top_k: the request has no such field"),
        ("openai-chat", "lan/qwen3@temperature=0.005", "vllm", "a number from 0.01 to 2, or 0, not 0.005"),
        ("openai-chat", "lan/qwen3@top_p=0", "vllm", "a number above 0, up to 1, not 0"),
        ("openai-chat", "openrouter/openai/gpt-5.1:xhigh", "openrouter", "no level xhigh"),
        ("openai-chat", "openrouter/openai/gpt-5.1:batch:minimal", "openrouter", "no level minimal"),
        ("openai-responses", "o/gpt-5@verbosity=loud", None, "verbosity must be low, medium, high, not loud"),
        ("openai-responses", "o/gpt-4o@seed=1", None, "refuses seed: the API has no field for it"),
        ("google", "g/gemini-2.5-pro:off", None, "no level off: always thinks"),
        ("google", "g/gemini-2.5-pro@budget=0", None, "from 128 to 32768, or -1, not 0"),
        ("google", "g/gemini-3.8-flash@budget=100", None, "refuses budget: models after gemini-2.5 take a level"),
        ("google", "g/gemini-3.8-flash:minimal", None, "no level minimal"),
        ("google", "g/gemini-2.0-flash:low", None, "no level low"),
        ("openai", "o/gpt-5", None, "'openai' is not an API of models; the APIs are openai-chat, "),
        ("anthropic", "a/claude-opus-5@max_tokens=9", "vllm", "'vllm' is not a dialect of anthropic"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(api: str, subject: str, dialect: str | None, said: str) -> None:
    for ask in (refuse, wire_fields):
        with pytest.raises(ProviderError, match=said):
            ask(api, parse_subject(subject), dialect)


def test_a_refusal_names_the_subject_the_source_and_its_date() -> None:
    with pytest.raises(ProviderError) as refused:
        refuse("anthropic", parse_subject("mine/claude-haiku-4-5:low@max_tokens=4000,temperature=0"))

    assert str(refused.value).startswith("mine/claude-haiku-4-5:low@max_tokens=4000,temperature=0: ")
    assert "anthropic 0.125.0 (PyPI)" in str(refused.value)
    assert "2026-12-01" in str(refused.value)
    assert str(refused.value).endswith("take temperature away, or make the level :off")


@pytest.mark.parametrize(
    ("api", "dialect", "family"), [pytest.param(*each, id=f"{each[0]}-{each[1]}-{each[2].name}") for each in FAMILIES]
)
def test_a_level_that_a_family_does_not_have_is_refused_and_never_brought_into_range(
    api: str, dialect: str | None, family: FamilyFact
) -> None:
    model = _model(family)
    rows = {row.knob: row for row in knob_rows(api, model, dialect)}
    has = rows["thinking"].levels if "thinking" in rows else {}
    given = "@max_tokens=30000" if rows["max_tokens"].mandatory else ""

    for level in set(LEVELS) - set(has):
        with pytest.raises(ProviderError, match=f"level :?{level}"):
            wire_fields(api, parse_subject(f"p/{model}:{level}{given}"), dialect)


@pytest.mark.parametrize("family", MODELS)
def test_every_model_lands_in_its_family(family: str) -> None:
    apis = next(fact.apis for fact in facts().family if fact.name == family)
    found = {row.family for api in apis for model in MODELS[family] for row in knob_rows(api, model)}

    assert found == ({family} if family != ANY else {ANY, *found} - {"gpt-4"})


def test_every_family_is_tried() -> None:
    assert {family.name for family in facts().family if not family.ids} == set(MODELS)


def test_every_row_says_where_it_is_from_and_when() -> None:
    for api, dialect, family in FAMILIES:
        for row in knob_rows(api, _model(family), dialect):
            assert re.match(r"[@\w/.-]+", row.source), row
            assert datetime.date.fromisoformat(row.date) <= datetime.date(2026, 12, 1), row
            assert row.field or row.type == "refused" or row.levels == {"off": {}}, row
            assert (row.api, row.dialect, row.family) == (api, dialect, family.name)


def test_a_source_that_nothing_cites_is_not_there() -> None:
    cited = {name for fact in (*facts().dialect, *facts().family, *facts().row) for name in fact.source}

    assert set(facts().sources) == cited


def test_every_knob_is_honoured_or_refused_with_a_reason_by_each_api_for_any_model() -> None:
    everywhere = {"max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "stop", "budget", "verbosity"}
    everywhere |= {"presence_penalty", "frequency_penalty"}

    for dialect in (None, "openrouter", "ollama", "vllm", "llamacpp"):
        assert everywhere - {row.knob for row in knob_rows("openai-chat", "any", dialect)} <= {"verbosity"}
    assert everywhere <= {row.knob for row in knob_rows("anthropic", "any")}
    assert everywhere - {row.knob for row in knob_rows("openai-responses", "any")} <= {"verbosity"}
    assert everywhere - {row.knob for row in knob_rows("google", "any")} <= {"budget"}


@st.composite
def _asked(draw: st.DrawFn) -> tuple[str, str | None, Subject]:
    """A model with some of its knobs, of which each value is allowed on its own."""
    api, dialect, family = draw(st.sampled_from(FAMILIES))
    rows = [row for row in knob_rows(api, _model(family), dialect) if row.type != "refused"]
    subject = Subject(f"p/{_model(family)}")
    for row in draw(st.lists(st.sampled_from(rows), unique_by=lambda row: row.knob, max_size=5)):
        low = -1e6 if row.minimum is None else row.minimum
        high = max(low, 1e6) if row.maximum is None else row.maximum
        match row.type:
            case "whole":
                value = str(draw(st.integers(int(low), int(high)) | st.sampled_from(row.also or (int(low),))))
            case "number":
                value = repr(draw(st.floats(low, high, exclude_min=row.above_minimum)))
            case "texts":
                value = draw(st.from_regex(r"[A-Za-z0-9_.+:-]{1,12}", fullmatch=True))
            case _:
                value = draw(st.sampled_from(_values(row)))
        subject = subject.with_knob(row.knob, value)
    longest = next(row for row in rows if row.knob == "max_tokens")
    if longest.mandatory:
        subject = subject.with_knob("max_tokens", "30000")
    return api, dialect, subject


def _fault(api: str, subject: Subject, dialect: str | None) -> str | None:
    try:
        refuse(api, subject, dialect)
    except ProviderError as error:
        return str(error)
    return None


@settings(derandomize=True, max_examples=400, deadline=None)
@given(_asked())
def test_what_is_not_refused_is_seen_on_the_wire_as_asked(asked: tuple[str, str | None, Subject]) -> None:
    api, dialect, subject = asked
    if (fault := _fault(api, subject, dialect)) is not None:
        assert re.search("together with|with thinking on|only with|not both|less than|more digits", fault)
        return

    body = wire_fields(api, subject, dialect)
    seen = observed(api, subject.model, json.loads(json.dumps(body)), dialect)

    assert _texts(seen, subject) == _wanted(subject)
    assert set(seen) - set(_wanted(subject)) <= {"thinking", "budget"}


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.sampled_from([each for each in ROWS if each[0].maximum is not None]), st.floats(0.01, 1e9))
def test_a_value_above_the_range_is_refused(row_and_model: tuple[KnobRow, str], over: float) -> None:
    row, model = row_and_model
    assert row.maximum is not None
    value = row.maximum + (int(over) + 1 if row.type == "whole" else over)

    with pytest.raises(ProviderError, match=f"{row.knob} must be a"):
        wire_fields(row.api, _subject(row, model, str(value)), row.dialect)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.sampled_from([each for each in ROWS if each[0].minimum is not None]), st.integers(2, 10**9))
def test_a_value_below_the_range_is_refused(row_and_model: tuple[KnobRow, str], under: int) -> None:
    row, model = row_and_model
    assert row.minimum is not None

    with pytest.raises(ProviderError, match=f"{row.knob} must be a"):
        wire_fields(row.api, _subject(row, model, str(row.minimum - under)), row.dialect)


def test_a_whole_number_is_sent_without_a_fraction() -> None:
    body = wire_fields("openai-chat", parse_subject("lan/small@temperature=1"))

    assert json.dumps(body) == '{"temperature": 1}'


def test_off_needs_no_field_where_a_model_never_thinks_and_is_disproved_by_one() -> None:
    subject = parse_subject("openai/gpt-4o:off")

    assert wire_fields("openai-chat", subject) == {}
    assert observed("openai-chat", "gpt-4o", {"messages": []})["thinking"] == "off"
    assert "thinking" not in observed("openai-chat", "gpt-4o", {"reasoning_effort": "low"})
    assert "thinking" not in observed("openai-chat", "gpt-4o", {"thinking_budget_tokens": 100})


@pytest.mark.parametrize(
    ("api", "model", "body"),
    [
        ("anthropic", "claude-opus-5", {"thinking": {"type": "adaptive"}}),
        ("anthropic", "claude-opus-5", {"output_config": {"effort": "low"}}),
        ("anthropic", "claude-haiku-4-5", {"thinking": {"type": "enabled", "budget_tokens": 5000}}),
        ("anthropic", "claude-opus-5", {"thinking": {"type": "disabled"}, "output_config": {"effort": "low"}}),
        ("google", "gemini-3.8-flash", {"generationConfig": {"thinkingConfig": {"thinkingLevel": "MINIMAL"}}}),
        ("openai-responses", "gpt-5", {"reasoning": "low"}),
        ("openai-chat", "small", {}),
    ],
)
def test_what_amounts_to_no_level_is_not_seen_as_one(api: str, model: str, body: dict[str, Any]) -> None:
    assert "thinking" not in observed(api, model, body)


@pytest.mark.parametrize(
    "body",
    [
        {"temperature": "0.7"},
        {"temperature": True},
        {"temperature": None},
        {"max_completion_tokens": 5},
        {"options": {"temperature": 0.7}},
        {"stop": ["a", "b"]},
        {"stop": [1]},
    ],
)
def test_a_knob_of_another_type_or_elsewhere_is_not_seen(body: dict[str, Any]) -> None:
    assert observed("openai-chat", "small", body) == {}


def test_a_knob_that_openrouter_may_drop_is_not_seen() -> None:
    body = wire_fields("openai-chat", parse_subject("openrouter/openai/gpt-5.1:low@top_k=4"), "openrouter")
    del body["provider"]

    assert observed("openai-chat", "openai/gpt-5.1", body, "openrouter") == {}


def test_a_budget_counts_only_where_thinking_is_enabled() -> None:
    body = {"thinking": {"type": "disabled", "budget_tokens": 2048}}

    assert observed("anthropic", "claude-haiku-4-5", body) == {}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda table: table["row"][0].update(source=["hearsay"]), "no such source: hearsay"),
        (lambda table: table["row"][0].pop("source"), "Field required"),
        (lambda table: table["row"][0].update(source=[]), "at least 1 item"),
        (lambda table: table["sources"]["anthropic"].pop("date"), "date"),
        (lambda table: table["row"][0].update(exludes=["seed"]), "exludes"),
        (lambda table: table["row"].append(table["row"][0]), "there are two rows"),
        (lambda table: table["row"][0].update(families=["claude-99"]), "no family claude-99"),
        (lambda table: table["row"][0]["levels"].update(huge={}), "'huge' is not a level"),
        (lambda table: table["row"][0].update(levels={}), "levels are for the type level"),
        (lambda table: table["family"].append(table["family"][0]), "the last family"),
        (lambda table: table["family"][0].update(dialect="vllm"), "vllm is no dialect of anthropic"),
    ],
)
def test_a_mistake_in_the_table_is_named(change: Callable[[dict[str, Any]], None], said: str) -> None:
    table = tomli.loads(files("pytest_battery.edges.models").joinpath("knobs.toml").read_text(encoding="utf-8"))
    assert Facts.model_validate(table) == facts()
    change(table)

    with pytest.raises(ValidationError, match=said):
        Facts.model_validate(table)


def test_the_four_apis_are_there() -> None:
    assert APIS == ("openai-chat", "openai-responses", "anthropic", "google")
