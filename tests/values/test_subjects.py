"""Subjects: the grammar, the canonical key, and the names made from it."""

from __future__ import annotations

import re

import pytest
from _pytest.mark.expression import Expression
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_battery.errors import SubjectError
from pytest_battery.values.subjects import LEVELS, Subject, parse_subject

NAME = "abcxyzABCXYZ0189_.-"
providers = st.text(NAME, min_size=1, max_size=8).filter(lambda text: text[0].isalnum())
models = st.text(NAME + ":@/+~", min_size=1, max_size=30)
levels = st.none() | st.sampled_from(LEVELS)
knob_names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True) | st.sampled_from(
    ["thinking", "temperature", "max_tokens"]
)
numbers = st.one_of(
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.from_regex(r"[+-]?[0-9]{1,4}(\.[0-9]{0,3})?([eE][+-]?[0-9]{1,2})?", fullmatch=True),
)
knob_values = st.text(NAME + ":+", min_size=1, max_size=12) | numbers | st.sampled_from(LEVELS)


@st.composite
def subjects(draw: st.DrawFn) -> Subject:
    """Whatever `Subject` accepts, also what nobody would write."""
    knobs = draw(st.dictionaries(knob_names, knob_values, max_size=4))
    ref = f"{draw(providers)}/{draw(models)}"
    try:
        return Subject(ref, draw(levels), tuple(sorted(knobs.items())))
    except SubjectError:
        plain = {name: "1" for name in knobs if name != "thinking"}
        assume(ref.rpartition(":")[2] not in LEVELS)
        return Subject(ref, draw(levels), tuple(sorted(plain.items())))


@st.composite
def written(draw: st.DrawFn) -> tuple[str, list[tuple[str, str]], str]:
    """A reference, its knobs, and the level as it is written after the reference."""
    ref = f"{draw(providers)}/{draw(models)}"
    assume(ref.rpartition(":")[2] not in LEVELS)
    names = draw(st.lists(knob_names.filter(lambda name: name != "thinking"), unique=True, min_size=2, max_size=4))
    level = draw(levels)
    return ref, [(name, draw(numbers)) for name in names], f":{level}" if level else ""


@pytest.mark.parametrize(
    "text",
    [
        "anthropic/claude-haiku-4-5",
        "openrouter/qwen/qwen3-coder:free",
        "ollama/llama3.2:3b",
        "vertex_ai/claude-haiku-4-5@20251001",
        "bedrock/us.anthropic.claude-3-5-sonnet-20241022-v2:0",
        "local/low",
        "local/m:lowest",
    ],
)
def test_a_model_reference_may_hold_colons_and_at_signs(text: str) -> None:
    subject = parse_subject(text)
    assert (subject.ref, subject.level, subject.knobs) == (text, None, ())
    assert subject.provider + "/" + subject.model == text


@pytest.mark.parametrize(
    ("text", "ref", "level", "knobs"),
    [
        ("local/m:low", "local/m", "low", {}),
        ("ollama/llama3.2:3b:off", "ollama/llama3.2:3b", "off", {}),
        (
            "vertex_ai/claude-haiku-4-5@20251001:high@temperature=0",
            "vertex_ai/claude-haiku-4-5@20251001",
            "high",
            {"temperature": "0"},
        ),
        (
            "anthropic/claude-haiku-4-5:low@max_tokens=4000",
            "anthropic/claude-haiku-4-5",
            "low",
            {"max_tokens": "4000"},
        ),
        ("local/m@20251001@top_p=1", "local/m@20251001", None, {"top_p": "1"}),
        ("local/m@maxTokens=5,topP=0.70", "local/m", None, {"max_tokens": "5", "top_p": "0.7"}),
        ("  local/m@a=x  ", "local/m", None, {"a": "x"}),
        ("local/m@stop=a:b+c-d", "local/m", None, {"stop": "a:b+c-d"}),
    ],
)
def test_a_subject_is_read_from_the_right(text: str, ref: str, level: str | None, knobs: dict[str, str]) -> None:
    subject = parse_subject(text)
    assert (subject.ref, subject.level, dict(subject.knobs)) == (ref, level, knobs)


def test_thinking_is_the_level_however_it_is_written() -> None:
    assert parse_subject("local/m@thinking=low,a=1") == parse_subject("local/m:low@a=1")
    assert parse_subject("local/m:off").with_knob("thinking", "high").key == "local/m:high"


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("temperature=0.70", "temperature=0.7"),
        ("seed=1e3", "seed=1000"),
        ("a=-0", "a=0"),
        ("a=+5", "a=5"),
        ("a=.5", "a=0.5"),
        ("a=5.", "a=5"),
        ("a=007", "a=7"),
        ("a=1e30", "a=1e30"),
        ("a=1.50E-30", "a=1.5e-30"),
        ("a=1e2000", "a=1e2000"),
        ("a=1.2.3", "a=1.2.3"),
        ("a=true", "a=true"),
    ],
)
def test_knobs_are_written_in_their_shortest_form(written: str, key: str) -> None:
    assert parse_subject(f"local/m@{written}").key == f"local/m@{key}"


def test_absent_knobs_are_not_in_the_key_and_zero_is_not_absent() -> None:
    assert parse_subject("local/m").key == "local/m"
    assert parse_subject("local/m@temperature=0").key == "local/m@temperature=0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a model reference: write PROVIDER/MODEL, as in local/smollm2-135m"),
        ("smollm2", "'smollm2' is not a model reference: write PROVIDER/MODEL"),
        ("/m", "'/m' is not a model reference"),
        ("local/", "'local/' is not a model reference"),
        ("local/m m", "'local/m m' is not a model reference"),
        ("local/m\u00e4", "is not a model reference"),
        (".local/m", "'.local/m' is not a model reference"),
        ("local/m:low:high", "'local/m:low:high' gives the level twice: as :low and as :high"),
        ("local/m:low@thinking=high", "gives the level twice: as :low and as thinking=high"),
        ("local/m@thinking=much", "thinking=much: the levels are off, minimal, low, medium, high, xhigh, max"),
        ("local/m@thinking=1", "thinking=1: the levels are off"),
        ("local/m@a=1,a=2", "'local/m@a=1,a=2' gives the knob a twice"),
        ("local/m@maxTokens=1,max_tokens=1", "gives the knob max_tokens twice"),
        ("local/m@a=", "a=: a value is written with letters, digits and . _ + : - only"),
        ("local/m@a=b c", "a=b c: a value is written with letters, digits"),
        ("local/m@a=\u0663", "a value is written with letters, digits"),
        ("local/m@a=1@b=2", "knobs are written @NAME=VALUE,NAME=VALUE after the model"),
        ("local/m@a=1, b=2", "knobs are written @NAME=VALUE,NAME=VALUE after the model"),
        ("local/m@a=1,b", "knobs are written @NAME=VALUE,NAME=VALUE after the model"),
        ("local/m@=1", "knobs are written @NAME=VALUE,NAME=VALUE after the model"),
        ("local/m@Max=1", "'Max' is not the name of a knob: use snake_case, as in max_tokens"),
        ("local/m@maxHTTP=1", "'max_hTTP' is not the name of a knob"),
    ],
)
def test_a_subject_that_cannot_be_read_is_told_why(text: str, message: str) -> None:
    with pytest.raises(SubjectError) as caught:
        parse_subject(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("ref", "level", "knobs", "message"),
    [
        ("local/m:low", None, (), "'local/m:low' ends in a level: pass it as the level"),
        ("local/m", "much", (), "'much' is not a level; the levels are off, minimal"),
        ("local/m", None, (("b", "1"), ("a", "1")), "knobs of local/m must be sorted and given once each, not b, a"),
        ("local/m", None, (("a", "1"), ("a", "2")), "must be sorted and given once each, not a, a"),
        ("local/m", None, (("a", "0.70"),), "a=0.70: write the number as 0.7"),
        ("local/m", None, (("thinking", "low"),), "thinking=low is the level of local/m: pass it as the level"),
        ("local/m\n", None, (), "is not a model reference"),
    ],
)
def test_no_subject_exists_that_could_not_have_been_read(
    ref: str, level: str | None, knobs: tuple[tuple[str, str], ...], message: str
) -> None:
    with pytest.raises(SubjectError) as caught:
        Subject(ref, level, knobs)
    assert message in str(caught.value)


@given(subjects())
def test_the_key_of_a_subject_reads_back_as_that_subject(subject: Subject) -> None:
    assert parse_subject(subject.key) == subject
    assert str(subject) == subject.key


@given(written(), st.randoms())
def test_the_key_does_not_depend_on_the_order_of_knobs(
    given_text: tuple[str, list[tuple[str, str]], str], random: object
) -> None:
    ref, knobs, level = given_text
    shuffled = list(knobs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, two = (
        parse_subject(f"{ref}{level}@{','.join(f'{name}={value}' for name, value in order)}")
        for order in (knobs, shuffled)
    )
    assert one.key == two.key
    assert one == two
    assert len(one.knobs) == len(knobs)


@given(subjects())
def test_an_id_can_be_selected_with_k(subject: Subject) -> None:
    assert not set("=@~") & set(subject.id)
    assert Expression.compile(subject.id).evaluate(lambda name, **_: name == subject.id)


@given(subjects())
def test_an_id_names_every_knob_and_its_value(subject: Subject) -> None:
    assert all(f"+{name}:{value}" in subject.id for name, value in subject.knobs)


@given(subjects())
def test_a_directory_is_one_short_path_component(subject: Subject) -> None:
    assert len(subject.directory.encode()) <= 200
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.~+=-]*", subject.directory)


def test_a_directory_spells_the_key() -> None:
    subject = parse_subject("anthropic/claude-haiku-4-5:low@max_tokens=4000,temperature=0")
    assert subject.directory == "anthropic--claude-haiku-4-5~low__max_tokens=4000+temperature=0"


def test_long_keys_with_one_beginning_have_directories_of_their_own() -> None:
    one, two = (parse_subject(f"local/{'m' * 300}@seed={seed}") for seed in (1, 2))
    assert len(one.directory) == len(two.directory) == 200
    assert one.directory != two.directory
    assert one.directory[:191] == two.directory[:191]
    assert parse_subject(f"local/{'m' * 193}").directory == f"local--{'m' * 193}"


def test_a_knob_is_looked_up_by_name() -> None:
    subject = parse_subject("local/m@a=1")
    assert subject.knob("a") == "1"
    assert subject.knob("b") is None
