"""Every cell against its own records in another revision, or in another store."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pytest_battery.doing import elsewhere
from pytest_battery.plugin import against, comparing, gate

from ..store.git_repository import Repository
from .conftest import Project

LOADED = (against, comparing, elsewhere, gate)  # numpy can't be imported twice in one process

ONE = {'subjects = ["fake/small", "fake/big"]': 'subjects = ["fake/big"]'}
BROKEN = 'if "PLEASE" in text: return "no"'


@pytest.fixture
def repository(project: Project) -> Repository:
    """A project with 24 cases, measured and committed, whose model fails once it is asked with PLEASE."""
    project.fake(BROKEN)
    project.task(cases=24, replace=ONE)
    repository = Repository(project.path)
    assert project.run("benchmarks").ret == 0
    (project.path / ".gitignore").write_text("calls.log\n__pycache__\n", encoding="utf-8")
    repository.commit("measured")
    return repository


def edit(project: Project, old: str, new: str, name: str = "benchmarks/echo.toml") -> None:
    path = project.path / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def gates(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if line.startswith(("gate passed", "gate failed"))]


def table(project: Project, *arguments: str) -> dict[str, object]:
    project.run("benchmarks", "--battery-json", "o.json", *arguments)
    found: dict[str, object] = json.loads((project.path / "o.json").read_text())
    return found


# -- an edited prompt -----------------------------------------------------------------------------


@pytest.mark.parametrize("distributed", [False, True], ids=["one process", "xdist"])
def test_a_prompt_edited_for_the_worse_is_red(project: Project, repository: Repository, distributed: bool) -> None:
    edit(project, "ECHO:", "PLEASE ECHO:")
    extra, plugins = (["-n", "2"], ["xdist"]) if distributed else ([], [])
    result = project.run("benchmarks", "--against", "main", "--gate", *extra, plugins=plugins)
    assert result.ret == 1
    assert "established worse: correct -1.00" in gates(result)[0]
    commit = repository("rev-parse", "--short=7", "main")
    result.stdout.fnmatch_lines(
        [
            f"reference: main ({commit}, committed * ago), 24 records, measured *, newest * old, answered by big",
            f"*fake/big/none in {commit}*1.00*reference*24",
        ]
    )
    assert len(project.calls) == 48


def test_an_edit_that_changes_no_answer_is_green_with_the_bound(project: Project, repository: Repository) -> None:
    edit(project, "ECHO:", "  ECHO:")
    result = project.run("benchmarks", "--against", "main", "--gate")
    assert result.ret == 0
    assert "inconclusive: 0 of 24 shared cases differ; at least 6 must; 95%: no loss beyond 0.14" in gates(result)[0]


def test_nothing_edited_is_called_unchanged_and_not_a_zero_gap(project: Project, repository: Repository) -> None:
    result = project.run("benchmarks", "--against", "HEAD", "--gate")
    assert result.ret == 0
    assert "unchanged, its 24 shared cases are the same runs as in HEAD; nothing was compared" in gates(result)[0]
    assert project.run("benchmarks", "--against", "HEAD", "--gate=strict").ret == 1


def test_a_dirty_store_is_not_read_as_the_reference(project: Project, repository: Repository) -> None:
    edit(project, "ECHO:", "PLEASE ECHO:")
    project.run("benchmarks")
    assert project.run("benchmarks", "--against", "HEAD", "--gate").ret == 1


# -- cases ----------------------------------------------------------------------------------------


def test_cases_added_removed_and_changed_are_left_out_and_named(project: Project, repository: Repository) -> None:
    edit(project, "ECHO:", "PLEASE ECHO:")
    edit(project, '\n[[case]]\nid = "t03"\nword = "wxx"\n', '\n[[case]]\nid = "new"\nword = "wxx"\n')
    edit(project, 'id = "t05"\nword = "wxxxx"', 'id = "t05"\nword = "other"')
    result = project.run("benchmarks", "--against", "main")
    result.stdout.fnmatch_lines(
        [
            "*1.00*reference*22",
            "    1 case changed since, left out: t05",
            "    1 case no longer in the task, left out: t03",
            "*22/24*",
            "    2 cases only here: new, t05",
        ]
    )


def test_a_field_that_only_the_grade_reads_does_not_change_the_case(project: Project, repository: Repository) -> None:
    edit(project, 'equals = "{{ case.word }}"', 'equals = "{{ case.expected }}"')
    path = project.path / "benchmarks" / "echo.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("\nword = ", '\nexpected = "no"\nword = '), encoding="utf-8")
    result = project.run("benchmarks", "--against", "main")
    result.stdout.fnmatch_lines(["*0.00*reference*24", "    24 runs graded again by the scorer as it is now"])
    assert len(project.calls) == 24


# -- the scorer, and replies that are not there ----------------------------------------------------


LONG = 'if "PLEASE" not in text: return "x" * 9000'


def test_a_changed_scorer_grades_the_reference_again(project: Project, repository: Repository) -> None:
    edit(project, "ECHO:", "PLEASE ECHO:")
    edit(project, "equals =", 'contains = "n"\n# equals =')
    result = project.run("benchmarks", "--against", "main")
    result.stdout.fnmatch_lines(
        ["*0.00*reference*24", "    24 runs graded again by the scorer as it is now", "*+1.00*"]
    )


def test_a_reply_that_cannot_be_graded_again_refuses_the_reference_by_name(project: Project) -> None:
    project.fake(LONG)
    project.task(cases=8, replace=ONE)
    repository = Repository(project.path)
    project.run("benchmarks")
    repository.commit()
    edit(project, "ECHO:", "PLEASE ECHO:")
    edit(project, "equals =", 'contains = "n"\n# equals =')
    result = project.run("benchmarks", "--against", "main", "--gate")
    assert result.ret == 1
    assert (
        "the scorer has changed since main, and the whole reply of t01-1, t02-1, t03-1, t04-1, t05-1, and 3 more is not there"
        in gates(result)[0]
    )


def test_committed_evidence_lets_a_long_reply_be_graded_again(project: Project) -> None:
    project.fake(LONG)
    project.task(cases=8, replace=ONE)
    repository = Repository(project.path)
    project.run("benchmarks")
    repository("add", "--all", "--force", "store")
    repository.commit()
    shutil.rmtree(project.path / "store")
    edit(project, "ECHO:", "PLEASE ECHO:")
    edit(project, "equals =", 'contains = "x"\n# equals =')
    result = project.run("benchmarks", "--against", "main")
    result.stdout.fnmatch_lines(["*1.00*reference*8", "    8 runs graded again by the scorer as it is now"])


def test_records_that_were_stale_in_the_revision_are_left_out(project: Project, repository: Repository) -> None:
    edit(project, "ECHO:", "NOW ECHO:")
    repository.commit("edited and not measured again")
    edit(project, "NOW ECHO:", "PLEASE ECHO:")
    result = project.run("benchmarks", "--against", "main", "--gate")
    assert result.ret == 1
    assert "the reference has no data: 24 stale" in gates(result)[0]


def test_another_answering_model_is_a_warning_beside_the_verdict(project: Project, repository: Repository) -> None:
    project.fake('return Reply(text=word, model="big-2026", observed={})')
    edit(project, "ECHO:", "NOW ECHO:")
    result = project.run("benchmarks", "--against", "main")
    result.stdout.fnmatch_lines(["    answered by big-2026; the reference was answered by big"])


# -- where the repository and the store lie -------------------------------------------------------


def test_a_store_below_the_repositorys_root_seen_from_a_subdirectory(
    pytester: pytest.Pytester, project: Project
) -> None:
    top = project.path
    inner = top / "inner" / "project"
    inner.mkdir(parents=True)
    project.path = inner
    project.fake(BROKEN)
    project.task(cases=24, replace=ONE)
    (inner / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    repository = Repository(top)
    pytester.chdir()
    arguments = ["--rootdir", "inner/project", "-c", "inner/project/pytest.ini", "inner/project/benchmarks"]
    assert project.run(*arguments).ret == 0
    repository.commit()
    edit(project, "ECHO:", "PLEASE ECHO:")
    assert project.run(*arguments, "--against", "main", "--gate").ret == 1


def test_a_linked_worktree_reads_the_same_objects(
    project: Project, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked = tmp_path / "linked"
    repository("worktree", "add", "--quiet", str(linked), "-b", "side")
    monkeypatch.chdir(linked)
    project.path = linked
    edit(project, "ECHO:", "PLEASE ECHO:")
    result = project.run("--rootdir", str(linked), "benchmarks", "--against", "main", "--gate")
    assert result.ret == 1
    assert "established worse" in gates(result)[0]


def test_gits_own_variables_and_hooks_are_harmless(
    project: Project, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(project, "ECHO:", "PLEASE ECHO:")
    marker = project.path / "ran"
    for hook in ("post-checkout", "reference-transaction", "pre-auto-gc"):
        path = project.path / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {marker}\n", encoding="utf-8")
        path.chmod(0o755)
    repository("config", "core.fsmonitor", f"touch {marker}")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, "/nonexistent")
    result = project.run("benchmarks", "--against", "main", "--gate")
    assert "established worse" in gates(result)[0]
    assert not marker.exists()


# -- another directory ----------------------------------------------------------------------------


def test_another_store_is_a_reference_too(project: Project, repository: Repository) -> None:
    shutil.copytree(project.path / "store", project.path / "older")
    edit(project, "ECHO:", "PLEASE ECHO:")
    result = project.run("benchmarks", "--against", "older", "--gate")
    assert result.ret == 1
    assert "vs older]: established worse" in gates(result)[0]


def test_a_case_that_changed_is_noticed_without_the_old_task_file(project: Project, repository: Repository) -> None:
    shutil.copytree(project.path / "store", project.path / "older")
    edit(project, "ECHO:", "PLEASE ECHO:")
    edit(project, 'id = "t05"\nword = "wxxxx"', 'id = "t05"\nword = "other"')
    result = project.run("benchmarks", "--against", "older")
    result.stdout.fnmatch_lines(["    1 case changed since, left out: t05"])


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("against", "message"),
    [
        ("nowhere", "--against nowhere: there is no revision nowhere in the repository at *"),
        (
            "no/such/dir",
            "--against no/such/dir: no such directory, and there is no revision no/such/dir in the repository*",
        ),
        ("--help-me", "*"),
        ("empty", "--against empty: empty holds no record"),
        ("store", "--against store: store is this session's own store; a battery compared with itself has no gap*"),
        ("bare", "--against bare: bare (*) has no record in store: measure there and commit its store first"),
    ],
)
def test_a_reference_that_is_none_is_refused_before_anything_is_asked(
    project: Project, repository: Repository, against: str, message: str
) -> None:
    (project.path / "empty").mkdir()
    empty_tree = (
        repository("mktree", "--missing") if False else repository("hash-object", "-t", "tree", "-w", "/dev/null")
    )
    commit = repository("commit-tree", empty_tree, "-m", "bare")
    repository("branch", "bare", commit)
    edit(project, "ECHO:", "PLEASE ECHO:")
    result = project.run("benchmarks", f"--against={against}")
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"*{message}"])
    assert len(project.calls) == 24


def test_a_record_of_a_newer_version_is_refused_before_anything_is_asked(
    project: Project, repository: Repository
) -> None:
    path = next((project.path / "store").glob("echo/*/*/*.json"))
    newer = json.loads(path.read_bytes()) | {"schema": 99}
    path.write_text(json.dumps(newer), encoding="utf-8")
    repository.commit("newer")
    repository("checkout", "--quiet", "HEAD~1", "--", "store")
    edit(project, "ECHO:", "PLEASE ECHO:")
    result = project.run("benchmarks", "--against", "main")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*main:store/echo/*.json: written by a newer version of pytest-battery (schema 99*"])
    assert len(project.calls) == 24


def test_a_corrupt_object_is_one_record_less(project: Project, repository: Repository) -> None:
    path = next((project.path / "store").glob("echo/*/*/t01-1.json")).relative_to(project.path)
    file = repository.object_file(f"HEAD:{path.as_posix()}")
    file.chmod(0o644)
    file.write_bytes(b"not zlib")
    edit(project, "ECHO:", "PLEASE ECHO:")
    result = project.run("benchmarks", "--against", "main")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*reference*23/24*", "    1 invalid run left out: 1 unreadable"])


def test_a_project_in_no_repository_is_told(project: Project) -> None:
    project.task(cases=8, replace=ONE)
    result = project.run("benchmarks", "--against", "main")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--against main: * is in no git repository"])


def test_a_shallow_clone_says_what_to_fetch(project: Project, repository: Repository, tmp_path: Path) -> None:
    repository.commit("second")
    clone = tmp_path / "clone"
    repository("clone", "--quiet", "--depth=1", f"file://{project.path}", str(clone))
    shallow = Repository(clone, init=False)
    project.path = clone
    result = project.run("--rootdir", str(clone), str(clone / "benchmarks"), "--against", "origin/other")
    assert result.ret == 4
    result.stderr.fnmatch_lines(
        ["*no revision origin/other here; fetch it: git fetch --depth=1 origin other:refs/remotes/origin/other"]
    )
    result = project.run("--rootdir", str(clone), str(clone / "benchmarks"), "--against", "v1")
    result.stderr.fnmatch_lines(["*no revision v1 in this shallow clone; fetch the history: git fetch --unshallow"])
    assert shallow("rev-parse", "--is-shallow-repository") == "true"


# -- the verbs ------------------------------------------------------------------------------------


def test_two_revisions_are_compared_without_a_call(project: Project, repository: Repository) -> None:
    edit(project, "ECHO:", "PLEASE ECHO:")
    project.run("benchmarks")
    repository.commit("worse")
    calls = len(project.calls)
    result = project.battery("compare", "HEAD~1", "HEAD", "benchmarks")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["reference: HEAD~1 (*), 24 records*", "candidate: HEAD (*), 24 records*", "*-1.00*", "*established ★ worse*"]
    )
    assert len(project.calls) == calls


def test_two_subjects_are_compared_from_the_store(project: Project) -> None:
    project.task(cases=24)
    project.run("benchmarks")
    result = project.battery("compare", "fake/big", "fake/small", "benchmarks", "--json")
    document = json.loads(result.stdout.str())
    assert document["table"]["rows"][1]["gap"]["direction"] == "worse"
    assert len(project.calls) == 48


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fake/big", "fake/big"], "compare fake/big fake/big: a subject compared with itself has no gap"),
        (["store", "store"], "compare store store: both are this session's own store"),
        (["store", "fake/big"], "compare store fake/big: one names a subject and the other a place*"),
        (["???", "fake/big"], "[?][?][?]: neither a directory nor a git revision (*), and no subject"),
    ],
)
def test_what_cannot_be_compared_is_refused(project: Project, arguments: list[str], message: str) -> None:
    project.task(cases=4)
    project.run("benchmarks")
    result = project.battery("compare", *arguments, "benchmarks")
    assert result.ret == 4
    result.stderr.fnmatch_lines([message])


def test_the_plan_ranks_what_is_not_known_and_calls_nobody(project: Project) -> None:
    project.fake('if len(word) > 3 and request.subject.model == "big": return "no"')
    project.task(cases=12, runs=2, replace={"primary = true": "primary = true\ncare = 0.3"})
    project.run("benchmarks")
    calls = len(project.calls)
    result = project.battery("plan", "benchmarks")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "gaps of primary metrics that do not hold yet: 1, the cheapest verdict first",
            "*a gap of 0.3 needs about * cases (12 now)*",
        ]
    )
    assert len(project.calls) == calls


def test_the_plan_says_what_can_never_be_told(project: Project) -> None:
    project.task(cases=2)
    result = project.battery("plan", "benchmarks")
    result.stdout.fnmatch_lines(["*nothing can be established: 6 cases are needed (2 now), or 3 runs of each (1 now)"])
    assert project.calls == []


def test_selfcheck_counts_the_gaps_that_are_not_there(project: Project) -> None:
    project.fake('import random; return word if random.random() < 0.5 else "no"')
    project.task(cases=20, runs=4)
    project.run("benchmarks")
    result = project.battery("selfcheck", "benchmarks", "--json")
    checks = json.loads(result.stdout.str())
    assert [check["splits"] for check in checks] == [200, 200]
    assert all(check["rate"] < 0.15 for check in checks)


def test_selfcheck_needs_repeats(project: Project) -> None:
    project.task(cases=4)
    project.run("benchmarks")
    result = project.battery("selfcheck", "benchmarks")
    result.stdout.fnmatch_lines(["echo: correct: fake/small/none: needs two runs of a case or more"])
