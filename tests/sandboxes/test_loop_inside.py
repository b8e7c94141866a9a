"""The built-in agent in a real sandbox: its tools reach the workspace, and no further."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio

from pytest_battery.edges.agents.loop import Looped, loop
from pytest_battery.edges.agents.loop_tools import TOOLS
from pytest_battery.edges.sandboxes import Confinement, open_bubblewrap
from pytest_battery.values.calls import Message


def told(confinement: Confinement, *calls: dict[str, Any]) -> list[str]:
    """What the model is told of each call."""
    lines = [f"```tool\n{json.dumps(call)}\n```" for call in calls]

    async def ask(messages: Sequence[Message]) -> str:
        asked = sum(message.role == "assistant" for message in messages)
        return lines[asked] if asked < len(lines) else "done"

    async def work() -> Looped:
        async with open_bubblewrap(replace(confinement, keeps=True)) as sandbox:
            return await loop(ask, sandbox.run, [Message("user", "Work.")], tuple(TOOLS))

    result = anyio.run(work)
    assert result.ended == "answered"
    return [event["result"] for event in result.events if event["type"] == "tool"]


def test_what_one_tool_leaves_the_next_one_finds(confinement: Confinement, workspace: Path) -> None:
    written, edited, read, kept, found = told(
        confinement,
        {"tool": "write", "path": "src/a.py", "content": "one\ntwo\n"},
        {"tool": "edit", "path": "/work/src/a.py", "old": "two", "new": "three"},
        {"tool": "read", "path": "src/a.py"},
        {"tool": "bash", "command": "cp src/a.py /tmp/b; cp src/a.py ~/c"},
        {"tool": "bash", "command": "cat /tmp/b ~/c | sort -u"},
    )
    assert written == "Result of write:\n./src/a.py is written"
    assert edited == "Result of edit:\n/work/src/a.py is changed"
    assert read == "Result of read:\none\nthree\n"
    assert kept == "Result of bash:\n[no output]"
    assert found == "Result of bash:\none\nthree"
    assert (workspace / "src" / "a.py").read_text() == "one\nthree\n"


def test_no_tool_follows_a_link_out_of_the_workspace(confinement: Confinement, workspace: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("sk-planted\n")
    (workspace / "link").symlink_to(secret)
    (workspace / "directory").symlink_to(tmp_path)
    answers = told(
        confinement,
        {"tool": "read", "path": "link"},
        {"tool": "read", "path": str(secret)},
        {"tool": "read", "path": f"../..{secret}"},
        {"tool": "grep", "pattern": "sk-", "path": "directory/"},
        {"tool": "find", "name": "*", "path": "directory/"},
        {"tool": "edit", "path": "link", "old": "sk", "new": "gone"},
        {"tool": "write", "path": "directory/made", "content": "x"},
        {"tool": "bash", "command": "cat link; echo x > link"},
    )
    assert all(answer.startswith("Error: ") for answer in answers[:7])
    assert not any("planted" in answer for answer in answers)
    assert secret.read_text() == "sk-planted\n"
    assert list(tmp_path.iterdir()) == [secret]
