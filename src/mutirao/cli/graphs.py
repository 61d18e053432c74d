"""`graphs`: list, show and cancel graphs of jobs."""

import click

from mutirao.cli.group import WholeHelp
from mutirao.cli.options import as_json, ask, option, target
from mutirao.cli.output import print_done, print_fields, print_json, print_table
from mutirao.cli.target import AppCommand, load_app
from mutirao.model.jobs.records import GraphRecord, GraphState

id_ = click.argument("id", type=click.IntRange(min=1))


@click.group(cls=WholeHelp)
def graphs() -> None:
    """List, show and cancel chains, groups and other graphs of jobs."""


@graphs.command("list", cls=AppCommand)
@target
@option("--state", type=click.Choice([str(state) for state in GraphState]))
@option("--limit", type=click.IntRange(min=1), default=100, help="At most so many.")
@as_json
def list_(target: str, state: str | None, limit: int, as_json: bool) -> None:
    """List graphs, newest first, with their number of jobs by state."""
    app = load_app(target)
    found = ask(app, lambda: app.agraphs(state, limit))
    if as_json:
        print_json(found)
        return
    print_table(
        ("id", "name", "state", "stage", "jobs", "blocked", "waiting", "running", "succeeded",
         "dead", "cancelled", "created"),
        [
            (g.id, g.name, g.state, g.stage, g.jobs, g.blocked, g.waiting, g.running, g.succeeded,
             g.dead, g.cancelled, g.created_at)
            for g in found
        ],
        empty="no such graphs",
    )  # fmt: skip


@graphs.command(cls=AppCommand)
@target
@id_
@as_json
def show(target: str, id: int, as_json: bool) -> None:
    """Show graph ID with its steps, and which jobs each of them waits for."""
    app = load_app(target)
    graph = ask(app, lambda: app.agraph(id))
    if as_json:
        print_json(graph)
        return
    shown = [name for name in GraphRecord.__slots__ if name != "steps"]
    print_fields((name.replace("_", " "), getattr(graph, name)) for name in shown)
    click.echo()
    print_table(
        ("job", "stage", "task", "state", "after"),
        [(s.job, s.stage, s.task, s.state, _several(s.after)) for s in graph.steps],
        empty="no steps",
    )


@graphs.command(cls=AppCommand)
@target
@id_
@as_json
def cancel(target: str, id: int, as_json: bool) -> None:
    """Cancel the unfinished jobs of graph ID; running ones learn of it with the next heartbeat."""
    app = load_app(target)
    ids = ask(app, lambda: app.acancel_graph(id))
    line = f"cancelled: {', '.join(map(str, ids))}" if ids else "nothing was left of it"
    print_done({"ids": ids}, line, as_json)


def _several(ids: tuple[int, ...], most: int = 5) -> str:
    shown = ", ".join(map(str, ids[:most]))
    return shown if len(ids) <= most else f"{shown} and {len(ids) - most} more"
