"""Any program as an agent, by a template of its command line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_battery.edges.agents.launches import Kind, Launch, Start, Told, fault_of
from pytest_battery.edges.agents.streams import Odd, clean, no_end
from pytest_battery.edges.agents.taking import relative_fault, take_file
from pytest_battery.values.usage import Usage

__all__ = ["PLACEHOLDERS", "Command"]

PLACEHOLDERS = ("prompt", "model", "base_url", "workdir", "agent_dir", "key", "system", "append")

_ALL_APIS = ("openai-chat", "openai-responses", "anthropic", "google")
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")
_MOST_ANSWER = 16 * 2**20
_MOST_ARGUMENT = 120_000  # bytes; Linux takes 128 KiB in one argument
_OPTIONAL = ("system", "append")


@dataclass(frozen=True, slots=True)
class Command:
    """``argv``, ``environment`` and ``stdin`` may hold the `PLACEHOLDERS`, as ``{prompt}``; ``{{`` and ``}}`` are braces.

    The answer is what it prints, or the content of the file ``answer`` in the agent's directory.  Where ``end`` is given,
    the last line that is printed must be that, and isn't part of the answer; without it, the only sign of an end is that
    the program exited with 0 and answered something.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""
    answer: str | None = None
    end: str | None = None
    apis: tuple[str, ...] = _ALL_APIS
    version: str = ""

    @property
    def name(self) -> str:
        return "command"

    @property
    def bricks(self) -> tuple[Kind, ...]:
        return ()

    def fault(self, launch: Launch) -> str | None:
        fault = fault_of(self.name, launch, apis=self.apis, kinds=(), shape=lambda brick: None)
        return fault or next(self._faults(launch), None)

    def start(self, launch: Launch) -> Start:
        launch.agent_dir.mkdir(parents=True, exist_ok=True)
        values = _values(launch)
        return Start(
            argv=tuple(_filled(text, values) for text in self.argv),
            environment={name: _filled(text, values) for name, text in sorted(self.environment.items())},
            stdin=_filled(self.stdin, values).encode("utf-8"),
            mounts=((launch.install, launch.inside_install),) if launch.install.is_dir() else (),
        )

    def expected(self, launch: Launch) -> Mapping[str, Any]:
        return {}

    def told(self, launch: Launch, stdout: bytes, stderr: bytes, exit_code: int, timed_out: bool) -> Told:
        odd = Odd()
        printed, marked = _without_end(stdout, self.end)
        content = printed if self.answer is None else take_file(launch.agent_dir, self.answer, _MOST_ANSWER, odd)
        if content is not None and len(content) > _MOST_ANSWER:
            odd.note(f"the answer has {len(content)} bytes, more than the {_MOST_ANSWER} that are read of one; cut off")
            content = content[:_MOST_ANSWER]
        text = clean((content or b"").decode("utf-8", "replace")).strip()
        ended = not timed_out and (marked if self.end is not None else exit_code == 0 and bool(text))
        error = None
        if not ended:
            error = no_end(stdout, stderr, exit_code, timed_out)
        elif exit_code:
            error = f"it exited with {exit_code} after its end"
        elif self.answer is not None and content is None:
            error = f"there is no answer in {self.answer}"
        return Told(text, ended, error, None, None, Usage(), odd.forgeries, odd.notes)

    def _faults(self, launch: Launch) -> Iterator[str]:
        if not self.argv or not self.argv[0].strip():
            yield "command: argv names no program"
        used: set[str] = set()
        for text in (*self.argv, *self.environment.values(), self.stdin):
            for found in _PLACEHOLDER.finditer(text):
                if found[1] is not None and found[1] not in PLACEHOLDERS:
                    allowed = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
                    yield f"command: there is no {found[0]} to put into {text!r}; there are {allowed}, and {{{{ for a brace"
                used.add(found[1] or "")
        if "prompt" not in used:
            yield "command: {prompt} is in neither argv, environment nor stdin, so that the program would not be asked"
        for name in _OPTIONAL:
            if getattr(launch, name) and name not in used:
                yield f"command: the task has {name}, and {{{name}}} is in neither argv, environment nor stdin"
        if launch.tools is not None:
            yield "command: tools can't be told to any program: leave them out"
        if self.answer is not None and (wrong := relative_fault(self.answer)):
            yield f"command: answer: {wrong}"
        values = _values(launch)
        if any(
            len(_filled(text, values).encode()) > _MOST_ARGUMENT for text in (*self.argv, *self.environment.values())
        ):
            yield f"command: an argument has more than {_MOST_ARGUMENT} bytes: hand the prompt over by stdin"


def _values(launch: Launch) -> Mapping[str, str]:
    return {
        "prompt": launch.prompt,
        "model": launch.model,
        "base_url": launch.base_url,
        "workdir": launch.workdir,
        "agent_dir": launch.inside_dir,
        "key": launch.key,
        "system": launch.system or "",
        "append": launch.append or "",
    }


def _filled(text: str, values: Mapping[str, str]) -> str:
    """*text* with its placeholders filled, once: what stands in a value is not looked at."""
    return _PLACEHOLDER.sub(lambda found: found[0][0] if found[1] is None else values.get(found[1], found[0]), text)


def _without_end(stdout: bytes, end: str | None) -> tuple[bytes, bool]:
    if end is None:
        return stdout, False
    head, _, last = stdout.rstrip().rpartition(b"\n")
    return (head, True) if last.strip() == end.encode("utf-8").strip() else (stdout, False)
