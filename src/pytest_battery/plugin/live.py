"""A status line on the row below pytest's own output, drawn without touching its reporter; a heartbeat in logs."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Generator
from typing import Any

import pytest

from pytest_battery.plugin.session import Battery, permutation_of
from pytest_battery.saying.rendering.inert import inert

__all__ = ["Live", "wanted"]

# IND (down, scrolling if need be) and RI (back up): the column is kept, and a row below exists.
_ROOM, _SAVE, _DOWN, _BACK, _CLEAR = "\x1bD\x1bM", "\x1b7", "\x1bD\r", "\x1b8", "\x1b[K"
DRAW_SECONDS = 0.5
HEARTBEAT_SECONDS = 30.0
SLOW_SECONDS = 20.0


def wanted(config: pytest.Config) -> bool:
    """Whether to show anything: not when quiet, not where the terminal reporter is off."""
    choice = config.option.battery_live
    if choice == "off" or not config.pluginmanager.hasplugin("terminalreporter"):
        return False
    return bool(choice == "on" or config.option.verbose == 0)


class Live:
    """Counts permutations as they are reported.  On a terminal a line is redrawn; elsewhere one is printed every
    30 seconds, so that a log shows that something is going on."""

    def __init__(self, config: pytest.Config, battery: Battery) -> None:
        self.config, self.battery = config, battery
        self._descriptor = -1
        self.on_terminal = False
        self.total = self.done = 0
        self.paid = 0.0
        self._shown = self._running = False
        self._started = self._last_line = time.monotonic()
        self._stop = threading.Event()
        self._lock = threading.Lock()

    def _open(self) -> None:
        """Our own handle of what pytest prints to: it redirects fd 1 while it collects and while items run, and gives
        it back in between."""
        try:
            self._descriptor = os.dup(sys.stdout.fileno())
        except (OSError, ValueError):  # no file behind stdout, as in an embedded pytest
            return
        dumb = os.environ.get("TERM", "dumb") == "dumb"
        self.on_terminal = os.isatty(self._descriptor) and not dumb and not os.environ.get("CI")

    def expect(self, total: int) -> None:
        self.total = total

    def text(self) -> str:
        seconds = time.monotonic() - self._started
        parts = [f"{self.done}/{self.total} permutations", f"${self.paid:.2f}", f"{seconds:.0f} s"]
        if self.done and self.done < self.total:
            parts.append(f"about {(self.total - self.done) * seconds / self.done:.0f} s left")
        if slow := self._slow():
            parts.append(slow)
        return " - ".join(parts)

    def _slow(self) -> str:
        """The run that has been waited for the longest, if that is long."""
        runner = self.config.pluginmanager.get_plugin("battery-runner")
        found = None if runner is None else runner.measuring.longest()
        if found is None or found[1] < SLOW_SECONDS:
            return ""
        lane, seconds = found
        return inert(f"{lane.permutation.task}::{lane.permutation.id} run {lane.run} asked {seconds:.0f} s ago")

    def draw(self) -> None:
        """Redraw the line, or print the heartbeat when it is due."""
        with self._lock:
            if not self._running or self._descriptor < 0:
                return
            if self.on_terminal:
                width = os.get_terminal_size(self._descriptor).columns
                self._write(f"{_ROOM}{_SAVE}{_DOWN}{self.text()[: width - 1]}{_CLEAR}{_BACK}")
                self._shown = True
            elif time.monotonic() - self._last_line >= HEARTBEAT_SECONDS:
                self._last_line = time.monotonic()
                self._write(f"\n[battery] {self.text()}\n")

    def clear(self) -> None:
        with self._lock:
            if self._shown:
                self._write(f"{_ROOM}{_SAVE}{_DOWN}{_CLEAR}{_BACK}")
                self._shown = False

    def _write(self, text: str) -> None:
        try:
            os.write(self._descriptor, text.encode())  # one write: nothing of pytest's can land inside it
        except OSError:
            self._running = False  # the terminal is gone; measuring goes on

    def _keep_drawing(self) -> None:
        while not self._stop.wait(DRAW_SECONDS):
            self.draw()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, Any]:
        self._open()
        items = getattr(session, "items", ())
        self.total = self.total or sum(permutation_of(item) is not None for item in items)
        self._started = self._last_line = time.monotonic()
        thread = threading.Thread(target=self._keep_drawing, name="battery live line", daemon=True)
        thread.start()
        try:
            return (yield)
        finally:
            self._stop.set()
            thread.join()
            self.clear()
            self._running = False
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self.clear()
        self._running = True  # xdist writes lines of its own before the first item starts

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.clear()
        plain = getattr(report, "battery", None)
        if plain is not None:
            self.done += 1
            self.paid += plain["usd"]
