"""Every fault of a task file is told at once: file, line, key, what was found, what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

KNOWN = (
    "known keys: title, kind, runs, timeout, tags, cases, subjects, prompt, driver, append, system, output, expect, agent, "
    "corpus, tools, env, max_turns, sandbox, stacks, hidden"
)
ID_RULE = "use letters, digits, '.', '_' and '-', beginning with a letter or a digit"
ESCAPE = "(a backslash in double quotes is an escape: put regexes and paths in 'single quotes')"

BAD: dict[str, tuple[dict[str, str], list[str]]] = {
    "a value left out": ({"runs = 2": "runs ="}, ["t.toml:4: not TOML: Invalid value, column 7"]),
    "a backslash that is no escape": (
        {'equals = "{{ case.text }}"': 'regex = "\\d+\\.py"'},
        [f"t.toml:10: not TOML: Unescaped '\\' in a string, column 12 {ESCAPE}"],
    ),
    "a Windows path in double quotes": (
        {'"{{ case.text }}" }': '"C:\\Users\\x" }'},
        [f"t.toml:6: not TOML: Invalid hex value, column 24 {ESCAPE}"],
    ),
    "a key given twice": (
        {"runs = 2": "runs = 2\nruns = 3"},
        ["t.toml:5: not TOML: Cannot overwrite a value, column 9 (the key is given twice)"],
    ),
    "an escape in a regex": (
        {'equals = "{{ case.text }}"': 'regex = "\\bfoo"'},
        [
            "t.toml:10: scorer: regex: '\\x08foo' holds the control character U+0008: in double quotes TOML reads \\b as "
            "that character; use single quotes, as in '\\b...'"
        ],
    ),
    "an escape in a path": (
        {'{ text = "{{ case.text }}" }': '{ file = "src\\new.md" }'},
        [
            "t.toml:6: task.prompt.file 'src\\new.md' holds the control character '\\n': a backslash in double quotes is an "
            "escape; write paths in 'single quotes', with /"
        ],
    ),
    "unknown keys": (
        {"runs = 2": "runs = 2\ntimeuot = 3\nzzz = 1"},
        [
            f"t.toml:5: task.timeuot is not known here; did you mean 'timeout'? {KNOWN}",
            f"t.toml:6: task.zzz is not known here; {KNOWN}",
        ],
    ),
    "a key of a later version": ({"runs = 2": "runs = 2\nsteps = 3"}, [f"t.toml:5: task.steps is not known here; {KNOWN}"]),
    "an unknown table": (
        {"[scorer]": "[axes]\nmode = ['a']\n\n[scorer]"},
        ["t.toml:8: axes is not known here; known keys: task, scorer, metrics, verdict, controls, step, case"],
    ),
    "an unknown key in a metric": (
        {'better = "higher"': 'bettr = "higher"'},
        [
            "t.toml:12: metrics.correct.better is missing",
            "t.toml:13: metrics.correct.bettr is not known here; did you mean 'better'? "
            "known keys: better, primary, aggregate, care",
        ],
    ),
    "an unknown key in a prompt": (
        {"{ text =": "{ fiel ="},
        ["t.toml:6: task.prompt.fiel is not known here; did you mean 'file'? known keys: text, file, production, style"],
    ),
    "wrong types": (
        {
            "runs = 2": 'runs = "2"',
            "timeout = 5": "timeout = true",
            'title = "Say it"': "title = 5",
            'kind = "call"': 'kind = "chat"\ntags = "quick"',
        },
        [
            "t.toml:2: task.title should be a string; found an integer, 5",
            "t.toml:3: task.kind should be 'call', 'steps', 'python' or 'agent'; found a string, 'chat'",
            "t.toml:4: task.tags should be an array; found a string, 'quick'",
            "t.toml:5: task.runs should be an integer; found a string, '2'",
            "t.toml:6: task.timeout should be a number; found a boolean, True",
        ],
    ),
    "dates where text and numbers belong": (
        {'title = "Say it"': "title = 2026-07-29", "timeout = 5": "timeout = 10:00:00"},
        [
            "t.toml:2: task.title should be a string; found a date, 2026-07-29 (write it in quotes)",
            "t.toml:5: task.timeout should be a number; found a time, 10:00:00 (write it in quotes)",
        ],
    ),
    "numbers out of range": (
        {"runs = 2": "runs = 0", "timeout = 5": "timeout = nan", 'title = "Say it"': 'title = ""'},
        [
            "t.toml:2: task.title is empty",
            "t.toml:4: task.runs should be greater than or equal to 1; found an integer, 0",
            "t.toml:5: task.timeout should be a finite number; found a float, nan",
        ],
    ),
    "tags that cannot be marks": (
        {"runs = 2": "runs = 2\ntags = ['subject', 'a b', 'not', '1a', 'quick']"},
        [
            "t.toml:5: task.tags.0 'subject' is a mark that pytest or a plugin gives another meaning; choose another name",
            "t.toml:5: task.tags.1 'a b' cannot be a mark: use letters, digits and _, beginning with a letter",
            "t.toml:5: task.tags.2 'not' is a mark that pytest or a plugin gives another meaning; choose another name",
            "t.toml:5: task.tags.3 '1a' cannot be a mark: use letters, digits and _, beginning with a letter",
        ],
    ),
    "a subject that cannot be read": (
        {"runs = 2": "runs = 2\nsubjects = ['local/a', 'small']"},
        [
            "t.toml:5: task.subjects.1 'small' is not a model reference: write PROVIDER/MODEL, as in local/smollm2-135m "
            "(letters, digits and . _ : @ / + ~ -)"
        ],
    ),
    "a subject named twice": (
        {"runs = 2": "runs = 2\nsubjects = ['local/a@t=0.70', 'local/b', 'local/a@t=0.7']"},
        ["t.toml:5: task.subjects.2 names local/a@t=0.7 twice"],
    ),
    "a reference nobody can be compared with": (
        {'better = "higher"': 'better = "higher"\n\n[verdict]\nreference = { subject = "x", stack = "bare" }'},
        [
            "t.toml:16: verdict.reference.subject 'x' is not a model reference: write PROVIDER/MODEL, as in "
            "local/smollm2-135m (letters, digits and . _ : @ / + ~ -)",
            "t.toml:16: verdict.reference.stack should be 'none'; found a string, 'bare'",
        ],
    ),
    "two primary metrics": (
        {'better = "higher"': 'better = "higher"\nprimary = true\n\n[metrics.equals]\nbetter = "lower"\nprimary = true'},
        ["t.toml:18: metrics.equals.primary is true for correct and equals; one metric is primary"],
    ),
    "a metric that is no id": (
        {"[metrics.correct]": '[metrics."all right"]'},
        [f"t.toml:12: metrics.all right 'all right' is not an id: {ID_RULE}"],
    ),
    "no metric": (
        {'[metrics.correct]\nbetter = "higher"': "[metrics]"},
        ["t.toml:12: metrics is empty"],
    ),
    "no prompt": (
        {'prompt = { text = "{{ case.text }}" }': ""},
        [
            't.toml:1: task.prompt is missing: write prompt = { text = "..." } or { file = "..." }, or kind = "python" '
            "where a Python test asks"
        ],
    ),
    "a prompt that is text and file": (
        {"{ text =": '{ file = "p.md", text ='},
        ['t.toml:6: task.prompt should be { text = "..." }, { file = "..." } or { production = "..." }, one of them'],
    ),
    "a prompt that is neither": (
        {'{ text = "{{ case.text }}" }': "{}"},
        ['t.toml:6: task.prompt should be { text = "..." }, { file = "..." } or { production = "..." }, one of them'],
    ),
    "a Python test that is given a prompt": (
        {'kind = "call"': 'kind = "python"\nappend = "Be brief."'},
        [
            't.toml:4: task.append has no meaning with kind = "python": the Python test does the asking',
            't.toml:7: task.prompt has no meaning with kind = "python": the Python test does the asking',
        ],
    ),
    "files that are not there": (
        {
            '{ text = "{{ case.text }}" }': '{ file = "p.md" }\nsystem = { file = "s.md" }\noutput = { json_schema = "o.json" }'
        },
        [
            "t.toml:6: task.prompt names p.md, and there is no such file",
            "t.toml:7: task.system names s.md, and there is no such file",
            "t.toml:8: task.output.json_schema names o.json, and there is no such file",
        ],
    ),
    "absolute paths": (
        {'{ text = "{{ case.text }}" }': "{ file = '/etc/passwd' }\nsystem = { file = 'C:\\x' }"},
        [
            "t.toml:6: task.prompt.file '/etc/passwd' is absolute; a path is relative to the task file and stays inside "
            "the project",
            "t.toml:7: task.system.file 'C:\\\\x' is absolute; a path is relative to the task file and stays inside the "
            "project",
        ],
    ),
    "a template that is none": (
        {"{{ case.text }}": "{{ case.text }", "runs = 2": 'runs = 2\nappend = "{% if %}"'},
        [
            "t.toml:5: task.append is not a template: line 1 of it: Expected an expression, got 'end of statement block'",
            "t.toml:7: task.prompt is not a template: line 1 of it: unexpected '}'",
            "t.toml:11: scorer: equals: '{{ case.text }' is not a template: unexpected '}'; write {{ case.FIELD }}, and "
            "{{ '{#' }} for a literal '{#', '{{' or '{%'",
        ],
    ),
    "a field that no case has": (
        {'"{{ case.text }}" }': '"{{ case.txt }} {{ case[\'n\'] }}" }'},
        ["t.toml:15: case a has no field 'txt'; it has id, text"],
    ),
    "a name that is not case": ({'"{{ case.text }}" }': '"{{ text }}" }'}, ["t.toml:15: case a: 'text' is undefined"]),
    "the whole case": (
        {'"{{ case.text }}" }': '"{{ case }}" }'},
        ["t.toml:15: case a: `case` is the whole case; write a field of it: {{ case.FIELD }}"],
    ),
    "a method instead of its result": (
        {'"{{ case.text }}" }': '"{{ case.text.upper }}" }'},
        ["t.toml:15: case a: a builtin_function_or_method cannot be written; it is no text, number or list"],
    ),
    "a filter that fails": (
        {'"{{ case.text }}" }': '"{{ 1 / 0 }}" }'},
        ["t.toml:15: case a: the template failed: ZeroDivisionError: division by zero"],
    ),
    "chance in a prompt": (
        {'"{{ case.text }}" }': '"{{ case.text | random }}" }'},
        ["t.toml:6: task.prompt is not a template: line 1 of it: No filter named 'random'."],
    ),
    "a scorer nobody offers": (
        {'use = "matchers"': 'use = "matcher"'},
        [
            "t.toml:9: scorer: there is no scorer 'matcher' (did you mean 'matchers'?); the scorers are labels, matchers (a file "
            "scorers/NAME.py adds NAME)"
        ],
    ),
    "a scorer that is not named": ({'use = "matchers"\n': ""}, ["t.toml:8: scorer.use is missing"]),
    "options that the scorer refuses for a case": (
        {'equals = "{{ case.text }}"': "regex = '{{ case.txt }}'"},
        ["t.toml:15: case a: scorer: regex: '{{ case.txt }}': case.txt is not a field of the case (did you mean 'text'?); its fields are id, text"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_task_file_is_told_fault_by_fault(project: Any, kind: str) -> None:
    edits, faults = BAD[kind]
    assert project.faults(project.task(edits)) == faults


def test_an_empty_file_lacks_every_table(project: Any) -> None:
    assert project.faults("") == [
        "t.toml:1: task is missing",
        "t.toml:1: scorer is missing",
        "t.toml:1: metrics is missing",
    ]


def test_every_mandatory_key_is_named(project: Any) -> None:
    assert project.faults("[scorer]\n[task]\n[metrics.x]\n") == [
        "t.toml:1: scorer.use is missing",
        "t.toml:2: task.title is missing",
        "t.toml:2: task.kind is missing",
        "t.toml:2: task.runs is missing",
        "t.toml:2: task.timeout is missing",
        't.toml:2: task.cases is missing: write cases = "cases.jsonl", or [[case]] tables here',
        "t.toml:3: metrics.x.better is missing",
    ]


def test_all_faults_of_a_file_and_of_the_files_it_names_are_in_one_message(project: Any) -> None:
    task = project.task(
        {
            'title = "Say it"': 'title = "Say it"\nappnd = "x"',
            "runs = 2": "subjects = ['local/a', 'local/a']\nruns = 2",
            '{ text = "{{ case.text }}" }': '{ file = "p.md" }',
            "equals =": "equal =",
            'better = "higher"': 'better = "more"',
            'id = "a"': 'id = "a b"',
        }
    )
    places = [fault[: fault.index(": ")] for fault in project.faults(task)]
    assert places == ["t.toml:3", "t.toml:5", "t.toml:8", "t.toml:12", "t.toml:15", "t.toml:17"]


def test_faults_of_the_task_file_come_before_those_of_its_cases(project: Any) -> None:
    task = project.with_cases("a.jsonl").replace("timeout = 5", "timeout = 0")
    assert project.faults(task, {"a.jsonl": '{"id": 3}\n[]\n'}) == [
        "t.toml:6: task.timeout should be greater than 0; found an integer, 0",
        "a.jsonl:1: the id 3 should be a string: write it in quotes",
        'a.jsonl:2: each line should be an object with an id, as in {"id": "t01"}',
    ]


def test_a_slip_in_a_template_does_not_flood_the_screen(project: Any) -> None:
    cases = "".join(f'{{"id": "c{number:03}", "text": "x"}}\n' for number in range(500))
    task = project.with_cases("c.jsonl").replace('"{{ case.text }}" }', '"{{ case.txt }}" }')
    faults = project.faults(task, {"c.jsonl": cases})
    assert faults[0] == "t.toml:7: task.prompt cannot be made for more than 10 cases"
    assert faults[1:] == [f"c.jsonl:{n + 1}: case c{n:03} has no field 'txt'; it has id, text" for n in range(10)]


@pytest.mark.parametrize(
    ("content", "faults"),
    [
        (b"\xef\xbb\xbf[task]\n", ["t.toml:1: the file begins with a byte order mark (BOM); save it as UTF-8 without one"]),
        ("[task]\n".encode("utf-16-le").join([b"\xff\xfe", b""]), ["t.toml:1: the file is UTF-16; save it as UTF-8"]),
        (b'[task]\n\ntitle = "caf\xe9"\n', ["t.toml:3: byte 0xe9 is not UTF-8; save the file as UTF-8"]),
    ],
)  # fmt: skip
def test_a_file_in_another_encoding_is_told_what_to_do(project: Any, content: bytes, faults: list[str]) -> None:
    assert project.faults(content) == faults


@pytest.mark.parametrize("name", ["my task.toml", "_t.toml", f"{'t' * 101}.toml"])
def test_the_name_of_the_file_must_do_as_an_id(project: Any, name: str) -> None:
    from pytest_battery.edges.taskfiles import load_task
    from pytest_battery.errors import TaskFileError

    project.write({name: project.task()})
    with pytest.raises(TaskFileError, match=r"the file's name is the task's name: .* (is not an id|characters long)"):
        load_task(project.root / name, project.root)


@pytest.mark.parametrize("line", ["output = { json_schema = 's.json' }"])
@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ('{"type": ', "t.toml:5: task.output.json_schema names s.json, which is not JSON: Expecting value: line 1 column 10 (char 9)"),
        ('{"type": "strin"}', "t.toml:5: task.output.json_schema is not a JSON Schema: 'strin' is not valid under any of the given schemas"),
        ("[]", "t.toml:5: task.output.json_schema is not a JSON Schema: [] is not of type 'object', 'boolean'"),
        ("true", "t.toml:5: task.output.json_schema should be an object"),
        (b"\xff", "t.toml:5: task.output.json_schema names a file that is no text: s.json:1: byte 0xff is not UTF-8; save the file as UTF-8"),
    ],
)  # fmt: skip
def test_an_output_schema_must_be_one(project: Any, line: str, content: str | bytes, fault: str) -> None:
    assert project.faults(project.task({"runs = 2": f"runs = 2\n{line}"}), {"s.json": content}) == [fault]


def test_a_path_cannot_leave_the_project(project: Any, tmp_path: Path) -> None:
    inner = type(project)(tmp_path / "inner")
    project.write({"outside.md": "secret"})
    inner.write({"link.md": ""})
    (inner.root / "link.md").unlink()
    (inner.root / "link.md").symlink_to(tmp_path / "outside.md")
    (inner.root / "loop.md").symlink_to("loop.md")
    for written in ("../outside.md", "link.md", "x/../../outside.md", "loop.md"):
        task = inner.task({'{ text = "{{ case.text }}" }': f'{{ file = "{written}" }}'})
        (fault,) = inner.faults(task)
        assert fault in (
            f"t.toml:6: task.prompt is {written!r}, which leaves the project at {inner.root}",
            "t.toml:6: task.prompt names loop.md, which cannot be read: Too many levels of symbolic links",
        )


def test_a_prompt_that_is_a_directory_is_told(project: Any) -> None:
    (project.root / "p").mkdir()
    task = project.task({'{ text = "{{ case.text }}" }': '{ file = "p" }'})
    assert project.faults(task) == ["t.toml:6: task.prompt names p, which cannot be read: Is a directory"]


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ('append = """\nruns = 3\n[task]\n"""', 8),
        ("append = '''\n# \"\"\" [[\n'''", 7),
        ("append = \"a # [ {\"  # ''' {", 5),
        ("# \u2028 \x85 one line for TOML", 5),
        ("subjects = [\n  'local/a',  # [\n  'local/b',\n]", 8),
    ],
    ids=["multi-line basic string", "multi-line literal", "comment", "odd line ends", "array"],
)
def test_line_numbers_are_those_of_an_editor(project: Any, before: str, line: int) -> None:
    (fault,) = project.faults(project.task({"runs = 2": f"{before}\nruns = 0"}))
    assert fault.startswith(f"t.toml:{line}: task.runs should be greater")


def test_line_numbers_count_crlf_once(project: Any) -> None:
    task = project.task({"runs = 2": "runs = 0"}).replace("\n", "\r\n")
    assert project.faults(task) == ["t.toml:4: task.runs should be greater than or equal to 1; found an integer, 0"]


def test_a_task_file_that_cannot_be_read_is_told(project: Any) -> None:
    from pytest_battery.edges.taskfiles import load_task
    from pytest_battery.errors import TaskFileError

    (project.root / "d.toml").mkdir()
    for name, reason in (("d.toml", "Is a directory"), ("gone.toml", "No such file or directory")):
        with pytest.raises(TaskFileError) as caught:
            load_task(project.root / name, project.root)
        assert caught.value.faults == (f"{name}: cannot be read: {reason}",)
