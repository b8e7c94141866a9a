"""No credential reaches the disk."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_battery.edges.redaction import Secrets, secrets_of

KEY = 'sk-live/abc+DEF=123"q'
SECRETS = Secrets({"MY_KEY": KEY})

plain = st.recursive(
    st.text(max_size=8) | st.just(KEY) | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.just(KEY), inner, max_size=3),
    max_leaves=10,
)


@given(plain)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_no_secret_remains_anywhere(value: Any) -> None:
    clean = SECRETS.plain(value)
    content = json.dumps(clean, ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert SECRETS.holds(content) is None
    assert SECRETS.plain(clean) == clean


@given(st.text(st.characters(blacklist_characters="=?&"), max_size=50))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_other_texts_are_left_alone(text: str) -> None:
    assert SECRETS.text(text) == text


@pytest.mark.parametrize(
    "form",
    [
        KEY,
        quote(KEY, safe=""),
        base64.b64encode(KEY.encode()).decode(),
        base64.urlsafe_b64encode(KEY.encode()).decode(),
        json.dumps(KEY)[1:-1],
    ],
    ids=["as it is", "quoted", "base64", "for URLs", "JSON"],
)
def test_each_form_is_found(form: str) -> None:
    assert "[redacted:MY_KEY]" in SECRETS.text(f"before {form} after")
    assert SECRETS.holds(f"x{form}y".encode()) == "MY_KEY"


@pytest.mark.parametrize("name", ["Authorization", "X-API-KEY", "x-goog-api-key", "Set-Cookie", "cookie"])
def test_headers_that_carry_credentials_are_blanked_by_name(name: str) -> None:
    assert Secrets({}).plain({name: "anything", "date": "now"}) == {name: "[redacted]", "date": "now"}


@pytest.mark.parametrize("name", ["key", "api_key", "access_token", "TOKEN"])
def test_credentials_in_a_query_are_blanked(name: str) -> None:
    assert Secrets({}).text(f"http://h/p?a=1&{name}=abc#x") == f"http://h/p?a=1&{name}=[redacted]#x"


@pytest.mark.parametrize("value", ["test", "none", "aaaaaaaaaaaa", "12121212", ""])
def test_a_common_value_does_not_shred_the_store(value: str) -> None:
    secrets = Secrets({"A_KEY": value})
    assert secrets.text(f"a {value} b") == f"a {value} b"


def test_the_environments_names_give_secrets_away() -> None:
    environ = {
        "OPENAI_API_KEY": "sk-1234567",
        "GH_TOKEN": "ghp_abcdef",
        "PATH": "/usr/bin:/bin",
        "KEYBOARD": "qwertz-layout",
    }
    secrets = secrets_of(environ, {"lan token": "tok-98765"})
    assert secrets.text("sk-1234567 ghp_abcdef tok-98765 /usr/bin:/bin qwertz-layout") == (
        "[redacted:OPENAI_API_KEY] [redacted:GH_TOKEN] [redacted:lan token] /usr/bin:/bin qwertz-layout"
    )
    assert "sk-1" not in repr(secrets)
