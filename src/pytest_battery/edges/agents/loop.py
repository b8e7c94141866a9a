"""The built-in agent: a model, a few tools in a sandbox, and one rule for how to use them.

It speaks in plain messages, so that it works with every provider and every model, a tiny local one included: a reply that holds a
fenced block marked ``tool`` asks for that tool, any other reply is the answer.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_battery.edges.agents.loop_tools import TOOLS, Run, ToolFailed, use
from pytest_battery.values.calls import Message

__all__ = ["MAX_TURNS", "Looped", "instructions", "loop", "tools_fault"]

MAX_TURNS = 50
"""Replies of the model after which a run ends without an answer, where the task says nothing."""

_MOST_FAULT = 2000

Ended = Literal["answered", "empty", "turns"]
"""``empty``: the last reply said nothing; ``turns``: there were too many."""


@dataclass(frozen=True, slots=True)
class Looped:
    """What a run came to.  ``text`` is the final answer, empty where there was none; ``turns`` are replies of the model,
    ``events`` one mapping for each reply and each use of a tool, in order."""

    text: str
    ended: Ended
    turns: int
    tool_calls: int
    tool_errors: int
    events: Sequence[Mapping[str, Any]] = field(default_factory=tuple)


def tools_fault(tools: Sequence[str]) -> str | None:
    """What is wrong with the names of *tools*."""
    unknown = sorted(set(tools) - set(TOOLS))
    return f"there is no tool {unknown[0]!r}; there are {', '.join(TOOLS)}" if unknown else None


def instructions(tools: Sequence[str]) -> str:
    """What the model is told of its tools."""
    lines = [f"- {name}: {TOOLS[name].what}. Arguments: {_arguments(name)}." for name in tools]
    return "\n".join(
        [
            "You work in a directory with files. You may use one tool at a time. To use one, write a block like this:",
            "",
            "```tool",
            '{"tool": "NAME", "ARGUMENT": "VALUE"}',
            "```",
            "",
            "Its result is given to you in the next message. The tools:",
            *lines,
            "",
            "When you are done, write your answer without a tool block.",
        ]
    )


def _arguments(name: str) -> str:
    tool = TOOLS[name]
    return ", ".join(
        f"{argument}{' (a number)' if argument in tool.whole else ''}{'' if needed else ', optional'}"
        for argument, needed in tool.fields.items()
    )


async def loop(
    ask: Callable[[Sequence[Message]], Awaitable[str]],
    run: Run,
    messages: Sequence[Message],
    tools: Sequence[str],
    max_turns: int = MAX_TURNS,
    on_event: Callable[[Mapping[str, Any]], None] = lambda event: None,
) -> Looped:
    """Ask, use the tool that is asked for, and so on, until there is an answer or *max_turns* replies were given.

    *messages* are the task; what they say to the system stands behind the instructions.  *on_event* is given each event as it
    comes: a run that fails has no other.  Raises what *ask* and *run* raise; nothing that a model writes makes it raise.
    """
    system = [message.content for message in messages if message.role == "system"]
    said = [Message("system", "\n\n".join([instructions(tools), *system]))] if tools else []
    said += [message for message in messages if message.role != "system" or not tools]
    events: list[Mapping[str, Any]] = []

    def note(event: Mapping[str, Any]) -> None:
        events.append(event)
        on_event(event)

    calls = errors = 0
    for turn in range(1, max_turns + 1):
        reply = await ask(tuple(said))
        note({"type": "reply", "turn": turn, "text": reply})
        call, fault = _asked_for(reply, tools)
        if call is None and fault is None:
            text = reply.strip()
            return Looped(text, "answered" if text else "empty", turn, calls, errors, tuple(events))
        calls += 1
        result, error = await _used(run, call, fault)
        errors += error
        note({"type": "tool", "turn": turn, "call": call, "error": error, "result": result})
        said += [Message("assistant", reply), Message("user", result)]
    return Looped("", "turns", max_turns, calls, errors, tuple(events))


async def _used(run: Run, call: Mapping[str, Any] | None, fault: str | None) -> tuple[str, bool]:
    """What the model is told of its call, and whether that is an error."""
    if call is not None and fault is None:
        try:
            return f"Result of {call['tool']}:\n{await use(TOOLS[call['tool']], run, call)}", False
        except ToolFailed as failed:
            fault = str(failed)
    return f"Error: {fault}"[:_MOST_FAULT], True  # it may repeat what the model wrote


def _asked_for(reply: str, tools: Sequence[str]) -> tuple[dict[str, Any] | None, str | None]:
    """The call in *reply*, and what is wrong with it; neither where the reply is an answer."""
    if not tools:
        return None, None
    blocks, closed = _blocks(reply)
    if not closed:
        return None, "the tool block has no end: close it with ``` on a line of its own"
    if not blocks:
        return None, None
    if len(blocks) > 1:
        return None, f"{len(blocks)} tool blocks in one message; write one, and wait for its result"
    try:
        call = json.loads(blocks[0])
    except (ValueError, RecursionError) as error:
        return None, f"the tool block is not JSON: {error}"
    if not isinstance(call, dict) or not isinstance(call.get("tool"), str):
        return None, 'the tool block must be an object with "tool": "NAME"'
    if call["tool"] not in tools:
        return call, f"there is no tool {call['tool']!r}; there are {', '.join(tools)}"
    return call, None


def _blocks(reply: str) -> tuple[list[str], bool]:
    """What stands in each tool block of *reply*, and whether the last one was closed."""
    blocks: list[str] = []
    inside: list[str] | None = None
    for line in reply.split("\n"):
        words = line.split()
        if inside is None:
            inside = [] if words[:1] == ["```tool"] else None
        elif words == ["```"]:
            blocks.append("\n".join(inside))
            inside = None
        else:
            inside.append(line)
    return blocks, inside is None
