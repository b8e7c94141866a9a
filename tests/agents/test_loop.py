"""The built-in agent, with a model that follows a script and tools that are real commands."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_battery.edges.agents.loop import Looped, loop, tools_fault
from pytest_battery.edges.agents.loop_tools import COMMAND_SECONDS, MOST_SHOWN, TOOLS
from pytest_battery.values.calls import Message

ALL = tuple(TOOLS)
TASK = (Message("system", "Be brief."), Message("user", "What does hello.txt say?"))


@dataclass(frozen=True)
class Done:
    exit_code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    cut: bool = False


def runs_in(directory: Path) -> Callable[..., Any]:
    async def run(argv: Sequence[str], *, stdin: bytes = b"", seconds: float | None = None) -> Done:
        try:
            done = await anyio.to_thread.run_sync(
                lambda: subprocess.run(argv, input=stdin, capture_output=True, cwd=directory, timeout=seconds)
            )
        except subprocess.TimeoutExpired as late:
            return Done(-9, late.stdout or b"", late.stderr or b"", timed_out=True)
        return Done(done.returncode, done.stdout, done.stderr)

    return run


def called(**call: Any) -> str:
    return f"Let me look.\n```tool\n{json.dumps(call)}\n```"


@dataclass
class Model:
    """Says its lines one after the other, the last one for ever."""

    lines: Sequence[str]
    heard: list[Sequence[Message]]

    async def ask(self, messages: Sequence[Message]) -> str:
        self.heard.append(messages)
        return self.lines[min(len(self.heard), len(self.lines)) - 1]


def looped(
    directory: Path, *lines: str, tools: Sequence[str] = ALL, max_turns: int = 10
) -> tuple[Looped, list[Sequence[Message]]]:
    model = Model(lines, [])

    async def work() -> Looped:
        return await loop(model.ask, runs_in(directory), TASK, tools, max_turns)

    return anyio.run(work), model.heard


def told(directory: Path, **call: Any) -> str:
    """What the model is told of one call."""
    _, heard = looped(directory, called(**call), "done")
    return heard[-1][-1].content


def test_a_tool_is_used_and_then_there_is_an_answer(tmp_path: Path) -> None:
    (tmp_path / "hello.txt").write_text("hello from the workspace\n")
    result, heard = looped(tmp_path, called(tool="bash", command="cat hello.txt"), "It says hello.\n")
    assert (result.text, result.ended, result.turns) == ("It says hello.", "answered", 2)
    assert (result.tool_calls, result.tool_errors) == (1, 0)
    assert [event["type"] for event in result.events] == ["reply", "tool", "reply"]
    first, second = heard
    assert [message.role for message in first] == ["system", "user"]
    assert first[0].content.endswith("Be brief.")
    assert all(f"- {name}: " in first[0].content for name in ALL)
    assert [message.role for message in second] == ["system", "user", "assistant", "user"]
    assert second[-1].content == "Result of bash:\nhello from the workspace"


def test_without_tools_the_first_reply_is_the_answer(tmp_path: Path) -> None:
    result, heard = looped(tmp_path, called(tool="bash", command="touch made"), tools=())
    assert (result.turns, result.ended, result.text) == (1, "answered", called(tool="bash", command="touch made"))
    assert heard == [TASK]
    assert not (tmp_path / "made").exists()


def test_a_model_that_never_answers_is_ended(tmp_path: Path) -> None:
    result, heard = looped(tmp_path, called(tool="bash", command="echo x >> log"), max_turns=3)
    assert (result.text, result.ended, result.turns, result.tool_calls) == ("", "turns", 3, 3)
    assert len(heard) == 3
    assert (tmp_path / "log").read_text() == "x\n" * 3


def test_only_the_tools_of_the_task_are_offered_and_used(tmp_path: Path) -> None:
    result, heard = looped(tmp_path, called(tool="bash", command="touch made"), "done", tools=("read",))
    assert "- bash" not in heard[0][0].content
    assert heard[1][-1].content == "Error: there is no tool 'bash'; there are read"
    assert (result.tool_calls, result.tool_errors) == (1, 1)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ("```tool\n{broken\n```", "the tool block is not JSON"),
        ("```tool\n[1]\n```", 'must be an object with "tool"'),
        ('```tool\n{"tool": "bash", "command": "ls"}', "the tool block has no end"),
        (called(tool="bash", command="ls") * 1 + "\n" + called(tool="bash", command="ls"), "2 tool blocks"),
        (called(tool="bash"), "bash needs 'command'"),
        (called(tool="bash", command=3), "'command' is a text, not int"),
        (called(tool="bash", command="ls", path="x"), "bash has no argument 'path'"),
        (called(tool="read", path="a", offset=0), "'offset' is a whole number from 1 to 1000000000, not 0"),
        (called(tool="read", path="a", limit=True), "'limit' is a whole number from 1 to 1000000000, not True"),
        (
            called(tool="bash", command="ls", seconds=10**400),
            "'seconds' is a whole number from 1 to 1000000000, not 1000",
        ),
        ('```tool\n{"tool": "bash", "command": "ls", "seconds": 1e999}\n```', "not inf"),
        ("```tool\n" + "[" * 100_000 + "\n```", "the tool block is not JSON"),
        ('```tool {"tool": "bash", "command": "ls"}```', "the tool block has no end"),
        (called(tool="bash", command="ls") + "\n```tool\n{", "the tool block has no end"),
        (called(tool="x" * 10_000), "there is no tool 'xxx"),
        (called(tool="read", path="a\0b"), "'path' holds a NUL"),
        (called(tool="read", path="\ud800"), "'path' holds half of a surrogate pair"),
        (called(tool="write", path="made", content="\ud800"), "'content' holds half of a surrogate pair"),
        (called(tool="bash", command="x" * 200_000), "'command' has 200000 bytes; at most 100000"),
        (called(tool="read", path="."), "directory"),
        (called(tool="read", path="nowhere.txt"), "No such file"),
        (called(tool="read", path="-n"), "No such file"),
        (called(tool="grep", pattern="("), "grep"),
        (called(tool="edit", path="a.txt", old="zzz", new="y"), "'old' stands nowhere in ./a.txt"),
        (called(tool="edit", path="a.txt", old="a", new="y"), "'old' stands 2 times in ./a.txt"),
        (called(tool="edit", path="a.txt", old="", new="y"), "'old' is empty"),
    ],
)
def test_what_cannot_be_done_is_told_to_the_model(tmp_path: Path, reply: str, error: str) -> None:
    (tmp_path / "a.txt").write_text("a a")
    result, heard = looped(tmp_path, reply, "done")
    assert heard[1][-1].content.startswith("Error: ")
    assert len(heard[1][-1].content) <= 2000
    assert error in heard[1][-1].content
    assert (result.text, result.tool_errors) == ("done", 1)
    assert (tmp_path / "a.txt").read_text() == "a a"


def test_an_empty_reply_is_no_answer(tmp_path: Path) -> None:
    result, _ = looped(tmp_path, " \n")
    assert (result.text, result.ended, result.turns) == ("", "empty", 1)


def test_events_are_told_as_they_come_also_where_a_run_fails(tmp_path: Path) -> None:
    told: list[Any] = []

    async def ask(messages: Sequence[Message]) -> str:
        if len(messages) > 2:
            raise ConnectionError("the provider is gone")
        return called(tool="bash", command="echo hi")

    async def work() -> None:
        await loop(ask, runs_in(tmp_path), TASK, ALL, on_event=told.append)

    with pytest.raises(ConnectionError):
        anyio.run(work)
    assert [event["type"] for event in told] == ["reply", "tool"]
    assert json.loads(json.dumps(told)) == told


@given(
    st.lists(st.sampled_from(["```tool\n", "```\n", "```", '{"tool": "bash"}', "\n", " ", "x", "````tool\n", "\r\n"]))
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_whatever_a_model_writes_the_run_ends(parts: list[str]) -> None:
    """``bash`` without a command does nothing: no process is needed."""

    async def work() -> Looped:
        async def ask(messages: Sequence[Message]) -> str:
            return "".join(parts)

        return await loop(ask, runs_in(Path("/nowhere")), TASK, ("bash",), max_turns=2)

    result = anyio.run(work)
    assert result.turns == (2 if result.ended == "turns" else 1)
    assert result.tool_calls == result.tool_errors == (2 if result.ended == "turns" else 0)
    assert (result.ended == "answered") == bool(result.text)


def test_many_openings_are_read_in_one_go(tmp_path: Path) -> None:
    """Four megabytes: whoever looks for the end of each one anew is here until tomorrow."""
    result, heard = looped(tmp_path, "```tool\n" * 500_000, "done")
    assert "has no end" in heard[1][-1].content
    assert result.text == "done"


def test_a_block_may_be_indented(tmp_path: Path) -> None:
    block = "\n".join(f"  {line}" for line in called(tool="bash", command="echo hi").splitlines())
    _, heard = looped(tmp_path, block, "done")
    assert heard[1][-1].content == "Result of bash:\nhi"


def test_a_command_without_a_time_has_one(tmp_path: Path) -> None:
    seen: list[float | None] = []

    async def run(argv: Sequence[str], *, stdin: bytes = b"", seconds: float | None = None) -> Done:
        seen.append(seconds)
        return Done(0, b"", b"")

    lines = [
        called(tool="bash", command="true"),
        called(tool="bash", command="true", seconds=7),
        called(tool="read", path="a"),
        called(tool="edit", path="a", old="x", new="y"),
        called(tool="write", path="a", content=""),
        "done",
    ]
    anyio.run(lambda: loop(Model(lines, []).ask, run, TASK, ALL))
    assert seen[:2] == [COMMAND_SECONDS, 7]
    assert len(seen) == 6
    assert None not in seen


def test_lines_ended_as_on_windows_are_a_tool_block_too(tmp_path: Path) -> None:
    _, heard = looped(tmp_path, called(tool="bash", command="echo hi").replace("\n", "\r\n"), "done")
    assert heard[1][-1].content == "Result of bash:\nhi"


def test_read_gives_the_lines_asked_for(tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text("".join(f"{number}\n" for number in range(1, 100)))
    assert told(tmp_path, tool="read", path="n.txt", offset=5, limit=2) == (
        "Result of read:\n5\n6\n[more lines follow: read on with offset 7]"
    )
    assert told(tmp_path, tool="read", path="n.txt", offset=98, limit=2) == "Result of read:\n98\n99\n"
    assert told(tmp_path, tool="read", path="n.txt", offset=100) == "Result of read:\n[no lines there]"
    (tmp_path / "long.txt").write_text("x\n" * 2001)
    assert told(tmp_path, tool="read", path="long.txt").endswith("x\n[more lines follow: read on with offset 2001]")
    (tmp_path / "long.txt").write_text("x\n" * 2000)
    assert told(tmp_path, tool="read", path="long.txt") == "Result of read:\n" + "x\n" * 2000


def test_grep_and_find_leave_git_out(tmp_path: Path) -> None:
    for name in (".git/config", "src/a.py", "b.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("needle\n")
    assert told(tmp_path, tool="grep", pattern="need.e", path="src") == "Result of grep:\n./src/a.py:1:needle\n"
    assert ".git" not in told(tmp_path, tool="grep", pattern="needle")
    assert told(tmp_path, tool="grep", pattern="absent") == "Result of grep:\nno line matches"
    assert told(tmp_path, tool="find", name="*.py") == "Result of find:\n./src/a.py\n"
    assert told(tmp_path, tool="find", name="src/*.py") == "Result of find:\n./src/a.py\n"
    assert told(tmp_path, tool="find", name="**/*.py") == "Result of find:\n./src/a.py\n"
    assert told(tmp_path, tool="find", name="*.py", path="src") == "Result of find:\n./src/a.py\n"
    assert told(tmp_path, tool="find", name="-delete") == "Result of find:\nno file has that name"
    assert told(tmp_path, tool="find", name="config") == "Result of find:\nno file has that name"


def test_bash_tells_how_a_command_ended(tmp_path: Path) -> None:
    assert told(tmp_path, tool="bash", command="echo out; echo err >&2; exit 3") == (
        "Result of bash:\nout\nerr\n[exit code 3]"
    )
    assert told(tmp_path, tool="bash", command="true") == "Result of bash:\n[no output]"
    assert "[took too long and was ended]" in told(tmp_path, tool="bash", command="sleep 60", seconds=1)


def test_a_long_result_is_cut_in_its_middle_and_says_so(tmp_path: Path) -> None:
    text = told(tmp_path, tool="bash", command="seq 1 20000")
    assert len(text) < MOST_SHOWN + 200
    assert text.startswith("Result of bash:\n1\n2\n")
    assert text.endswith("20000")
    assert "characters left out" in text


def test_bytes_that_are_no_text_are_shown_and_an_edit_keeps_them(tmp_path: Path) -> None:
    path = tmp_path / "odd.bin"
    path.write_bytes(b"\xff\xfe old \x00\r\n")
    assert "\ufffd" in told(tmp_path, tool="bash", command="cat odd.bin")
    told(tmp_path, tool="edit", path="odd.bin", old="old", new="new")
    assert path.read_bytes() == b"\xff\xfe new \x00\r\n"


@given(
    content=st.text(max_size=200), name=st.text("ab -$'\"\\", min_size=1, max_size=8).map(lambda name: f"d/{name}.txt")
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_whatever_is_written_stands_there(tmp_path_factory: pytest.TempPathFactory, content: str, name: str) -> None:
    directory = tmp_path_factory.mktemp("w")
    assert told(directory, tool="write", path=name, content=content) == f"Result of write:\n./{name} is written"
    assert (directory / name).read_bytes() == content.encode("utf-8", "surrogatepass")


def test_a_tool_that_there_is_not_is_a_fault_of_the_task() -> None:
    assert tools_fault(["read", "bash"]) is None
    assert tools_fault(["read", "browse"]) == f"there is no tool 'browse'; there are {', '.join(ALL)}"
