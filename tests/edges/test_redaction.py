"""No credential reaches the disk."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_battery.edges.redaction import PLAIN, SHORTEST, Secrets, secrets_of

KEY = 'sk-live/abc+DEF=12 3"q'
SECRETS = Secrets({"MY_KEY": KEY})

FORMS = {
    "as it is": KEY,
    "quoted": quote(KEY, safe=""),
    "quoted but for slashes": quote(KEY),
    "quoted in small letters": quote(KEY, safe="").replace("%2F", "%2f").replace("%2B", "%2b").replace("%3D", "%3d"),
    "of a form": quote_plus(KEY),
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64 for URLs": base64.urlsafe_b64encode(KEY.encode()).decode(),
    "base64 after a name": base64.b64encode(f"me:{KEY}".encode()).decode(),
    "base64 after another name": base64.b64encode(f"user:{KEY}".encode()).decode(),
    "base64 with a line end": base64.b64encode(f"{KEY}\n".encode()).decode(),
    "JSON": json.dumps(KEY)[1:-1],
}

texts = st.text(max_size=8) | st.builds("{}{}{}".format, st.text(max_size=5), st.sampled_from([*FORMS.values()]), st.text(max_size=5))  # fmt: skip
plain = st.recursive(
    texts | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | st.just("headers"), inner, max_size=3),
    max_leaves=10,
)
values = st.text(min_size=SHORTEST, max_size=40)


def as_written(value: Any) -> bytes:
    """As records are: a lone surrogate has no UTF-8, and is written as JSON spells it."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


@given(plain)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_no_secret_remains_anywhere(value: Any) -> None:
    clean = SECRETS.plain(value)
    assert SECRETS.holds(as_written(clean)) is None
    assert KEY not in json.dumps(clean, ensure_ascii=False).replace('\\"', '"')
    assert SECRETS.plain(clean) == clean


@given(plain)
@example({"headers": {"Authorization": "x"}})
@example({"headers": [["\u212aey", "x"], ["api-\u212aey", "y"]]})
@example(["http://h/?\u212aey=abc&sig=1"])
@example([f'x"{KEY}', "\ud800"])
@settings(max_examples=300, deadline=None, derandomize=True)
def test_what_may_not_change_does_not(value: Any) -> None:
    clean = SECRETS.plain(value)
    assert SECRETS.may_change(as_written(value)) or clean == json.loads(json.dumps(value))


def test_most_evidence_is_not_gone_through() -> None:
    assert not SECRETS.may_change(
        as_written({"headers": {"content-type": "x"}, "text": "a=b, c == d", "url": "http://h/v1"})
    )
    assert SECRETS.may_change(as_written({"url": "http://h/v1?key=abc"}))
    assert SECRETS.may_change(as_written({"headers": {"Cookie": "abc"}}))


@given(values, values, st.text(max_size=10))
@example("redacted1", "sk-12345678", "")
@example("[redacted:A]", "sk-12345678", "")
@example("A_KEY]1234", "sk-12345678", "")
@example("abc\udcff1234", "caf\u00e9\u00e8\u00ea\u00eb12", "\ud800")
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_secrets_go_and_stay_away(first: str, second: str, around: str) -> None:
    secrets = Secrets({"A": first, "B": second})
    clean = secrets.plain({around + first: around + second + around, "x": [first + second, second + first]})
    assert secrets.holds(as_written(clean)) is None
    assert secrets.plain(clean) == clean


@given(st.text(st.characters(blacklist_characters="=?&"), max_size=50))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_other_texts_are_left_alone(text: str) -> None:
    assert SECRETS.text(text) == text
    assert SECRETS.plain({text: [text, {text: None}]}) == {text: [text, {text: None}]}
    assert SECRETS.holds(text.encode("utf-8", "surrogatepass")) is None


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_each_form_is_found(form: str) -> None:
    assert "[redacted:MY_KEY]" in SECRETS.text(f"before {form} after")
    assert SECRETS.holds(f"x {form} y".encode()) == "MY_KEY"


def test_a_secret_that_json_escaped_is_seen_before_a_write() -> None:
    assert SECRETS.holds(json.dumps({"a": KEY}).encode()) == "MY_KEY"
    odd = Secrets({"ODD_KEY": "p\u00e4ss\u00f6word-1"})
    assert odd.holds(json.dumps("p\u00e4ss\u00f6word-1").encode()) == "ODD_KEY"
    assert odd.holds("p\u00e4ss\u00f6word-1".encode()) == "ODD_KEY"


def test_a_secret_that_is_not_utf_8_is_taken_out() -> None:
    secrets = secrets_of({"ODD_KEY": "abc\udcff1234"}, {})
    assert secrets.text("x abc\udcff1234 y") == "x [redacted:ODD_KEY] y"
    assert secrets.holds(as_written("abc\udcff1234")) == "ODD_KEY"


def test_of_two_secrets_the_longer_one_goes_whole() -> None:
    secrets = Secrets({"SHORT_KEY": "sk-12345678", "LONG_KEY": "sk-12345678-abcdef"})
    assert secrets.text("sk-12345678-abcdef sk-12345678-abc") == "[redacted:LONG_KEY] [redacted:SHORT_KEY]-abc"


def test_a_secret_that_another_ones_replacement_completes_goes_too() -> None:
    secrets = Secrets({"A": "sk-12345678", "B": "]tok-98765"})
    assert secrets.text("sk-12345678tok-98765") == "[redacted:A[redacted:B]"


@pytest.mark.parametrize("name", ["Authorization", "X-API-KEY", "x-goog-api-key", "Set-Cookie", "cookie"])
def test_headers_that_carry_credentials_are_blanked_by_name(name: str) -> None:
    found, expected = {name: "anything", "date": "now"}, {name: "[redacted]", "date": "now"}
    assert Secrets({}).plain(found, header=True) == expected
    assert Secrets({}).plain({"calls": [{"Headers": found, "n": 1}]}) == {"calls": [{"Headers": expected, "n": 1}]}
    pairs = {"request_headers": [[name, "anything"], ["date", "now"]]}
    assert Secrets({}).plain(pairs) == {"request_headers": [[name, "[redacted]"], ["date", "now"]]}


def test_what_is_called_like_a_header_elsewhere_is_kept() -> None:
    steps = {"cookie": "Bake for ten minutes.", "authorization": {"granted": True}}
    assert SECRETS.plain(steps) == steps


def test_keys_that_were_different_stay_different() -> None:
    found = SECRETS.plain({KEY: 1, quote(KEY, safe=""): 2, "other": 3})
    assert found == {"[redacted:MY_KEY]": 1, "[redacted:MY_KEY]#2": 2, "other": 3}


@pytest.mark.parametrize("name", ["key", "api_key", "access_token", "TOKEN"])
def test_credentials_in_a_query_are_blanked(name: str) -> None:
    assert Secrets({}).text(f"http://h/p?a=1&{name}=abc#x") == f"http://h/p?a=1&{name}=[redacted]#x"


def test_nothing_of_a_secret_is_left_behind_in_a_query() -> None:
    secrets = Secrets({"a token": "abc&def-1234"})
    assert secrets.text("http://h/p?key=abc&def-1234&b=2") == "http://h/p?key=[redacted]&b=2"


@pytest.mark.parametrize(
    "value",
    ["test", "none", "aaaaaaaaaaaa", "12121212", "", "temperature", "not-needed", "no-key-required", "LM STUDIO X", "max_tokens", "16384097"],
)  # fmt: skip
def test_a_common_value_does_not_shred_the_store(value: str) -> None:
    secrets = Secrets({"A_KEY": value})
    assert secrets.text(f"a {value} b") == f"a {value} b"
    assert secrets.plain({value: 1}) == {value: 1}
    assert secrets.holds(f"a {value} b".encode()) is None


@pytest.mark.parametrize(
    "value", ["a1b2c3d4", "Passwort", "pass.word!", "abcdefghij" * 2, "12345678901234567890", "p\u00e4ssword"]
)
def test_what_is_not_plain_or_is_long_is_a_secret(value: str) -> None:
    assert len(value) <= PLAIN + 1
    assert Secrets({"A_KEY": value}).text(f"a {value} b") == "a [redacted:A_KEY] b"


def test_the_environments_names_give_secrets_away() -> None:
    environ = {
        "OPENAI_API_KEY": "sk-1234567",
        "GH_TOKEN": "ghp_abc123\n",
        "DB_PASSWORD": "hunter2-hunter",
        "APP_SECRET": "s3cr3t-value",
        "PATH": "/usr/bin:/bin",
        "KEYBOARD": "qwertz-layout-1",
    }
    secrets = secrets_of(environ, {"lan token": " tok-98765\n"})
    assert secrets.text(
        "sk-1234567 ghp_abc123 hunter2-hunter s3cr3t-value tok-98765 /usr/bin:/bin qwertz-layout-1"
    ) == (
        "[redacted:OPENAI_API_KEY] [redacted:GH_TOKEN] [redacted:DB_PASSWORD] [redacted:APP_SECRET] "
        "[redacted:lan token] /usr/bin:/bin qwertz-layout-1"
    )
    assert "sk-1" not in repr(secrets)
    assert repr(secrets) == "<5 secrets>"


def test_bytes_that_are_no_text_lose_their_secrets_and_nothing_else() -> None:
    content = b"\xff\x00" + KEY.encode() + b"\xfe = 1"
    assert SECRETS.taken_from(content) == b"\xff\x00[redacted:MY_KEY]\xfe = 1"
    assert SECRETS.taken_from(b"\xff = \xfe\r\n") == b"\xff = \xfe\r\n"
