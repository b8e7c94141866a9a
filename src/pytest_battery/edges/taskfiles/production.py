"""What ships, read where it ships: prompts and functions of the project, never copied into a task."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["production_function", "production_text", "source_of"]

_HEADING = re.compile(r"^(#+)\s+(.*?)\s*#*\s*$")
_FENCE = re.compile(r"^\s*(```|~~~)")


def production_text(named: str, root: Path) -> str:
    """The prompt that *named* stands for: ``package.module:ATTRIBUTE``, or ``file.md#Heading`` below *root*.

    Raises ValueError, a phrase that goes on from the key's name.
    """
    if "#" in named:
        return _section(named, root)
    found = _attribute(named, root)
    if not isinstance(found, str):
        raise ValueError(f"is {named!r}, and that is a {type(found).__name__}; it should be a str")
    return found


def production_function(named: str, root: Path) -> Callable[..., Any]:
    """The coroutine function *named* ``package.module:function``.  Raises ValueError as `production_text` does."""
    found: Callable[..., Any] = _attribute(named, root)
    if not inspect.iscoroutinefunction(found):
        raise ValueError(f"is {named!r}, which should be an async function: async def run(case, model)")
    return found


def source_of(function: Callable[..., Any]) -> str:
    """Digest of the file the function stands in: what it does may depend on all of that."""
    file = inspect.getsourcefile(inspect.unwrap(function))
    content = Path(file).read_bytes() if file and Path(file).is_file() else b""
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()[:32]


def _attribute(named: str, root: Path) -> Any:
    module_name, colon, path = named.partition(":")
    if not colon or not module_name or not path:
        raise ValueError(f"is {named!r}; write package.module:ATTRIBUTE, or file.md#Heading")
    try:
        with _importable(root):
            found: Any = importlib.import_module(module_name)
    except Exception as error:  # the user's module may raise anything
        raise ValueError(
            f"names the module {module_name}, which cannot be imported: {type(error).__name__}: {error}"
        ) from None
    for name in path.split("."):
        if not hasattr(found, name):
            known = (
                ", ".join(one for one in sorted(vars(found)) if not one.startswith("_"))
                if hasattr(found, "__dict__")
                else ""
            )
            raise ValueError(f"is {named!r}, and {module_name} has no {name}; it has {known or 'nothing'}")
        found = getattr(found, name)
    return found


@contextmanager
def _importable(root: Path) -> Iterator[None]:
    """The project's own modules can be imported, from its root or its ``src``."""
    added = [str(place) for place in (root, root / "src") if place.is_dir() and str(place) not in sys.path]
    sys.path[:0] = added
    try:
        yield
    finally:
        for place in added:
            if place in sys.path:
                sys.path.remove(place)


def _section(named: str, root: Path) -> str:
    """The text below a heading of a Markdown file, up to the next one of its rank."""
    file, _, heading = named.partition("#")
    path = (root / file).resolve()
    if not path.is_relative_to(root.resolve()):
        raise ValueError(f"is {named!r}, which leaves the project at {root}")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise ValueError(f"names {file}, and there is no such file below {root}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"names {file}, which cannot be read: {error}") from None
    rank, kept, headings, fenced = 0, [], [], False
    for line in lines:
        fenced ^= bool(_FENCE.match(line))
        found = None if fenced else _HEADING.match(line)
        if found and rank and len(found[1]) <= rank:
            break
        if found and not rank:
            headings.append(found[2])
            if found[2] == heading.strip():
                rank = len(found[1])
                continue
        if rank:
            kept.append(line)
    if not rank:
        raise ValueError(
            f"names the heading {heading!r}, which {file} does not have; it has {', '.join(headings) or 'none'}"
        )
    return "\n".join(kept).strip("\n")
