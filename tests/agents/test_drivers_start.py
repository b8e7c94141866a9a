"""What a driver refuses, and what it makes of a launch."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_battery.edges.agents.drivers import DRIVERS, Brick, Command, Driver, Launch, driver
from pytest_battery.edges.agents.launches import KINDS
from pytest_battery.errors import AgentError

from .running import APIS, launch_of, started

NAMES = sorted(DRIVERS)


def sandboxed(name: str, base: Path, **more: Any) -> Launch:
    inside = {"inside_dir": "/agent", "workdir": "/work", "inside_install": "/opt/agents", "inside_bricks": "/bricks"}
    return launch_of(name, base, **{**inside, **more})


def bricks_in(base: Path) -> dict[str, Brick]:
    """One of each kind."""
    (base / "ext/.claude-plugin").mkdir(parents=True)
    (base / "ext/.claude-plugin/plugin.json").write_text('{"name": "ext"}')
    (base / "skill").mkdir()
    (base / "skill/SKILL.md").write_text("---\nname: skill\ndescription: Does it.\n---\n")
    (base / "context.md").write_text("Mind the gap.\n")
    (base / "agents.json").write_text('{"one": {"description": "d", "prompt": "p"}}')
    (base / "mcp.json").write_text('{"mcpServers": {"mini": {"command": "mini", "env": {"A": null, "B": "x"}}}}')
    paths = {"extension": "ext", "skill": "skill", "context": "context.md", "agents": "agents.json", "mcp": "mcp.json"}
    return {kind: Brick(kind, base / paths[kind]) for kind in KINDS}


def content_of(directory: Path) -> dict[str, bytes | str]:
    return {
        path.relative_to(directory).as_posix(): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


# -- what is refused -------------------------------------------------------------------------------


def test_an_unknown_agent_is_named_with_those_that_there_are() -> None:
    with pytest.raises(AgentError, match=r"'clod'; there are loop, pi, claude-code, codex, mini-swe-agent and command"):
        driver("clod")


@pytest.mark.parametrize("name", NAMES)
def test_a_plain_launch_has_no_fault(name: str, tmp_path: Path) -> None:
    assert driver(name).fault(launch_of(name, tmp_path)) is None
    assert driver(name).version


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"api": "telepathy"}, "doesn't speak telepathy; it speaks "),
        ({"prompt": " \n"}, "an empty prompt"),
        ({"prompt": "a\0b"}, "the prompt holds a NUL character"),
        ({"system": "a\0b"}, "the system holds a NUL character"),
        ({"append": "a\0b"}, "the append holds a NUL character"),
        ({"model": "--model"}, "'--model' is no id of a model"),
        ({"model": "a\nb"}, "is no id of a model"),
        ({"base_url": "http://127.0.0.1:8080/"}, "is no base URL"),
        ({"base_url": 'http://x"y'}, "is no base URL"),
        ({"key": "$HOME"}, "the credential"),
        ({"key": "!command"}, "the credential"),
        ({"knobs": {"thinking": "hard"}}, "thinking=hard: the levels are off, minimal, low"),
        ({"knobs": {"max_tokens": "0"}}, "max_tokens=0: "),
        ({"knobs": {"max_tokens": "many"}}, "max_tokens=many: "),
        ({"tools": ("-e",)}, "'-e' is no name of a tool"),
        ({"tools": ("a,b",)}, "'a,b' is no name of a tool"),
        ({"bricks": (Brick("context", Path("/no/such/context.md")),)}, "/no/such/context.md"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is(
    name: str, change: Mapping[str, Any], said: str, tmp_path: Path
) -> None:
    fault = driver(name).fault(launch_of(name, tmp_path, **change))
    assert fault is not None
    assert said in fault
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_brick_is_taken_or_refused_with_what_is_allowed(name: str, kind: str, tmp_path: Path) -> None:
    brick = bricks_in(tmp_path)[kind]
    fault = driver(name).fault(launch_of(name, tmp_path, bricks=(brick,)))
    if kind in driver(name).bricks:
        assert fault is None
    else:
        assert fault == (
            f"{name} can't load the brick {brick.path} of the kind {kind}; it takes {', '.join(driver(name).bricks)}"
        )


@pytest.mark.parametrize(
    ("kind", "content", "said"),
    [
        ("skill", None, "is no skill: it must be a directory with a SKILL.md"),
        ("extension", None, "is no plugin"),
        ("context", None, "must be a file"),
        ("context", b"\xff", "is no UTF-8"),
        ("context", b"a\0b", "holds a NUL character"),
        ("context", b"x" * (2**20 + 1), "has 1048577 bytes; it may have 1048576"),
        ("agents", b"{", "is no JSON"),
        ("agents", b"[]", "must be an object of objects"),
        ("agents", b"{}", "is empty"),
        ("mcp", None, "must be a JSON file, or a directory with an mcp.json"),
        ("mcp", b'{"servers": {}}', 'must be {"mcpServers"'),
        ("mcp", b'{"mcpServers": {"x": 1}}', "must be an object of objects"),
    ],
)
def test_a_brick_that_is_not_what_it_should_be(kind: Any, content: bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "brick"
    path.mkdir() if content is None else path.write_bytes(content)
    fault = driver("claude-code").fault(launch_of("claude-code", tmp_path, bricks=(Brick(kind, path),)))
    assert fault is not None
    assert fault.startswith(f"the brick {path} ({kind}) {said}")


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("pi", {"tools": ("Bash",)}, "pi has no tool 'Bash'; it has read, bash, edit"),
        ("claude-code", {"tools": ("bash",)}, "claude-code has no tool 'bash'; it has Agent, Bash"),
        ("claude-code", {"prompt": "/cost"}, "begins with /"),
        ("claude-code", {"model": "opus"}, "write the model's full id"),
        ("codex", {"tools": ("shell",)}, "codex can't be told which tools it has"),
        ("mini-swe-agent", {"tools": ("read",)}, "has the tool bash and no other"),
        ("mini-swe-agent", {"prompt": "é" * 60_001}, "of at most 120000 bytes; this has 120002"),
    ],
)
def test_what_one_agent_cannot_do(name: str, change: Mapping[str, Any], said: str, tmp_path: Path) -> None:
    fault = driver(name).fault(launch_of(name, tmp_path, **change))
    assert fault is not None
    assert said in fault


@pytest.mark.parametrize(("kind", "tool"), [("skill", "Skill"), ("agents", "Agent")])
def test_claude_code_needs_the_tool_that_reaches_a_brick(kind: str, tool: str, tmp_path: Path) -> None:
    brick = bricks_in(tmp_path)[kind]
    launch = launch_of("claude-code", tmp_path, bricks=(brick,), tools=("Bash",))
    assert driver("claude-code").fault(launch) == (
        f"claude-code reaches {kind} bricks by its tool {tool}: add it to the tools"
    )
    assert driver("claude-code").fault(replace(launch, tools=("Bash", tool))) is None


# -- what is made ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_one_launch_is_one_start_whatever_the_directory_on_the_host(name: str, tmp_path: Path) -> None:
    kinds = driver(name).bricks
    (tmp_path / "bricks").mkdir()
    handed = tuple(brick for kind, brick in bricks_in(tmp_path / "bricks").items() if kind in kinds)
    first, second = (
        sandboxed(
            name, tmp_path, agent_dir=tmp_path / where, bricks=handed, append="And so on.", knobs={"thinking": "low"}
        )
        for where in ("a", "b")
    )
    one, two = driver(name).start(first), driver(name).start(second)
    assert (one.argv, one.environment, one.stdin, one.mounts) == (two.argv, two.environment, two.stdin, two.mounts)
    assert content_of(tmp_path / "a") == content_of(tmp_path / "b") != {}
    told = json.dumps([one.argv, dict(one.environment)]) + str(content_of(tmp_path / "a"))
    assert str(tmp_path) not in told, "a path of the host's is seen from inside"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_run_and_every_brick_is_mounted(name: str, tmp_path: Path) -> None:
    kinds = driver(name).bricks
    handed = tuple(brick for kind, brick in bricks_in(tmp_path).items() if kind in kinds)
    launch = sandboxed(name, tmp_path, bricks=handed)
    start = driver(name).start(launch)
    places = [inside for _, inside in start.mounts]
    assert any(start.argv[0].startswith(f"{place}/") for place in places)
    assert all(host.is_absolute() and inside.startswith("/") for host, inside in start.mounts)
    written = " ".join(start.argv) + str(content_of(launch.agent_dir))
    for number, brick in enumerate(handed, start=1):
        if brick.kind in ("extension", "skill"):
            assert (brick.path, f"/bricks/{number}/{brick.path.name}") in start.mounts
            assert f"/bricks/{number}/{brick.path.name}" in written


def test_a_text_of_any_kind_stays_the_same_in_codexs_configuration(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    odd = "\"\"\" ''' \\ \t \r\n \x01\x7f\x85\u2028 é 😀 # [a] = {b}"
    servers = {"mcpServers": {'odd.name "x"': {"command": odd, "args": [odd], "env": {odd: odd, "n": None}}}}
    (tmp_path / "mcp.json").write_text(json.dumps(servers))
    launch = sandboxed("codex", tmp_path, append=odd, bricks=(Brick("mcp", tmp_path / "mcp.json"),))
    driver("codex").start(launch)
    config = tomllib.loads((launch.agent_dir / "config.toml").read_bytes().decode())
    assert config["developer_instructions"] == odd
    assert config["mcp_servers"] == {'odd.name "x"': {"command": odd, "args": [odd], "env": {odd: odd}}}


@pytest.mark.parametrize("name", NAMES)
def test_no_credential_and_no_variable_of_ours_is_handed_on(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CODEX_HOME", "HOME", "PI_CODING_AGENT_DIR"):
        monkeypatch.setenv(variable, "SECRET-OF-OURS")
    launch = sandboxed(name, tmp_path, key="the-relays")
    start = driver(name).start(launch)
    everything = json.dumps([start.argv, dict(start.environment)]) + str(content_of(launch.agent_dir))
    assert "SECRET-OF-OURS" not in everything
    assert "the-relays" in everything


@pytest.mark.parametrize("name", NAMES)
def test_without_knobs_no_level_is_expected(name: str, tmp_path: Path) -> None:
    assert not any(
        "effort" in field or "thinking" in field for field in driver(name).expected(launch_of(name, tmp_path))
    )


# -- any program -----------------------------------------------------------------------------------


def shell(script: str, *more: str, **options: Any) -> Command:
    return Command(("/bin/sh", "-c", script, "agent", *more), **options)


def commanded(command: Command, base: Path, **more: Any) -> Any:
    launch = replace(launch_of("pi", base), api="anthropic", **more)
    assert command.fault(launch) is None
    return command.told(launch, *started(launch, command.start(launch), base))


def test_a_command_is_given_what_its_template_names(tmp_path: Path) -> None:
    options = {"environment": {"URL": "{base_url}"}, "stdin": "{append}"}
    command = shell('printf "%s|" "$@" "$URL"; cat', "{prompt}", "{{model}}={model}", "{key}", "{system}", **options)
    told = commanded(command, tmp_path, prompt="{key} $HOME 'é'", append="more", system="sys", key="k")
    assert told.final_text == "{key} $HOME 'é'|{model}=battery-1|k|sys|http://127.0.0.1:8080|more"
    assert (told.ended, told.error, told.turns) == (True, None, None)


def test_a_command_may_write_its_answer_into_a_file(tmp_path: Path) -> None:
    told = commanded(
        shell('echo noise; echo "$1" > "$2/answer.txt"', "{prompt}", "{agent_dir}", answer="answer.txt"), tmp_path
    )
    assert (told.final_text, told.ended) == ("What does hello.txt say?", True)


@pytest.mark.parametrize(
    ("script", "ended", "error"),
    [
        ("exit 3", False, "it said nothing, and it exited with 3"),
        ("true", False, "it said nothing, and it exited with 0"),
        ("echo half; echo why >&2; exit 1", False, "its output breaks off, and it exited with 1; it says: why"),
    ],
)
def test_a_command_that_fails_or_says_nothing_has_not_ended(
    script: str, ended: bool, error: str, tmp_path: Path
) -> None:
    told = commanded(shell(f": $1; {script}", "{prompt}"), tmp_path)
    assert (told.ended, told.error) == (ended, error)


@pytest.mark.parametrize(
    ("printed", "ended", "text"),
    [("answer\\nEND\\n", True, "answer"), ("answer\\n", False, "answer"), ("END\\nx", False, "END\nx")],
)
def test_a_command_with_an_end_marker_ends_with_it(printed: str, ended: bool, text: str, tmp_path: Path) -> None:
    told = commanded(shell(f": $1; printf '{printed}'", "{prompt}", end="END"), tmp_path)
    assert (told.ended, told.final_text, bool(told.error)) == (ended, text, not ended)


def test_a_command_that_was_killed_has_not_ended(tmp_path: Path) -> None:
    launch = replace(launch_of("pi", tmp_path), api="anthropic")
    told = shell("", "{prompt}").told(launch, b"an answer", b"", 0, True)
    assert (told.ended, told.error) == (False, "it was ended when its time was up")


@pytest.mark.parametrize("kind", ["link", "directory", "pipe"])
def test_an_answer_that_is_no_plain_file_is_not_read(kind: str, tmp_path: Path) -> None:
    command = shell("", "{prompt}", answer="out/answer.txt")
    launch = replace(launch_of("pi", tmp_path), api="anthropic")
    command.start(launch)
    (launch.agent_dir / "out").mkdir()
    answer = launch.agent_dir / "out/answer.txt"
    match kind:
        case "link":
            answer.symlink_to("/etc/hostname")
        case "directory":
            answer.mkdir()
        case "pipe":
            os.mkfifo(answer)
    told = command.told(launch, b"", b"", 0, False)
    assert (told.final_text, told.ended) == ("", False)
    assert len(told.forged) == 1


def test_a_directory_of_the_answer_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/answer.txt").write_text("SECRET")
    command = shell("", "{prompt}", answer="out/answer.txt")
    launch = replace(launch_of("pi", tmp_path), api="anthropic")
    command.start(launch)
    (launch.agent_dir / "out").symlink_to(tmp_path / "elsewhere")
    assert command.told(launch, b"", b"", 0, False).final_text == ""


@pytest.mark.parametrize(
    ("command", "change", "said"),
    [
        (Command(("agent", "{promt}")), {}, "there is no {promt} to put into '{promt}'; there are {prompt}, {model}"),
        (Command(("agent",)), {}, "{prompt} is in neither argv"),
        (Command(()), {}, "argv names no program"),
        (Command(("agent", "{prompt}")), {"system": "s"}, "the task has system, and {system} is in neither"),
        (Command(("agent", "{prompt}")), {"tools": ("bash",)}, "leave them out"),
        (Command(("agent", "{prompt}")), {"prompt": "x" * 130_000}, "hand the prompt over by stdin"),
        (Command(("agent", "{prompt}"), answer="../x"), {}, "no path below the agent's directory"),
        (Command(("agent", "{prompt}"), answer="/etc/passwd"), {}, "no path below the agent's directory"),
        (Command(("agent", "{prompt}"), apis=("google",)), {}, "command doesn't speak anthropic; it speaks google"),
        (Command(("agent", "{prompt}")), {"bricks": (Brick("context", Path("x")),)}, "it takes none"),
    ],
)
def test_a_template_that_cannot_be_filled(
    command: Command, change: Mapping[str, Any], said: str, tmp_path: Path
) -> None:
    fault = command.fault(replace(launch_of("pi", tmp_path), api="anthropic", **change))
    assert fault is not None
    assert said in fault


def test_a_command_is_a_driver_as_the_others_are() -> None:
    drivers: list[Driver] = [*DRIVERS.values(), Command(("agent",))]
    assert [one.name for one in drivers] == ["pi", "claude-code", "codex", "mini-swe-agent", "command"]
    assert set(APIS) == set(DRIVERS)
