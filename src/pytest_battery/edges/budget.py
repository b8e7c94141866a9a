"""A cap on money that holds for every process at once: reserve before asking, settle after, release where nothing was paid.

One row says how much was ever spent through this file; a hold is money in flight.  A session's cap is for what was spent
and is held since it began, by whomever: sessions that run side by side on one store count against each other.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pytest_battery.errors import StoreError

__all__ = ["BUDGET", "Admission", "Budget"]

BUDGET = ".budget.sqlite"

Admission = Literal["admitted", "wait", "over"]
"""``wait``: what is in flight may turn out cheaper; ``over``: what is spent already leaves no room."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS spent (id INTEGER PRIMARY KEY CHECK (id = 1), usd REAL NOT NULL);
INSERT OR IGNORE INTO spent VALUES (1, 0.0);
CREATE TABLE IF NOT EXISTS holds (id TEXT PRIMARY KEY, pid INTEGER NOT NULL, started TEXT NOT NULL, usd REAL NOT NULL);
"""
_ROUNDING = 1e-9


class Budget:
    """*cap* in USD; *began* is what `spent` was when the session began, shared by its processes."""

    def __init__(self, directory: Path, cap: float, began: float | None = None) -> None:
        """Raises `StoreError` where the file cannot be used."""
        self.path, self.cap = directory / BUDGET, cap
        with self._connected() as connection:
            for statement in _SCHEMA.split(";\n"):
                if statement.strip():
                    connection.execute(statement)
            self.began = self._spent(connection) if began is None else began

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """One transaction that nobody else is in."""
        try:
            connection = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: the budget cannot be kept: {error}") from None
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreError(
                f"{self.path}: the budget cannot be kept: {error}; if the file is damaged, delete it"
            ) from None
        finally:
            connection.close()

    @staticmethod
    def _spent(connection: sqlite3.Connection) -> float:
        return float(connection.execute("SELECT usd FROM spent").fetchone()[0])

    def reserve(self, usd: float) -> tuple[Admission, str]:
        """Hold *usd*, if there is room; the hold's name.  Holds of processes that are gone are let go first."""
        with self._connected() as connection:
            spent = self._spent(connection) - self.began
            if spent + usd > self.cap + _ROUNDING:
                return "over", ""
            held = 0.0
            for name, pid, started, amount in connection.execute("SELECT id, pid, started, usd FROM holds").fetchall():
                if _lives(pid, started):
                    held += amount
                else:
                    connection.execute("DELETE FROM holds WHERE id = ?", (name,))
            if spent + held + usd > self.cap + _ROUNDING:
                return "wait", ""
            hold = uuid.uuid4().hex
            connection.execute("INSERT INTO holds VALUES (?, ?, ?, ?)", (hold, os.getpid(), _started(os.getpid()), usd))
            return "admitted", hold

    def settle(self, hold: str, usd: float) -> None:
        """What was held cost *usd* in the end; 0 releases it."""
        with self._connected() as connection:
            connection.execute("DELETE FROM holds WHERE id = ?", (hold,))
            connection.execute("UPDATE spent SET usd = usd + ?", (usd,))

    def spent(self) -> float:
        """USD since the session began, by whomever."""
        with self._connected() as connection:
            return self._spent(connection) - self.began


def _started(pid: int) -> str:
    """When a process began, as the system counts: a pid that is used again is another process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _lives(pid: int, started: str) -> bool:
    if started:
        return _started(pid) == started
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
