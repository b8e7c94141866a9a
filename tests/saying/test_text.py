from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from pytest_battery.saying.cells import CellRecords, TaskRecords
from pytest_battery.saying.gaps import GapTable, gap_table
from pytest_battery.saying.rendering.fitting import columns
from pytest_battery.saying.rendering.text import render
from pytest_battery.saying.rendering.wording import p_text
from pytest_battery.values.tasks import Metric

CASES = [f"c{i:02}" for i in range(24)]
WIDTHS = [60, 80, 100, 140, 200]
STOCK = "stock-with-everything"
KNOBS = "@max_tokens=24,temperature=0"
MakeCell = Callable[..., CellRecords]
MakeTask = Callable[..., TaskRecords]


def passing(number: int, cases: list[str] = CASES) -> dict[str, list[bool]]:
    return {case: [place < number] * 3 for place, case in enumerate(cases)}


def text(table: GapTable, **options: Any) -> str:
    return "\n".join(line.text for line in render(table, **options))


@pytest.fixture(scope="module")
def table(cell: MakeCell, task: MakeTask) -> GapTable:
    return gap_table(
        [
            task(
                cell("local/small", passing(10)),
                cell("local/medium", passing(18)),
                cell("local/large", passing(12, CASES[:23]), planned=CASES),
                cell("local/ghost", {}, planned=CASES, invalid={"timeout": 24}),
                cell("local/worse", passing(4)),
            )
        ]
    )


@pytest.fixture(scope="module")
def long_table(cell: MakeCell, task: MakeTask) -> GapTable:
    """Long names, two metrics, knobs in common, an unbounded interval, and a number with many digits."""
    dice = random.Random(7)

    def both(chance: float, cases: list[str] = CASES) -> dict[str, list[dict[str, Any]]]:
        return {
            case: [
                {"correct": dice.random() < chance, "latency": round(dice.lognormvariate(8 - chance, 0.5), 3)}
                for _ in range(3)
            ]
            for case in cases
        }

    metrics = (Metric("correct", "higher", primary=True), Metric("latency", "lower"))
    cells = [
        cell(f"local/smollm2-135m-instruct{KNOBS}", both(0.4), stack=STOCK),
        cell(f"anthropic/claude-haiku-4-5-20251001:low{KNOBS}", both(0.9), stack=STOCK),
        cell(f"anthropic/claude-haiku-4-5-20251001:high{KNOBS}", both(0.5), stack=STOCK),
        cell(f"local/qwen{KNOBS},top_k=40", both(0.5, CASES[:1]), planned=CASES),
    ]
    return gap_table([task(*cells, metrics=metrics, name="triage-of-incoming-support-tickets")])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "ascii"])
def test_no_line_is_wider_than_asked_and_every_line_can_be_written(
    width: int, encoding: str, table: GapTable, long_table: GapTable
) -> None:
    for shown in (table, long_table):
        for line in render(shown, width=width, encoding=encoding):
            line.text.encode(encoding)
            assert columns(line.text) <= width
            assert line.text == line.text.rstrip()


@pytest.mark.parametrize("width", WIDTHS)
def test_numbers_are_whole_at_every_width(width: int, long_table: GapTable) -> None:
    wide, here = text(long_table, width=200), text(long_table, width=width)
    numbers = re.compile(r"\[[-+.\d]+, [-+.\d]+\]|unbounded|<0\.001|\b\d+/24\b")
    assert numbers.findall(here) == numbers.findall(wide)
    assert len(numbers.findall(wide)) == 8  # six intervals, two counts


def test_a_row_is_a_line_where_there_is_room(table: GapTable) -> None:
    assert text(table, width=140).splitlines() == [
        "task    subject/stack      value    gap    95% interval      n  p (Holm)  verdict",
        "triage  local/small/none    0.42              reference     24",
        "triage  local/medium/none   0.75  +0.33  [+0.12, +0.55]     24     0.031  established ★ better",
        "triage  local/large/none    0.52  +0.09   [0.00, +0.20]  23/24      0.50  inconclusive: 2 of 23 shared cases"
        " differ; at least 6 must",
        "    1 case only in the reference: c23",
        "    a true gap of about ±0.18 would have been established 4 times in 5, of ±0.2 among 3 gaps",
        "triage  local/ghost/none       -      -               -   0/24         -  no data: 24 timeout",
        "triage  local/worse/none    0.17  -0.25  [-0.44, -0.08]     24     0.055  established ☆ worse",
        "    (not after Holm over 3): cannot hold among 3 gaps: 6 of 24 shared cases differ; at least 7 must",
        "Holm over 3 gaps, 1 more could not be computed; ★ holds after Holm, ☆ only its own 95% interval excludes zero",
    ]


def test_at_eighty_columns_the_task_is_a_heading_and_the_verdict_a_line(table: GapTable) -> None:
    lines = text(table, width=80).splitlines()
    assert lines[:5] == [
        "subject/stack      value    gap    95% interval      n  p (Holm)",
        "triage",
        "local/small/none    0.42              reference     24",
        "local/medium/none   0.75  +0.33  [+0.12, +0.55]     24     0.031",
        "    established ★ better",
    ]


def test_a_reason_without_room_goes_below_its_row(table: GapTable) -> None:
    lines = text(table, width=100).splitlines()
    place = next(place for place, line in enumerate(lines) if "local/large" in line)
    assert lines[place].endswith("inconclusive")
    assert lines[place + 1] == "    2 of 23 shared cases differ; at least 6 must"


def test_names_that_would_be_confused_are_written_out(long_table: GapTable) -> None:
    for width in WIDTHS:
        lines = text(long_table, width=width)
        labels = {line.split("  ")[0] for line in lines.splitlines() if "haiku" in line or "…" in line}
        assert len(labels) >= 2 or width >= 140
    assert "anthropic/claude-haiku-4-5-20251001:high/stock-with-everythi" in text(long_table, width=60)
    assert "…" not in text(long_table, width=60)


def test_names_give_way_in_the_middle(cell: MakeCell, task: MakeTask) -> None:
    name = "long-" * 12
    shown = text(gap_table([task(cell(f"local/{name}a", passing(2)), cell(f"local/b{name}", passing(20)))]), width=100)
    assert re.search(r"local/b\S+…\S+/none +0\.83 ", shown)


def test_knobs_that_all_subjects_share_are_said_once(long_table: GapTable) -> None:
    lines = text(long_table, width=200).splitlines()
    assert lines[0] == "every subject: max_tokens=24, temperature=0"
    assert not any("max_tokens" in line for line in lines[1:])
    assert any("local/qwen@top_k=40/none" in line for line in lines)


def test_knobs_that_only_a_tasks_subjects_share_are_said_once_for_the_task(cell: MakeCell, task: MakeTask) -> None:
    def of(name: str, most: int) -> TaskRecords:
        knobs = f"max_tokens={most},temperature=0"
        cells = [cell(f"local/{model}@{knobs}", passing(9), task=name) for model in "ab"]
        return task(*cells, name=name)

    lines = text(gap_table([of("one", 5), of("two", 9), of("three", 9)]), width=120).splitlines()
    assert lines[:3] == ["every subject: temperature=0", "in one: max_tokens=5", "in two, three: max_tokens=9"]
    assert not any("max_tokens" in line for line in lines[3:])


def test_a_level_that_all_subjects_share_is_a_knob_too(cell: MakeCell, task: MakeTask) -> None:
    shown = text(gap_table([task(cell("local/a:low", passing(2)), cell("local/b:low", passing(20)))]), width=120)
    assert shown.startswith("every subject: thinking=low\n")
    assert "local/b/none" in shown


def test_knobs_that_differ_stay_with_the_subject(cell: MakeCell, task: MakeTask) -> None:
    shown = text(
        gap_table([task(cell("local/a:low", passing(2)), cell("local/a:off@top_k=2", passing(20)))]), width=140
    )
    assert "every subject" not in shown
    assert "local/a:low/none" in shown
    assert "local/a:off@top_k=2/none" in shown


def test_the_metric_is_named_only_where_a_task_shows_several(table: GapTable, long_table: GapTable) -> None:
    assert "correct" not in text(table, width=140)
    assert "triage-of-incoming-support-tickets: correct" in text(long_table, width=200)
    assert "triage-of-incoming-support-tickets: latency" in text(long_table, width=60)


def test_stars_have_a_plain_form(table: GapTable) -> None:
    shown = text(table, width=140, encoding="cp1252")
    assert "established ** better" in shown
    assert "established * worse\n" in shown
    assert "** holds after Holm, * only" in shown


def test_a_verdict_that_falls_to_the_adjustment_says_so(table: GapTable) -> None:
    assert "established ☆ worse (not after Holm over 3): cannot hold among 3 gaps" in text(table, width=200)


def test_p_is_never_printed_as_zero() -> None:
    assert [p_text(p) for p in (0.0002, 0.00099, 0.001, 0.0123, 0.0999, 0.31, 1.0, None)] == [
        "<0.001", "<0.001", "0.001", "0.012", "0.10", "0.31", "1.00", "-",
    ]  # fmt: skip


def test_a_small_gap_is_not_printed_as_none(cell: MakeCell, task: MakeTask) -> None:
    many = [f"c{i}" for i in range(400)]
    shown = text(gap_table([task(cell("local/a", passing(390, many)), cell("local/b", passing(391, many)))]), width=140)
    assert " +0.003 " in shown
    assert "about ±0.007 would" in shown
    almost = text(gap_table([task(cell("local/a", passing(399, many)))]), width=140)
    assert " 0.998 " in almost


def test_an_end_at_zero_has_no_sign(cell: MakeCell, task: MakeTask) -> None:
    runs = passing(14)
    shown = text(gap_table([task(cell("local/a", passing(10)), cell("local/b", runs))]), width=140)
    assert "[0.00, +0.33]" in shown
    assert "-0.00" not in shown


def test_numbers_have_the_digits_they_need(cell: MakeCell, task: MakeTask) -> None:
    turns = {case: [5, 6, 5] for case in CASES}
    more = {case: [7 + place % 2] for place, case in enumerate(CASES)}
    shown = text(gap_table([task(cell("local/a", turns), cell("local/b", more))]), width=140)
    assert re.search(r"local/b/none +7\.5 +\+2\.5 +\[\+2\.0, \+3\.0\]", shown)
    huge = {case: [1e12 + place] for place, case in enumerate(CASES)}
    tiny = {case: [1e-9] for case in CASES}
    assert " 1e+12 " in text(gap_table([task(cell("local/a", huge), cell("local/b", tiny))]), width=140)


def test_an_interval_that_this_size_cannot_give_is_unbounded(cell: MakeCell, task: MakeTask) -> None:
    shown = text(gap_table([task(cell("local/a", {"c": [1.5]}), cell("local/b", {"c": [2.5]}))]), width=140)
    assert "unbounded" in shown
    assert "inf" not in shown


def test_a_verdict_on_few_cases_says_on_which(cell: MakeCell, task: MakeTask) -> None:
    few = CASES[:3]
    shown = text(gap_table([task(cell("local/a", passing(0, few)), cell("local/b", passing(3, few)))]), width=140)
    assert "established ★ better, on these 3 cases" in shown


def test_a_cell_alone_shows_how_far_it_can_be_trusted(cell: MakeCell, task: MakeTask) -> None:
    shown = text(gap_table([task(cell("local/a", passing(12)), reference=None)]), width=140)
    assert re.search(r"local/a/none +0\.50 +- +- +24 +- +alone: 95% \[0\.3\d, 0\.6\d\]", shown)
    assert "Holm" not in shown.splitlines()[-1]


def test_hidden_rows_are_not_printed_but_counted(cell: MakeCell, task: MakeTask) -> None:
    hidden = cell("local/hidden", passing(3), shown=False)
    shown = text(gap_table([task(cell("local/a", passing(0)), cell("local/b", passing(24)), hidden)]), width=140)
    assert "local/hidden" not in shown
    assert "Holm over 2 gaps, 1 of them not shown; " in shown


def test_colour_repeats_what_the_words_say(table: GapTable) -> None:
    inks = {}
    for line in render(table, width=140):
        inks[line.text.split("  ")[1] if line.text.startswith("triage") else line.text] = line.ink
    assert inks["local/medium/none"] == "green"
    assert inks["local/worse/none"] == "red"
    assert inks["local/ghost/none"] == "yellow"
    assert inks["local/large/none"] is None
    assert inks["    1 case only in the reference: c23"] == "dim"
    assert render(table, width=140)[0].ink == "bold"


@pytest.mark.parametrize("width", WIDTHS)
def test_hostile_names_are_printed_harmlessly(width: int, cell: MakeCell, task: MakeTask) -> None:
    evil = "\x1b[2J\u202eevil\nrow\ud800" + "\u0335" * 9 + "日本" * 30
    metrics = (Metric("correct", "higher", primary=True), Metric(evil, "higher"))
    table = gap_table(
        [
            task(
                cell("local/a", passing(2), task=evil, stack=evil),
                cell("local/b", {}, task=evil, stack=evil, planned=CASES, invalid={evil: 3}),
                name=evil,
                metrics=metrics,
            )
        ]
    )
    for line in render(table, width=width):
        line.text.encode("utf-8")
        assert line.text.isprintable()
        assert columns(line.text) <= width


def test_huge_numbers_stay_whole_in_sixty_columns(cell: MakeCell, task: MakeTask) -> None:
    mine = {case: [123456789 + 1000 * place] for place, case in enumerate(CASES)}
    other = {case: [987654321 - 7777 * place] for place, case in enumerate(CASES)}
    table = gap_table([task(cell("local/a", mine), cell("local/b", other))])
    shown = render(table, width=60)
    assert any("value 987564886" in line.text for line in shown)
    assert all(columns(line.text) <= 60 for line in shown)


def test_nothing_is_printed_for_nothing(cell: MakeCell, task: MakeTask) -> None:
    assert render(gap_table([])) == []
    assert render(gap_table([task(cell("local/a", passing(3), shown=False))])) == []


def test_below_sixty_columns_sixty_are_used(table: GapTable) -> None:
    assert render(table, width=20) == render(table, width=60)
