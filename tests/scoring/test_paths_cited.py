from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_battery.scoring.paths_cited import cited_paths, plain_path

STEP = st.text("abcXYZ019_.-[]()#+@", min_size=1, max_size=6).filter(lambda step: step.strip(".") == step)
PATH = st.lists(STEP, min_size=1, max_size=4).map("/".join).filter(lambda path: plain_path(path) == path)
PLAIN = st.lists(st.text("abcXYZ019_", min_size=1, max_size=6), min_size=1, max_size=4).map("/".join)


def cites(text: str, path: str) -> bool:
    return cited_paths(text, [path]) == {path}


@pytest.mark.parametrize(
    "text",
    [
        "src/a.py",
        "./src/a.py",
        "see src/a.py.",
        "see src/a.py:12.",
        "(src/a.py)",
        "`src/a.py`,",
        "**src/a.py**",
        "*src/a.py*.",
        "**src/a.py**:",
        "src/a.py:12-20",
        "src/a.py:12:5: error",
        "src/a.py#L12",
        "src/a.py#L12-L20!",
        '"src/a.py"',
        "'src/a.py'",
        "src\\a.py",
        "src//a.py",
        "src/../src/a.py",
        "src/./a.py",
        "[the file](src/a.py)",
        '{"path":"src/a.py"}',
        "['src/a.py','src/b.py']",
        "open('src/a.py')",
        "Path:src/a.py",
        "--file=src/a.py",
        "src/a.py's tests",
        "src/b.py,src/a.py;",
        "src/a.py::test_one",
        "<src/a.py>",
        "| src/a.py |",
        "src/a.py->src/b.py",
        "src/b.py→src/a.py",
        "src/a.py…",
        "\u201csrc/a.py\u201d",
        "\ufeffsrc/a.py\r\n",
        "- src/a.py\r- src/b.py",
        "```\nsrc/a.py\n```",
    ],
)
def test_cited(text: str):
    assert cites(text, "src/a.py")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "../src/a.py",
        "/src/a.py",
        "/etc/src/a.py",
        "a/src/a.py",
        "C:\\src\\a.py",
        "https://host.example/src/a.py",
        "~/src/a.py",
        "$ROOT/src/a.py",
        "${ROOT}/src/a.py",
        "src/a.pyc",
        "src/a.py.bak",
        "src/a.py/b",
        "xsrc/a.py",
        "my-src/a.py",
        ".src/a.py",
        "_src/a.py",
        "src/a.py~",
        "src/A.py",
        "**/src/a.py",
        "src/*a.py",
        "src/../../src/a.py",
        "src/ a.py",
        "a.py",
    ],
)
def test_not_cited(text: str):
    assert not cites(text, "src/a.py")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("data.py", "a.py"),
        ("ax/a.py", "x/a.py"),
        ("README.md", "docs/api/README.md"),
        ("docs/api/README.md", "README.md"),
        ("github/ci.yml", ".github/ci.yml"),
        (".github/ci.yml", "github/ci.yml"),
        ("__init__.py", "init__.py"),
        ("*test.py", "test.py"),
        ("x/my docs/a b.md", "my docs/a b.md"),
        ("src/..", "src"),
    ],
)
def test_only_whole_paths_count(text: str, path: str):
    assert not cites(text, path)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("see .github/ci.yml", ".github/ci.yml"),
        ("`my docs/a b.md`:3", "my docs/a b.md"),
        ("in (my docs/a b.md).", "my docs/a b.md"),
        ("pages/[id].tsx", "pages/[id].tsx"),
        ("app/(group)/page.tsx:4", "app/(group)/page.tsx"),
        ("it's.md", "it's.md"),
        ("a,b.txt", "a,b.txt"),
        ("c#/x.cs", "c#/x.cs"),
        ("tests/test\\_parser.py", "tests/test_parser.py"),
        ("src\\_private\\x.py", "src/_private/x.py"),
        ("the src/ directory", "src"),
        ("LICENSE", "LICENSE"),
        ("caf\u00e9.md", "caf\u00e9.md"),
        ("cafe\u0301.md", "caf\u00e9.md"),
    ],
)
def test_names_keep_what_is_theirs(text: str, path: str):
    assert cites(text, path)


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("src/a.py", "src/a.py"),
        (".\\src\\\\x\\..\\a.py", "src/a.py"),
        (".github/", ".github"),
        ("../a", None),
        ("a/../../a", None),
        ("/a", None),
        ("\\\\host\\a", None),
        ("c:a", None),
        ("", None),
        (".", None),
    ],
)
def test_plain_path(path: str, plain: str | None):
    assert plain_path(path) == plain


@given(path=PATH, frame=st.sampled_from(["%s", "`%s`", '"%s"', "./%s", "see %s", "`%s`:", "a\n%s\nb", "<%s>"]))
def test_any_path_is_cited_in_any_frame(path: str, frame: str):
    assert cites(frame % path, path)


@given(
    path=PLAIN,
    line=st.sampled_from(["", ":1", ":1-2", "#L1", "#L1-L2", ":1:2"]),
    end=st.sampled_from(["", ".", ")", ",", "**", "!"]),
)
def test_lines_and_punctuation_are_understood(path: str, line: str, end: str):
    assert cites(f"{path}{line}{end}", path)


@given(path=PLAIN, other=PLAIN)
def test_a_plain_text_cites_exactly_itself(path: str, other: str):
    assert cites(path, other) is (path == other)


@given(text=st.text("ab/.\\:*()[]{}'\"`#L1-,; _~\n", max_size=60), path=PLAIN)
def test_what_is_cited_stands_in_the_text(text: str, path: str):
    if cites(text, path):
        assert path.split("/")[-1] in text


def test_a_hostile_text_takes_no_time():
    started = time.process_time()
    for text in (
        "(" * 300_000,
        ")" * 300_000,
        "a," * 150_000,
        ":1" * 150_000,
        "'" * 300_000,
        "../" * 100_000,
        "*" * 300_000,
    ):
        cited_paths(text, ["a"])
    assert time.process_time() - started < 10
