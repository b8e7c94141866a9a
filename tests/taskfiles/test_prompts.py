"""What a case is asked, and which of its fields the asking reads."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_battery.edges.taskfiles import Asking, load_task


def asked(project: Any, prompt: str, fields: str = "", **more: str) -> tuple[list[tuple[str, str]], set[str]]:
    """The messages of the first case, and the fields read, for a task whose prompt is the text given."""
    extra = "".join(f"{key} = {value}\n" for key, value in more.items())
    project.write({"t.toml": project.task({"runs = 2\n": f"runs = 2\n{extra}"}) + fields, "p.md": prompt})
    task = load_task(project.root / "t.toml", project.root)
    messages, read = Asking(task).messages(task.cases[0])
    return [(message.role, message.content) for message in messages], set(read)


def file_prompt(project: Any, prompt: str, fields: str = "") -> tuple[str, set[str]]:
    project.write(
        {"t.toml": project.task({'{ text = "{{ case.text }}" }': '{ file = "p.md" }'}) + fields, "p.md": prompt}
    )
    task = load_task(project.root / "t.toml", project.root)
    messages, read = Asking(task).messages(task.cases[0])
    return messages[-1].content, set(read)


def test_system_prompt_and_append_make_two_messages(project: Any) -> None:
    messages, read = asked(project, "", system='{ text = "You are {{ case.id }}." }', append='"Only {{ case.text }}."')
    assert messages == [("system", "You are a."), ("user", "x\n\nOnly x.")]
    assert read == {"id", "text"}


def test_a_field_wins_over_a_method_of_the_same_name(project: Any) -> None:
    content, read = file_prompt(project, "{{ case.items }} {{ case['keys'] }}", "items = ['one']\nkeys = 2\n")
    assert (content, read) == ("['one'] 2", {"items", "keys"})


def test_only_the_fields_that_were_read_count(project: Any) -> None:
    prompt = "{% if case.hard %}{{ case.hint }}{% else %}{{ case.text }}{% endif %}"
    content, read = file_prompt(project, prompt, "hard = false\nhint = 'h'\nexpected = 'e'\n")
    assert (content, read) == ("x", {"hard", "text"})


def test_walking_over_a_case_reads_all_of_it(project: Any) -> None:
    content, read = file_prompt(project, "{% for name in case %}{{ name }} {% endfor %}", "more = 1\n")
    assert (content, read) == ("id text more ", {"id", "text", "more"})


def test_a_template_cannot_reach_into_python(project: Any) -> None:
    with pytest.raises(ValueError, match="case a: access to attribute '__class__' of 'str' object is unsafe"):
        file_prompt(project, "{{ case.text.__class__.__mro__ }}")


@pytest.mark.parametrize("prompt", [b"\xef\xbb\xbfSay\n{{ case.text }}\n", b"Say\r\n{{ case.text }}\r\n"])
def test_marks_and_line_ends_of_a_prompt_file_are_not_part_of_it(project: Any, prompt: bytes) -> None:
    task = project.task({'{ text = "{{ case.text }}" }': '{ file = "p.md" }'})
    plain = project.prepare(task, {"p.md": b"Say\n{{ case.text }}\n"}).asked["a"]
    odd = project.prepare(task, {"p.md": prompt}).asked["a"]
    assert odd == plain
    assert odd.messages[0].content == "Say\nx"


def test_text_in_html_is_asked_as_it_is(project: Any) -> None:
    assert file_prompt(project, "<b>{{ case.more }}</b>", "more = '<&>'\n")[0] == "<b><&></b>"
