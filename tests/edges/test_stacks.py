"""[stacks.X] of battery.toml: what it may say, and the stack that is made of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pytest_battery.edges.manifest import BrickTable, Manifest, load_manifest, stack_of
from pytest_battery.errors import ManifestError
from pytest_battery.values.stacks import NONE, Stack, StackBrick, stack

TEXT = """\
[stacks.shipped]
agent = "pi"
version = "1.6.0"
bricks = [
  "harness/modes.ts",
  { skill = "harness/review" },
  { context = "harness/AGENTS.md" },
]

[stacks.plain]
agent = "codex"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make(tmp_path / "project")


def make(root: Path, text: str = TEXT) -> Path:
    (root / "harness" / "review" / "scripts").mkdir(parents=True)
    (root / "harness" / "modes.ts").write_text("export default 1\n")
    (root / "harness" / "AGENTS.md").write_text("Be brief.\n")
    (root / "harness" / "review" / "SKILL.md").write_text("Review.\n")
    (root / "harness" / "review" / "scripts" / "run").write_text("#!/bin/sh\n")
    (root / "harness" / "review" / "scripts" / "run").chmod(0o755)
    (root / "battery.toml").write_text(text)
    return root


def shipped(root: Path) -> Stack:
    return stack_of(load_manifest(root), "shipped", "pi", root)


def refused(root: Path, key: str = "shipped", agent: str = "pi") -> tuple[str, ...]:
    with pytest.raises(ManifestError) as caught:
        stack_of(load_manifest(root), key, agent, root)
    assert caught.value.path == root / "battery.toml"
    return caught.value.faults


# -- the table -------------------------------------------------------------------------------------


def test_a_stack_is_read(project: Path) -> None:
    table = load_manifest(project).stacks["shipped"]
    assert (table.agent, table.version) == ("pi", "1.6.0")
    assert table.bricks == [
        BrickTable(kind="extension", path="harness/modes.ts"),
        BrickTable(kind="skill", path="harness/review"),
        BrickTable(kind="context", path="harness/AGENTS.md"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("[stacks.shipped]", "[stacks.bare]", "1: stacks.bare is a name of the plugin's own, for an agent without bricks; choose another one"),
        ("[stacks.shipped]", "[stacks.none]", "1: stacks.none is a name of the plugin's own, for a plain call without an agent"),
        ("[stacks.shipped]", '[stacks."a b"]', "1: stacks.a b 'a b' is not an id: use letters"),
        ('agent = "pi"', 'agent = "claude_code"', "2: stacks.shipped.agent is 'claude_code'; did you mean 'claude-code'? agents: loop, pi, claude-code, codex"),
        ('agent = "pi"\n', "", "1: stacks.shipped.agent is missing"),
        ('agent = "pi"', "agent = 1", "2: stacks.shipped.agent should be a string; found an integer, 1"),
        ('version = "1.6.0"', "version = 1.6", "3: stacks.shipped.version should be a string; found a float, 1.6"),
        ('version = "1.6.0"', 'version = "^1.6"', "3: stacks.shipped.version is '^1.6'; one version, as in 1.6.0"),
        ('version = "1.6.0"', 'verison = "1.6.0"', "3: stacks.shipped.verison is not known here; did you mean 'version'? known: agent, version, bricks"),
        ('version = "1.6.0"', 'env = { A = "1" }', "3: stacks.shipped.env is not known here; known: agent, version, bricks"),
        ('"harness/modes.ts"', '"harness/modes.md"', "4: stacks.shipped.bricks.0 is 'harness/modes.md', whose kind its name does not tell: write { KIND = 'harness/modes.md' }, KIND one of extension, skill, context, agents, mcp"),
        ('"harness/modes.ts"', "7", '4: stacks.shipped.bricks.0 should be a path, or a table as { skill = "PATH" }; found an integer, 7'),
        ("{ skill =", "{ skil =", "4: stacks.shipped.bricks.1 has the kind 'skil', which is not known here; did you mean 'skill'? known: extension, skill"),
        ("{ skill =", "{ prompt =", "4: stacks.shipped.bricks.1 has the kind 'prompt', which is not known here; known: extension, skill"),
        ("{ skill =", '{ mcp = "a", skill =', "4: stacks.shipped.bricks.1 has 2 kinds; a brick has one of extension, skill"),
        ('{ skill = "harness/review" }', "{}", "4: stacks.shipped.bricks.1 has 0 kinds; a brick has one of"),
        ('"harness/review"', "1", "4: stacks.shipped.bricks.1 has an integer for its path, 1; a path is a string"),
        ('"harness/review"', '"/etc"', "4: stacks.shipped.bricks.1.path '/etc' is absolute; a brick's path is relative to the project's root"),
        ('"harness/review"', '"~/review"', "4: stacks.shipped.bricks.1.path '~/review' is absolute"),
        ('"harness/review"', "'C:\\review'", "4: stacks.shipped.bricks.1.path 'C:\\\\review' is absolute"),
        ('"harness/review"', '"harness/../../x"', "4: stacks.shipped.bricks.1.path 'harness/../../x' is no path below the project's root; write one without .."),
        ('"harness/review"', '"."', "4: stacks.shipped.bricks.1.path '.' is no path below the project's root"),
        ('"harness/review"', '""', "4: stacks.shipped.bricks.1.path '' is no path below the project's root"),
        ('"harness/review"', '"harness\\\\review\\n"', "4: stacks.shipped.bricks.1.path 'harness\\\\review\\n' holds the control character '\\n': a backslash"),
        ('"harness/review"', '"harness//modes.ts"', "4: stacks.shipped.bricks lists harness/modes.ts twice"),
        ("bricks = [", 'bricks = "x.ts"\nother = [', "4: stacks.shipped.bricks should be an array; found a string, 'x.ts'"),
        ("[stacks.plain]\nagent =", "[stacks]\nplain =", "11: stacks.plain should be a table; found a string, 'codex'"),
    ],
)  # fmt: skip
def test_each_fault_of_a_stack_is_told_with_its_line(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert old in TEXT
    make(tmp_path / "p", TEXT.replace(old, new))
    with pytest.raises(ManifestError) as caught:
        load_manifest(tmp_path / "p")
    assert any(told.startswith(f"battery.toml:{fault}") for told in caught.value.faults), caught.value.faults


def test_all_faults_are_in_one_message(tmp_path: Path) -> None:
    text = TEXT.replace('"pi"', '"pie"').replace("{ skill", "{ skil").replace('"codex"', '"codec"')
    make(tmp_path / "p", text)
    with pytest.raises(ManifestError) as caught:
        load_manifest(tmp_path / "p")
    assert [fault.split(" ")[:2] for fault in caught.value.faults] == [
        ["battery.toml:2:", "stacks.shipped.agent"],
        ["battery.toml:4:", "stacks.shipped.bricks.1"],
        ["battery.toml:11:", "stacks.plain.agent"],
    ]


# -- the stack -------------------------------------------------------------------------------------


def test_a_stack_has_its_agent_version_and_bricks(project: Path) -> None:
    found = shipped(project)
    assert (found.key, found.agent, found.version) == ("shipped", "pi", "1.6.0")
    assert found.entries == ("extension harness/modes.ts", "skill harness/review", "context harness/AGENTS.md")
    assert [brick.path for brick in found.bricks] == [
        project / "harness" / "modes.ts",
        project / "harness" / "review",
        project / "harness" / "AGENTS.md",
    ]
    assert hash(found) == hash(shipped(project))


def test_the_version_of_the_installed_agent_stands_in_where_none_is_given(project: Path) -> None:
    manifest = load_manifest(project)
    assert stack_of(manifest, "plain", "codex", project, {"codex": "0.171.0"}).version == "0.171.0"
    assert stack_of(manifest, "shipped", "pi", project, {"pi": "9.9.9"}).version == "1.6.0"
    assert stack_of(manifest, "plain", "codex", project).version is None


def test_bare_needs_no_manifest_and_has_no_brick(tmp_path: Path) -> None:
    found = stack_of(Manifest(), "bare", "pi", tmp_path, {"pi": "1.6.0"})
    assert (found.key, found.agent, found.version, found.bricks, found.entries) == ("bare", "pi", "1.6.0", (), ())
    assert found.fingerprint != stack_of(Manifest(), "bare", "codex", tmp_path, {"codex": "1.6.0"}).fingerprint
    assert found.fingerprint != stack_of(Manifest(), "bare", "pi", tmp_path, {"pi": "1.6.1"}).fingerprint


def test_a_plain_call_has_no_stack() -> None:
    assert Stack("none") == NONE
    assert (NONE.fingerprint, NONE.agent, NONE.bricks) == ("", None, ())


def test_two_checkouts_give_the_same_fingerprint(project: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "elsewhere")
    for path in other.rglob("*"):
        os.utime(path, (1, 1))
    (other / "harness" / "review" / "__pycache__").mkdir()
    (other / "harness" / "review" / "__pycache__" / "x.pyc").write_bytes(b"x")
    (other / "harness" / "review" / ".DS_Store").write_bytes(b"x")
    assert shipped(project) == shipped(other)
    assert shipped(project).fingerprint == shipped(other).fingerprint


@pytest.mark.parametrize(
    "change", ["file", "in a directory", "new file", "renamed file", "mode", "version", "order", "kind"]
)
def test_what_a_stack_is_made_of_is_in_its_fingerprint(project: Path, change: str) -> None:
    before = shipped(project)
    harness = project / "harness"
    manifest = project / "battery.toml"
    text = manifest.read_text()
    if change == "file":
        (harness / "AGENTS.md").write_text("Be thorough.\n")
    elif change == "in a directory":
        (harness / "review" / "SKILL.md").write_text("Do not review.\n")
    elif change == "new file":
        (harness / "review" / "more").write_text("")
    elif change == "renamed file":
        (harness / "review" / "SKILL.md").rename(harness / "review" / "SKILLS.md")
    elif change == "mode":
        (harness / "review" / "scripts" / "run").chmod(0o644)
    elif change == "version":
        manifest.write_text(text.replace("1.6.0", "1.6.1"))
    elif change == "order":
        skill = '  { skill = "harness/review" },\n'
        manifest.write_text(
            text.replace(skill, "").replace('  "harness/modes.ts",\n', f'{skill}  "harness/modes.ts",\n')
        )
    else:
        manifest.write_text(text.replace("{ context", "{ agents"))
    assert shipped(project).fingerprint != before.fingerprint


def test_a_name_is_not_in_the_fingerprint() -> None:
    brick = StackBrick("skill", "a", "123", Path("/x/a"))
    same = StackBrick("skill", "b", "123", Path("/y/b"))
    assert stack("one", "pi", "1", [brick]).fingerprint == stack("two", "pi", "1", [same]).fingerprint


def test_files_and_names_cannot_be_shuffled_into_the_same_fingerprint(project: Path) -> None:
    review = project / "harness" / "review"
    (review / "a").write_text("x")
    (review / "b").write_text("y")
    before = shipped(project).fingerprint
    (review / "a").write_text("y")
    (review / "b").write_text("x")
    assert shipped(project).fingerprint != before


def test_an_installed_package_counts_by_its_version(project: Path) -> None:
    package = project / "node_modules" / "pi-memory"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"name": "pi-memory", "version": "2.0.1"}')
    (project / "battery.toml").write_text(
        '[stacks.shipped]\nagent = "pi"\nbricks = [{ extension = "node_modules/pi-memory" }]\n'
    )
    before = shipped(project)
    assert before.bricks[0].digest == "pi-memory@2.0.1"
    (package / "built-here.node").write_bytes(b"x")
    assert shipped(project).fingerprint == before.fingerprint
    (package / "package.json").write_text('{"name": "pi-memory", "version": "2.0.2"}')
    assert shipped(project).fingerprint != before.fingerprint
    (package / "package.json").write_text("{")
    assert shipped(project).bricks[0].digest != "pi-memory@2.0.2"


# -- what cannot be had ----------------------------------------------------------------------------


def test_an_unknown_stack_is_told_with_the_known_ones(project: Path) -> None:
    assert refused(project, "shiped") == (
        "battery.toml: there is no stack 'shiped'; did you mean 'shipped'? known: shipped, plain, bare",
    )
    assert refused(project, "x") == ("battery.toml: there is no stack 'x'; known: shipped, plain, bare",)
    assert refused(project, "none") == (
        "battery.toml: the stack none is for plain calls; an agent without bricks is bare",
    )


def test_an_unknown_agent_is_told_with_the_known_ones(project: Path) -> None:
    assert refused(project, "bare", "codecs") == (
        "there is no agent 'codecs'; did you mean 'codex'? agents: loop, pi, claude-code, codex, mini-swe-agent, command",
    )


def test_a_stack_of_another_agent_is_refused(project: Path) -> None:
    assert refused(project, "plain", "pi") == (
        "battery.toml:11: stacks.plain.agent is 'codex', and the task is for 'pi': a stack is measured under its own agent",
    )


def test_every_brick_that_is_missing_is_told(project: Path) -> None:
    (project / "harness" / "modes.ts").unlink()
    shutil.rmtree(project / "harness" / "review")
    assert refused(project) == (
        "battery.toml:4: stacks.shipped.bricks.0 names harness/modes.ts, and there is no such file or directory",
        "battery.toml:4: stacks.shipped.bricks.1 names harness/review, and there is no such file or directory",
    )


@pytest.mark.parametrize("how", ["the file", "a directory above", "in the directory", "round and round"])
def test_no_link_leads_out_of_the_project(project: Path, tmp_path: Path, how: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "AGENTS.md").write_text("a secret")
    harness = project / "harness"
    if how == "the file":
        (harness / "AGENTS.md").unlink()
        (harness / "AGENTS.md").symlink_to(outside / "AGENTS.md")
    elif how == "a directory above":
        harness.rename(tmp_path / "moved")
        harness.symlink_to(tmp_path / "moved")
    elif how == "in the directory":
        (harness / "review" / "secret").symlink_to(outside)
    else:
        (harness / "AGENTS.md").unlink()
        (harness / "AGENTS.md").symlink_to("AGENTS.md")
    told = refused(project)
    assert all(
        "leaves the project at" in fault or "cannot be read: Too many levels" in fault or "no such file" in fault
        for fault in told
    ), told
    if how == "in the directory":
        assert told == (
            f"battery.toml:4: stacks.shipped.bricks.1 holds the link secret, which leaves the project at {project}",
        )


def test_a_link_within_the_project_is_part_of_a_brick(project: Path) -> None:
    before = shipped(project)
    (project / "harness" / "review" / "more").symlink_to("../AGENTS.md")
    assert shipped(project).fingerprint != before.fingerprint


@pytest.mark.parametrize(
    ("make", "said"),
    [
        ("fifo", "holds pipe, which is neither a file nor a directory"),
        ("empty", "names a directory that holds no file"),
    ],
)
def test_what_is_no_brick_is_refused(project: Path, make: str, said: str) -> None:
    review = project / "harness" / "review"
    if make == "fifo":
        os.mkfifo(review / "pipe")
    else:
        shutil.rmtree(review)
        review.mkdir()
    assert refused(project) == (f"battery.toml:4: stacks.shipped.bricks.1 {said}",)


def test_a_brick_that_is_a_fifo_is_refused(project: Path) -> None:
    (project / "harness" / "AGENTS.md").unlink()
    os.mkfifo(project / "harness" / "AGENTS.md")
    (fault,) = refused(project)
    assert fault.startswith("battery.toml:4: stacks.shipped.bricks.2 names harness/AGENTS.md, which cannot be read: ")
