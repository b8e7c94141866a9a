"""The tools of the built-in agent.  Each is a command in the sandbox: no file of a workspace is ever opened from outside.

A link in the workspace may lead anywhere; inside the sandbox it leads nowhere that matters.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["TOOLS", "Finished", "Run", "Tool", "ToolFailed", "use"]

MOST_SHOWN = 20_000
"""Characters of one result that a model is shown."""

COMMAND_SECONDS = 120
"""After which a command is ended that the model has given no time."""

_OWN_SECONDS = 60.0  # of the commands that are ours: a file may be a pipe that nobody writes to
_MOST_LINES = 2000
_MOST_WHOLE = 1_000_000_000
_MOST_ARGUMENT = 100_000  # bytes; Linux gives a command's argument 128 KiB


class Finished(Protocol):
    """What a command in the sandbox came to."""

    @property
    def exit_code(self) -> int: ...

    @property
    def stdout(self) -> bytes: ...

    @property
    def stderr(self) -> bytes: ...

    @property
    def timed_out(self) -> bool: ...

    @property
    def cut(self) -> bool: ...


class Run(Protocol):
    """Runs one command in the sandbox, in its working directory; *seconds* end it."""

    def __call__(
        self, argv: Sequence[str], *, stdin: bytes = b"", seconds: float | None = None
    ) -> Awaitable[Finished]: ...


class ToolFailed(Exception):
    """What the model is told instead of a result."""


@dataclass(frozen=True, slots=True)
class Tool:
    """``fields`` maps each argument to whether it must be given; all are texts but the ``whole`` ones.  Those that are
    ``long`` don't become an argument of a command."""

    name: str
    what: str
    fields: Mapping[str, bool]
    use: Callable[[Run, Mapping[str, Any]], Awaitable[str]]
    whole: frozenset[str] = frozenset()
    long: frozenset[str] = frozenset()

    def fault(self, call: Mapping[str, Any]) -> str | None:
        """What is wrong with the arguments of *call*."""
        given = {name for name in call if name != "tool"}
        if unknown := sorted(given - set(self.fields)):
            return f"{self.name} has no argument {unknown[0]!r}; it has {', '.join(self.fields)}"
        for name, needed in self.fields.items():
            if name not in call:
                if needed:
                    return f"{self.name} needs {name!r}"
            elif fault := self._unfit(name, call[name]):
                return f"{self.name}: {name!r} {fault}"
        return None

    def _unfit(self, name: str, value: object) -> str | None:
        if name in self.whole:
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST_WHOLE:
                return f"is a whole number from 1 to {_MOST_WHOLE}, not {str(value)[:40]}"
            return None
        if not isinstance(value, str):
            return f"is a text, not {type(value).__name__}"
        if "\0" in value and name not in self.long:
            return "holds a NUL"
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            return "holds half of a surrogate pair"
        return (
            f"has {size} bytes; at most {_MOST_ARGUMENT}" if size > _MOST_ARGUMENT and name not in self.long else None
        )


async def use(tool: Tool, run: Run, call: Mapping[str, Any]) -> str:
    """The result of *call*, as the model is shown it.  Raises `ToolFailed`."""
    if fault := tool.fault(call):
        raise ToolFailed(fault)
    return _shown(await tool.use(run, call))


def _shown(text: str) -> str:
    if len(text) <= MOST_SHOWN:
        return text
    half = MOST_SHOWN // 2
    return f"{text[:half]}\n[... {len(text) - MOST_SHOWN} characters left out ...]\n{text[-half:]}"


def _text(content: bytes) -> str:
    """No byte of it is lost silently: what is no text is shown as U+FFFD, and so is NUL, which some providers refuse."""
    return content.decode("utf-8", "replace").replace("\0", "\ufffd")


async def _out(run: Run, argv: Sequence[str], *, stdin: bytes = b"", fine: tuple[int, ...] = (0,)) -> str:
    """What a command of ours printed.  Raises `ToolFailed` with what it complained of."""
    done = await run(argv, stdin=stdin, seconds=_OWN_SECONDS)
    if done.timed_out:
        raise ToolFailed(f"{argv[0]} took too long and was ended")
    if done.exit_code not in fine:
        said = _text(done.stderr).strip() or f"{argv[0]} ended with {done.exit_code}"
        raise ToolFailed(said[:2000])
    return _text(done.stdout)


def _path(call: Mapping[str, Any], default: str = ".") -> str:
    """A path that no command takes for an option."""
    path = str(call.get("path", default)) or default
    return path if path == "." or path.startswith(("/", "./")) else f"./{path}"


async def _read(run: Run, call: Mapping[str, Any]) -> str:
    first = call.get("offset", 1)
    limit = call.get("limit", _MOST_LINES)
    # One more than is shown tells whether there are more.
    text = await _out(run, ["sed", "-n", "--", f"{first},{first + limit}p;{first + limit}q", _path(call)])
    lines = text.split("\n", limit)
    if len(lines) > limit and lines[limit]:
        return "\n".join(lines[:limit]) + f"\n[more lines follow: read on with offset {first + limit}]"
    return text or "[no lines there]"


async def _grep(run: Run, call: Mapping[str, Any]) -> str:
    argv = ["grep", "-rnI", "--exclude-dir=.git", "-E", "-e", call["pattern"], "--", _path(call)]
    return await _out(run, argv, fine=(0, 1)) or "no line matches"


async def _find(run: Run, call: Mapping[str, Any]) -> str:
    path, name = _path(call), call["name"]
    # In a path that find compares, * goes over slashes as well.
    test = ["-path", f"{path}/{name.removeprefix('./').replace('**/', '*')}"] if "/" in name else ["-name", name]
    argv = ["find", path, "-name", ".git", "-prune", "-o", *test, "-print"]
    return await _out(run, argv) or "no file has that name"


async def _bash(run: Run, call: Mapping[str, Any]) -> str:
    done = await run(["bash", "-c", call["command"]], seconds=call.get("seconds", COMMAND_SECONDS))
    parts = [_text(done.stdout), _text(done.stderr)]
    text = "\n".join(part.rstrip("\n") for part in parts if part)
    ends = [f"[exit code {done.exit_code}]"] if done.exit_code else []
    ends += ["[took too long and was ended]"] if done.timed_out else []
    ends += ["[printed more than is kept]"] if done.cut else []
    return "\n".join([part for part in (text, *ends) if part]) or "[no output]"


async def _edit(run: Run, call: Mapping[str, Any]) -> str:
    path, old, new = _path(call), call["old"], call["new"]
    if not old:
        raise ToolFailed("edit: 'old' is empty; to make a file use write")
    done = await run(["cat", "--", path], seconds=_OWN_SECONDS)
    if done.timed_out or done.exit_code:
        raise ToolFailed(_text(done.stderr).strip()[:2000] or f"{path} could not be read to its end")
    if done.cut:
        raise ToolFailed(f"{path} is too long to be edited; use bash")
    before, sought = done.stdout, old.encode()
    count = before.count(sought)
    if count != 1:
        where = "nowhere" if not count else f"{count} times"
        raise ToolFailed(f"edit: 'old' stands {where} in {path}; it must stand there once")
    await _out(run, ["tee", "--", path], stdin=before.replace(sought, new.encode()))
    return f"{path} is changed"


async def _write(run: Run, call: Mapping[str, Any]) -> str:
    path = _path(call)
    directory = path.rpartition("/")[0] or "/"
    await _out(run, ["mkdir", "-p", "--", directory])
    await _out(run, ["tee", "--", path], stdin=call["content"].encode())
    return f"{path} is written"


TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "read",
            "lines of a file",
            {"path": True, "offset": False, "limit": False},
            _read,
            frozenset({"offset", "limit"}),
        ),
        Tool("grep", "lines that match a regular expression", {"pattern": True, "path": False}, _grep),
        Tool("find", "files by name or path, with * and ?", {"name": True, "path": False}, _find),
        Tool("bash", "run a command", {"command": True, "seconds": False}, _bash, frozenset({"seconds"})),
        Tool(
            "edit",
            "put new in the place of old, which stands there once",
            {"path": True, "old": True, "new": True},
            _edit,
            long=frozenset({"old", "new"}),
        ),
        Tool(
            "write", "make a file, or replace it", {"path": True, "content": True}, _write, long=frozenset({"content"})
        ),
    )
}
