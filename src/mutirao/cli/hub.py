"""`hub`: the server that passes wake-ups on."""

import asyncio
from collections.abc import Sequence
from typing import Any

import click

from mutirao.app import Mutirao
from mutirao.cli import logs
from mutirao.cli.options import log_options, option
from mutirao.cli.target import APP_VARIABLE, host, load_app
from mutirao.errors import StoreUnavailable
from mutirao.hub.looking import EVERY, LOOK_LIMIT, LookedAt
from mutirao.hub.service import HubSettings, run


@click.command()
@click.argument("targets", metavar="[MODULE:APP]...", nargs=-1, envvar=APP_VARIABLE)
@option("--bind", default="127.0.0.1:8770", help="Where to listen: host:port or unix:///path.")
@option("--token", default="", help="What clients must give; needed unless only this machine can.")
@option("--certificate", type=click.Path(exists=True), help="File of the TLS certificate.")
@option("--key", type=click.Path(exists=True), help="File of its key, if it is another one.")
@option(
    "--database",
    "databases",
    multiple=True,
    help="URL of a database to look at, beside those of the applications; may be repeated.",
)
@option(
    "--every",
    type=click.FloatRange(min=0.01),
    default=EVERY,
    help="Seconds between two looks at each database.",
)
@log_options
def hub(
    targets: tuple[str, ...],
    databases: tuple[str, ...],
    log_format: logs.Format,
    log_level: str,
    **settings: Any,
) -> None:
    """Pass wake-ups on until SIGTERM or SIGINT, and look at the databases that are given.

    An application that is given MUTIRAO_HUB, or hub="tcp://…", announces jobs to it; its workers
    are woken by it. What other programs commit in these databases the hub finds by itself.
    """
    program = host()
    applications = targets if program is None else [program.name]
    with logs.configured(log_format, log_level):
        apps = [*map(load_app, applications), *map(Mutirao, databases)]
    asyncio.run(_check(apps))
    run(HubSettings(**settings), [_watched(app) for app in apps])


def _watched(app: Mutirao) -> LookedAt:
    return LookedAt(app.hub_name, app.store.clone(within=LOOK_LIMIT))


async def _check(apps: Sequence[Mutirao]) -> None:
    """Raise SchemaError if the tables of a database do not fit; one that is away may come back."""
    for app in apps:
        try:
            await app.acheck()
        except StoreUnavailable:
            continue  # the first look says so
        finally:
            await app.aclose()
