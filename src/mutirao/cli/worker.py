"""`worker`: run jobs until a signal stops it."""

import asyncio
import sys
from typing import Any

import click

from mutirao.app import EXIT_WHEN_STUCK
from mutirao.cli import logs
from mutirao.cli.options import names, option, target
from mutirao.cli.supervisor import Supervisor
from mutirao.cli.target import AppCommand, load_app

_POSITIVE = click.FloatRange(min=0, min_open=True)


@click.command(cls=AppCommand)
@target
@option(
    "-q", "--queues", type=names, help="Queues to serve, such as mail,default; all if left out."
)
@option("--exclude-queues", type=names, help="Queues not to serve, in place of -q.")
@option(
    "--tasks",
    type=names,
    help="Tasks to serve, such as thumbnail,report; all of the application if left out.",
)
@option("-c", "--concurrency", type=click.IntRange(min=1), default=20, help="Jobs at once.")
@option("--processes", type=click.IntRange(min=1), default=1, help="Workers, each a process.")
@option(
    "--grace",
    type=click.FloatRange(min=0),
    default=30.0,
    help="Seconds that running jobs may take once a signal says to stop.",
)
@option("--poll", type=_POSITIVE, default=2.0, help="Longest sleep of an idle worker, in seconds.")
@option("--heartbeat", type=_POSITIVE, default=5.0, help="Seconds between heartbeats.")
@option(
    "--expiry",
    type=_POSITIVE,
    default=15.0,
    help="Seconds after its last heartbeat until a worker's jobs run elsewhere.",
)
@option(
    "--exit-when-stuck",
    type=click.FloatRange(min=0),
    default=EXIT_WHEN_STUCK,
    help="Seconds that all slots may be lost before the process ends, with status 6; 0: never.",
)
@option(
    "--log-jobs",
    type=click.Choice(["all", "auto", "failures"]),
    default="auto",
    help="Jobs that get a line in the log: all; successes only while few come in a second, then"
    " one line a second for the others; or no successes.",
)
@option("--log-format", type=click.Choice(["text", "json"]), default="text")
@option(
    "--log-level",
    default="info",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
)
def worker(
    target: str, processes: int, log_format: logs.Format, log_level: str, **settings: Any
) -> None:
    """Run jobs until SIGTERM or SIGINT; a second signal ends at once.

    After the first signal no job is claimed; running jobs may finish within --grace, and the others
    are released without costing an attempt.
    """
    logs.configure(log_format, log_level)
    if processes > 1:
        command = _command(target, log_format=log_format, log_level=log_level, **settings)
        status = asyncio.run(Supervisor(command, processes).run())
    else:
        settings["exit_when_stuck"] = settings["exit_when_stuck"] or None
        status = load_app(target).run_worker(**settings)
    raise click.exceptions.Exit(status)


def _command(target: str, **options: Any) -> list[str]:
    """Return the command line of one worker process, whatever the variables say."""
    command = [sys.executable, "-m", "mutirao", "worker", target, "--processes", "1"]
    for name, value in options.items():
        if value is not None:
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            command += [f"--{name.replace('_', '-')}", text]
    return command
