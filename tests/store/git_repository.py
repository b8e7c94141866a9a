"""A git repository in a temporary directory."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

__all__ = ["Repository"]


class Repository:
    """``repository("commit", "-m", "x")`` runs git there, free of whoever's configuration."""

    def __init__(self, path: Path, *, init: bool = True) -> None:
        self.path = path
        if init:
            path.mkdir(parents=True, exist_ok=True)
            self("init", "--quiet", "--initial-branch=main")

    def __call__(self, *arguments: str) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        identity = ["-c", "user.name=tests", "-c", "user.email=tests@localhost", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=self.path, env=environment, capture_output=True, check=True, text=True
        )
        return done.stdout.strip()

    def commit(self, message: str = "a change") -> str:
        """Commit everything; the commit's full name."""
        self("add", "--all")
        self("commit", "--quiet", "--allow-empty", "--message", message)
        return self("rev-parse", "HEAD")

    def object_file(self, name: str) -> Path:
        """Where the loose object that *name* stands for lies."""
        sha = self("rev-parse", name)
        return self.path / ".git" / "objects" / sha[:2] / sha[2:]

    def damage(self, name: str, content: bytes | None) -> None:
        """Overwrite the loose object that *name* stands for, or delete it for None."""
        path = self.object_file(name)
        path.chmod(0o644)  # git makes them read-only
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)

    def commit_made_up(self, *entries: tuple[str, str, str]) -> str:
        """A commit of a tree of (mode, name, object) that git itself would refuse to make."""
        content = b"".join(f"{mode} {name}\0".encode() + bytes.fromhex(sha) for mode, name, sha in entries)
        file = self.path / ".git" / "made-up"
        file.write_bytes(content)
        tree = self("hash-object", "-t", "tree", "-w", "--literally", str(file))
        return self("commit-tree", tree, "-m", "made up")
