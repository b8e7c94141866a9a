"""What a person sees: on a terminal, in a log, on a narrow screen, in an old encoding."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios

import pyte
import pytest

QUIET = [
    option
    for name in ("randomly", "asyncio", "timeout", "cacheprovider", "html", "hypothesispytest")
    for option in ("-p", f"no:{name}")
]


def on_a_terminal(project, *arguments: str, columns: int = 80) -> tuple[str, list[str]]:
    """Everything written to a terminal of that width, and what its screen shows in the end."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns)}
    environment.pop("CI", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *QUIET, *arguments],
        cwd=project.path,
        env=environment,
        stdin=side,
        stdout=side,
        stderr=side,
    )
    os.close(side)
    written = b""
    while True:
        ready, _, _ = select.select([main], [], [], 60)
        try:
            chunk = os.read(main, 65536) if ready else b""
        except OSError:  # the other side is closed
            chunk = b""
        if not chunk:
            break
        written += chunk
    process.wait(timeout=60)
    os.close(main)
    screen = pyte.Screen(columns, 50)
    pyte.ByteStream(screen).feed(written)
    return written.decode(), [line.rstrip() for line in screen.display]


@pytest.fixture
def slow(project):
    project.fake(handler="slowly")
    with (project.path / "conftest.py").open("a") as conftest:
        conftest.write(
            "async def slowly(request):\n    import anyio\n    await anyio.sleep(0.8)\n    return answer(request)\n"
        )
    project.task(cases=3)
    return project


def test_a_line_below_pytests_own_says_how_far_it_is_and_leaves_no_trace(slow):
    written, screen = on_a_terminal(slow, "--jobs", "2")
    assert "/6 permutations - $0.00 - " in written
    assert "s left" in written
    assert not any("permutations - $" in line for line in screen)
    assert any(line.startswith("benchmarks/echo.toml ......") for line in screen), screen
    assert any("= battery =" in line for line in screen)


@pytest.mark.parametrize("arguments", [("--battery-live=off",), ("-v",), ("-q",)])
def test_the_line_is_not_drawn_where_it_is_not_wanted(slow, arguments):
    written, _ = on_a_terminal(slow, "--jobs", "2", *arguments)
    assert "permutations - $" not in written


def test_workers_of_xdist_share_one_line(slow):
    written, screen = on_a_terminal(slow, "-n", "2", "--jobs", "1")
    assert "/6 permutations - $0.00 - " in written
    assert not any("permutations - $" in line for line in screen)


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_nothing_of_ours_is_wider_than_the_screen(project, columns):
    project.task(
        cases=6,
        replace={
            '"fake/small", "fake/big"': '"fake/small@temperature=0.25", "fake/a-model-with-a-name-as-long-as-some-are:high@temperature=0.5"'
        },
    )
    _, screen = on_a_terminal(project, "--color=no", columns=columns)
    start = next(index for index, line in enumerate(screen) if "= battery =" in line)
    table = screen[start + 1 :]
    assert any("reference" in line for line in table)
    assert all(len(line) <= columns for line in table)
    assert any("inconclusive" in line or "established" in line for line in table)


def test_a_log_has_a_heartbeat(slow):
    with (slow.path / "conftest.py").open("a") as conftest:
        conftest.write("from pytest_battery.plugin import live\nlive.HEARTBEAT_SECONDS = live.DRAW_SECONDS = 0.1\n")
    result = slow.run("--jobs", "2", process=True)
    result.stdout.re_match_lines([r"\[battery\] [0-6]/6 permutations - \$0\.00 - \d+ s.*"])


def test_the_header_is_one_line_and_only_where_there_is_a_battery(project):
    project.task(cases=1)
    first = project.run()
    assert not any(line.startswith("battery: store") for line in first.outlines)
    second = project.run()
    assert sum(line == "battery: store store, 16 runs in flight at most" for line in second.outlines) == 1


def test_a_log_has_no_cursor_tricks_and_no_colour(slow):
    result = slow.run("--jobs", "2", process=True)
    assert "\x1b" not in result.stdout.str()


@pytest.mark.parametrize("variable", ["NO_COLOR", "FORCE_COLOR"])
def test_words_carry_the_meaning_and_colour_repeats_it(project, monkeypatch, variable):
    project.task(cases=8, replace={'"fake/small", "fake/big"': '"fake/big", "fake/small"'})
    project.fake("return word if request.subject.model == 'big' else 'no'")
    monkeypatch.delenv("PY_COLORS")  # pytester's own
    monkeypatch.setenv(variable, "1")
    text = project.run().stdout.str()
    assert "established ★ worse" in text
    assert ("\x1b[31m" in text) == (variable == "FORCE_COLOR")


def test_an_old_encoding_gets_characters_it_has(project, monkeypatch):
    project.task(cases=8)
    project.fake("return word if request.subject.model == 'big' else 'no'")
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252")
    result = project.pytester.run(sys.executable, "-m", "pytest", *QUIET)
    assert result.ret == 0
    text = result.stdout.str()
    assert "established ** better" in text
    assert "★" not in text


def test_what_a_model_says_moves_no_cursor(project):
    project.fake("raise CallError('odd', 'subject', '\\x1b[2J\\x1b]0;title\\x07 \\u202egnp.exe')")
    project.task(cases=1)
    result = project.run("-rfE")
    text = result.stdout.str()
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\x1b[2J" in text
