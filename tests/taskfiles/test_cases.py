"""Cases: from lines of JSON, from CSV, from TOML, from directories, or in the task file itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_battery.edges.taskfiles.cases import checked_cases, read_cases

ID_RULE = "use letters, digits, '.', '_' and '-', beginning with a letter or a digit"
JSONL = '{"id": "a", "text": "x"}\n{"id": "b", "text": "y"}\n'


def cases_of(project: Any, name: str, files: Mapping[str, str | bytes]) -> list[dict[str, Any]]:
    return [dict(case) for case in project.prepare(project.with_cases(name), files).task.cases]


# -- every source gives the same cases ---------------------------------------------------------------


SOURCES: dict[str, tuple[str, dict[str, str | bytes]]] = {
    "jsonl": ("c.jsonl", {"c.jsonl": JSONL}),
    "jsonl with blank lines": ("c.jsonl", {"c.jsonl": "\n" + JSONL.replace("\n", "\n   \n\n")}),
    "jsonl without a final newline": ("c.jsonl", {"c.jsonl": JSONL.rstrip("\n")}),
    "jsonl with CRLF": ("c.jsonl", {"c.jsonl": JSONL.replace("\n", "\r\n")}),
    "jsonl with a BOM": ("c.jsonl", {"c.jsonl": b"\xef\xbb\xbf" + JSONL.encode()}),
    "csv": ("c.csv", {"c.csv": "id,text\na,x\nb,y\n"}),
    "csv with quotes, blank lines and CRLF": ("c.csv", {"c.csv": 'id,text\r\n\r\na,"x"\r\nb,y'}),
    "csv with a BOM": ("c.csv", {"c.csv": b"\xef\xbb\xbfid,text\na,x\nb,y\n"}),
    "toml": ("c.toml", {"c.toml": '[[case]]\nid = "a"\ntext = "x"\n[[case]]\nid = "b"\ntext = "y"\n'}),
    "toml with CRLF": ("c.toml", {"c.toml": '[[case]]\r\nid = "a"\r\ntext = "x"\r\n[[case]]\r\nid = "b"\r\ntext = "y"\r\n'}),
    "a directory": ("c", {"c/a/text.md": "x", "c/b/text.md": b"\xef\xbb\xbfy", "c/readme.md": "", "c/.git/text.md": "z"}),
    "a directory with case.toml": ("c", {"c/b/case.toml": 'text = "y"', "c/a/case.toml": 'id = "a"', "c/a/text.txt": "x"}),
    "a file below the task's directory": ("d/e/c.jsonl", {"d/e/c.jsonl": JSONL}),
}  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_cases_are_the_same_whatever_they_are_written_in(project: Any, source: str) -> None:
    name, files = SOURCES[source]
    assert cases_of(project, name, files) == [{"id": "a", "text": "x"}, {"id": "b", "text": "y"}]


def test_a_field_of_a_directory_is_named_by_its_file(project: Any) -> None:
    files = {"c/a/text.md": "x\r\ny\r", "c/a/bug-report.tar.txt": "z", "c/a/.DS_Store": b"\x00\xff"}
    assert cases_of(project, "c", files) == [{"id": "a", "text": "x\ny\n", "bug_report": "z"}]


def test_values_keep_their_types(project: Any) -> None:
    files = {"c.jsonl": '{"id": "a", "text": "x", "n": 1, "f": 1.0, "yes": true, "none": null, "many": [{"k": "v"}]}\n'}
    (case,) = cases_of(project, "c.jsonl", files)
    assert case == {"id": "a", "text": "x", "n": 1, "f": 1.0, "yes": True, "none": None, "many": [{"k": "v"}]}


def test_cases_keep_the_order_they_are_written_in(project: Any) -> None:
    files = {"c.jsonl": "".join(f'{{"id": "{name}", "text": ""}}\n' for name in "zaMk5")}
    assert [case["id"] for case in cases_of(project, "c.jsonl", files)] == list("zaMk5")


@given(
    st.lists(
        st.tuples(st.text(st.characters(codec="utf-8", exclude_characters="\r\0")), st.text("ab,\"\n'")), max_size=5
    )
)
def test_any_text_survives_csv(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    import csv

    path = tmp_path_factory.mktemp("csv") / "c.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "one", "two"), *((f"c{n}", *row) for n, row in enumerate(rows))])
    faults: list[str] = []
    found = checked_cases(read_cases(path, "c.csv", path.parent, faults), faults)
    assert faults == []
    assert [(case["one"], case["two"]) for case in found] == rows


# -- what is wrong with a file of cases --------------------------------------------------------------


BAD: dict[str, tuple[str, dict[str, str | bytes], list[str]]] = {
    "no such file": ("c.jsonl", {}, ["t.toml:5: task.cases names c.jsonl, and there is no such file"]),
    "an empty file": ("c.jsonl", {"c.jsonl": ""}, ["t.toml:5: task.cases names c.jsonl, which holds no case"]),
    "a file of blank lines": ("c.jsonl", {"c.jsonl": "\n \n"}, ["t.toml:5: task.cases names c.jsonl, which holds no case"]),
    "an empty directory": ("c", {"c/readme.md": ""}, ["t.toml:5: task.cases names c, which holds no case"]),
    "an empty TOML file": ("c.toml", {"c.toml": ""}, ["t.toml:5: task.cases names c.toml, which holds no case"]),
    "a CSV file with columns only": ("c.csv", {"c.csv": "id,text\n"}, ["t.toml:5: task.cases names c.csv, which holds no case"]),
    "another kind of file": ("c.json", {"c.json": "[]"}, [
        "c.json: cases come from a .jsonl, .csv or .toml file, or a directory of case directories"
    ]),
    "broken lines of JSON": ("c.jsonl", {"c.jsonl": '{"id": "a"\n\n{"id": "b", "text": NaN}\n["c"]\n{"id": "d", "id": "e"}\n{"text": ""}\n'}, [
        "c.jsonl:1: not JSON: Expecting ',' delimiter: line 1 column 11 (char 10)",
        "c.jsonl:3: not JSON: NaN is not JSON",
        'c.jsonl:4: each line should be an object with an id, as in {"id": "t01"}',
        "c.jsonl:5: not JSON: the key 'id' is given twice",
        "c.jsonl:6: the case has no id",
    ]),
    "a number no computer can hold": ("c.jsonl", {"c.jsonl": '{"id": "a", "text": "", "n": [1e999]}\n'}, [
        "c.jsonl:1: case a: n[0] is inf, which is no finite number"
    ]),
    "lines in UTF-16": ("c.jsonl", {"c.jsonl": '{"id": "a"}'.encode("utf-16")}, ["c.jsonl:1: the file is UTF-16; save it as UTF-8"]),
    "lines in Latin-1": ("c.jsonl", {"c.jsonl": b'{"id": "a", "text": ""}\n{"id": "b", "text": "\xe9"}\n'}, [
        "c.jsonl:2: byte 0xe9 is not UTF-8; save the file as UTF-8"
    ]),
    "ragged rows": ("c.csv", {"c.csv": 'id,text\na,"x\ny"\nb\nc,1,2\nd,z\n'}, [
        "c.csv:4: 2 values expected, as in the first row; found 1",
        "c.csv:5: 2 values expected, as in the first row; found 3",
    ]),
    "columns without an id": ("c.csv", {"c.csv": "\nname,text\na,x\n"}, [
        "c.csv:2: the first row should name the columns, and one of them should be id; found name, text"
    ]),
    "a CSV file with nothing in it": ("c.csv", {"c.csv": ""}, [
        "c.csv:1: the first row should name the columns, and one of them should be id; found nothing"
    ]),
    "a column named twice": ("c.csv", {"c.csv": "id,text,text\na,x,y\n"}, ["c.csv:1: the column 'text' is named twice"]),
    "a quote that is never closed": ("c.csv", {"c.csv": 'id,text\na,x\nb,"y\nc,z\n'}, ["c.csv:3: not CSV: unexpected end of data"]),
    "a bad id after a quoted newline": ("c.csv", {"c.csv": 'id,text\na,"x\ny"\nb c,z\n'}, [f"c.csv:4: case 'b c' is not an id: {ID_RULE}"]),
    "more than cases in a TOML file": ("c.toml", {"c.toml": 'title = "x"\n\n[[case]]\nid = "a"\ntext = ""\n[task]\n'}, [
        "c.toml:1: a file of cases holds [[case]] tables only; found title",
        "c.toml:6: a file of cases holds [[case]] tables only; found task",
    ]),
    "a single [case]": ("c.toml", {"c.toml": '\n[case]\nid = "a"\n'}, ["c.toml:2: cases are written as [[case]] tables"]),
    "broken TOML": ("c.toml", {"c.toml": "[[case]]\nid = a\n"}, ["c.toml:2: not TOML: Invalid value, column 6"]),
    "case directories": ("c", {
        "c/a/text.md": "x",
        "c/b/case.toml": "id = 'z'",
        "c/d/sub/x": "",
        "c/e/text.md": "\ufeffx".encode("utf-16"),
        "c/f/text.md": "x",
        "c/f/text.txt": "y",
        "c/g/case.toml": "text = ",
        "c/h i/text.md": "x",
    }, [
        "c/b: the id is the directory's name; found 'z'",
        "c/d/sub: a case directory holds files only",
        "c/e/text.md:1: the file is UTF-16; save it as UTF-8",
        "c/f/text.txt: the field 'text' is given twice in this case",
        "c/g/case.toml:1: not TOML: Invalid value, column 8",
        f"c/h i: case 'h i' is not an id: {ID_RULE}",
    ]),
    "directories that differ in letter case": ("c", {"c/A/text.md": "x", "c/a/text.md": "x"}, [
        "c/a: case id 'a' differs from 'A' only in letter case; the other is at c/A"
    ]),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_of_cases_is_told_fault_by_fault(project: Any, kind: str) -> None:
    name, files, faults = BAD[kind]
    assert project.case_faults(name, files) == faults


def test_cases_cannot_be_given_twice(project: Any) -> None:
    task = project.task({"runs = 2": 'runs = 2\ncases = "c.jsonl"'})
    assert project.faults(task, {"c.jsonl": JSONL}) == [
        "t.toml:5: task.cases is given and [[case]] tables too; keep one of them"
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", 't.toml:1: task.cases is missing: write cases = "cases.jsonl", or [[case]] tables here'),
        ("case = []\n", "t.toml:1: case is empty; a task has at least one case"),
        ("case = 5\n", "t.toml:1: case should be an array; found an integer, 5"),
        ("case = [5]\n", "t.toml:1: case.0 should be a table; found an integer, 5"),
    ],
)
def test_a_task_without_cases_is_told(project: Any, text: str, fault: str) -> None:
    whole = project.task()
    task = text + whole[: whole.index("\n[[case]]")]
    (found,) = project.faults(task)
    assert found == fault


def test_a_single_case_table_is_told(project: Any) -> None:
    assert project.faults(project.task({"[[case]]": "[case]"})) == ["t.toml:15: case should be an array; found a table"]


def test_a_key_of_the_task_below_a_case_is_found_there(project: Any) -> None:
    task = (
        project.task({"runs = 2\n": "", "timeout = 5\n": ""}) + 'runs = 2\n[[case]]\nid = "b"\ntext = ""\ntimeout = 5\n'
    )
    assert project.faults(task) == [
        "t.toml:1: task.runs is missing: it stands in the [[case]] at line 13; keys of the task stand in [task], above it",
        "t.toml:1: task.timeout is missing: it stands in the [[case]] at line 17; keys of the task stand in [task], "
        "above it",
    ]


# -- ids and values ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ('"a"', "case id 'a' is given twice; the other is at t.toml:15"),
        ('"A"', "case id 'A' differs from 'a' only in letter case; the other is at t.toml:15"),
        ('"a::b"', f"case 'a::b' is not an id: {ID_RULE}"),
        ('"a[1]"', f"case 'a[1]' is not an id: {ID_RULE}"),
        ('"a b"', f"case 'a b' is not an id: {ID_RULE}"),
        ('"a/b"', f"case 'a/b' is not an id: {ID_RULE}"),
        ('"_a"', f"case '_a' is not an id: {ID_RULE}"),
        ('"-a"', f"case '-a' is not an id: {ID_RULE}"),
        ('".."', f"case '..' is not an id: {ID_RULE}"),
        ('""', f"case '' is not an id: {ID_RULE}"),
        ('"caf\u00e9"', f"case 'caf\u00e9' is not an id: {ID_RULE}"),
        ('"a\\n"', f"case 'a\\n' is not an id: {ID_RULE}"),
        (f'"{"x" * 101}"', "case 'xxxxxxxxxxxxxxxxxxxx'... is 101 characters long; an id has at most 100"),
        ("7", "the id 7 should be a string: write it in quotes"),
        ("2026-07-29", "the id datetime.date(2026, 7, 29) should be a string: write it in quotes"),
    ],
)
def test_an_id_that_cannot_be_used_is_told(project: Any, written: str, fault: str) -> None:
    assert project.faults(project.task() + f"\n[[case]]\nid = {written}\ntext = ''\n") == [f"t.toml:19: {fault}"]


def test_the_longest_id_is_accepted(project: Any) -> None:
    prepared = project.prepare(project.task({'"a"': f'"{"x" * 100}"'}))
    assert list(prepared.asked) == ["x" * 100]


@pytest.mark.parametrize(
    ("field", "fault"),
    [
        ("when = 2026-07-29", "case a: when is a date; write it in quotes, as text"),
        ("when = 2026-07-29T10:00:00Z", "case a: when is a date; write it in quotes, as text"),
        ("deep = [{ when = 10:00:00 }]", "case a: deep[0].when is a date; write it in quotes, as text"),
        ("n = nan", "case a: n is nan, which is no finite number"),
        ("deep = { n = [0.5, -inf] }", "case a: deep.n[1] is -inf, which is no finite number"),
    ],
)
def test_a_value_that_json_cannot_say_is_told(project: Any, field: str, fault: str) -> None:
    assert project.faults(project.task() + field + "\n") == [f"t.toml:15: {fault}"]


# -- paths -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("/tmp/c.jsonl", "task.cases '/tmp/c.jsonl' is absolute; a path is relative to the task file"),
        ("~/c.jsonl", "task.cases '~/c.jsonl' is absolute; a path is relative to the task file"),
        ("../../c.jsonl", "task.cases is '../../c.jsonl', which leaves the project at "),
    ],
)
def test_a_path_of_cases_stays_inside_the_project(project: Any, written: str, fault: str) -> None:
    (found,) = project.case_faults(written, {})
    assert found.startswith(f"t.toml:5: {fault}")


def test_a_link_out_of_the_project_is_not_followed(project: Any, tmp_path: Path) -> None:
    inner = type(project)(tmp_path / "inner")
    project.write({"secret/text.md": "secret", "secret.jsonl": JSONL})
    inner.write({"c/a/text.md": "x", "c/b/text.md": "x"})
    (inner.root / "c/a/more.md").symlink_to(tmp_path / "secret/text.md")
    (inner.root / "c/z").symlink_to(tmp_path / "secret")
    (inner.root / "c.jsonl").symlink_to(tmp_path / "secret.jsonl")
    assert inner.case_faults("c", {}) == [
        f"c/a/more.md: is a link that leaves the project at {inner.root}",
        f"c/z/text.md: is a link that leaves the project at {inner.root}",
    ]
    assert inner.case_faults("c.jsonl", {}) == [
        f"t.toml:5: task.cases is 'c.jsonl', which leaves the project at {inner.root}"
    ]


def test_a_link_inside_the_project_is_followed(project: Any) -> None:
    project.write({"shared.md": "x", "c/a/other.md": ""})
    (project.root / "c/a/text.md").symlink_to("../../shared.md")
    assert cases_of(project, "c", {}) == [{"id": "a", "text": "x", "other": ""}]
