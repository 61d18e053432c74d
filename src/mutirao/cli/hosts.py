"""`hosts`: list, try, hold and forget the hosts that activities go to."""

import click

from mutirao.cli.group import WholeHelp
from mutirao.cli.options import as_json, ask, noted, option, target
from mutirao.cli.output import minute, print_done, print_json, print_table
from mutirao.cli.target import AppCommand, load_app
from mutirao.model.audit.actions import About


@click.group(cls=WholeHelp)
def hosts() -> None:
    """List, try, hold, redrive and forget the hosts that activities go to."""


@hosts.command("list", cls=AppCommand)
@target
@option("--redrivable", is_flag=True, help="Only those whose old deliveries may be sent again.")
@as_json
def list_(target: str, redrivable: bool, as_json: bool) -> None:
    """List the hosts that have failed or have deliveries, by name."""
    app = load_app(target)
    found = [
        each for each in ask(app, lambda: app.hosts.alist()) if each.redrivable or not redrivable
    ]
    if as_json:
        print_json(found)
        return
    print_table(
        ("host", "state", "failures", "since", "probe", "signature", "waiting", "dead", "error"),
        [
            (h.name, "held" if h.held else h.state, h.failures, minute(h.failing_since, ""),
             minute(h.next_probe, ""), h.signature, h.waiting, h.dead, (h.error or "")[:80])
            for h in found
        ],
        empty="no hosts",
    )  # fmt: skip


@hosts.command(cls=AppCommand)
@target
@click.argument("host")
@as_json
def flush(target: str, host: str, as_json: bool) -> None:
    """Try HOST now; if a delivery arrives, the others follow. It is not held any more."""
    app = load_app(target)
    noted(app, About("flush", "host", host), lambda: app.hosts.aflush(host))
    print_done({"flushed": host}, f"host {host} is tried", as_json)


@hosts.command(cls=AppCommand)
@target
@click.argument("host")
@as_json
def hold(target: str, host: str, as_json: bool) -> None:
    """Send nothing to HOST until it is flushed."""
    app = load_app(target)
    noted(app, About("hold", "host", host), lambda: app.hosts.ahold(host))
    print_done({"held": host}, f"host {host} is held", as_json)


@hosts.command(cls=AppCommand)
@target
@click.argument("host")
@click.argument("concurrency", type=int, required=False)
@as_json
def limit(target: str, host: str, concurrency: int | None, as_json: bool) -> None:
    """Send HOST at most CONCURRENCY requests at once; as many as others if left out."""
    app = load_app(target)
    noted(app, About("limit", "host", host), lambda: app.hosts.alimit(host, concurrency))
    most = "as many requests as others" if concurrency is None else f"{concurrency} requests"
    print_done({"limited": host}, f"host {host} gets {most} at once", as_json)


@hosts.command(cls=AppCommand)
@target
@click.argument("host")
@option("--limit", type=int, help="How many, the oldest first.")
@as_json
def redrive(target: str, host: str, limit: int | None, as_json: bool) -> None:
    """Send the dead deliveries to HOST again."""
    app = load_app(target)
    ids = noted(app, About("redrive", "host", host), lambda: app.hosts.aredrive(host, limit=limit))
    print_done({"redriven": ids}, f"{len(ids)} deliveries to {host} are sent again", as_json)


@hosts.command(cls=AppCommand)
@target
@click.argument("host")
@as_json
def forget(target: str, host: str, as_json: bool) -> None:
    """Cancel what waits for HOST, and delete what is known of it."""
    app = load_app(target)
    count = noted(app, About("forget", "host", host), lambda: app.hosts.aforget(host))
    line = f"host {host} is forgotten; {count} deliveries are cancelled"
    print_done({"forgotten": host}, line, as_json)
