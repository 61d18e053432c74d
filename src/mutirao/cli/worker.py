"""`worker`: run jobs until a signal stops it."""

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import click
from click.core import ParameterSource

from mutirao.app import Mutirao
from mutirao.cli import logs
from mutirao.cli.options import (
    POSITIVE,
    beat_options,
    kept,
    log_options,
    names_option,
    option,
    target,
)
from mutirao.cli.reloading import watch_here
from mutirao.cli.sections import WorkerCommand
from mutirao.cli.supervisor import Supervisor
from mutirao.cli.target import load_app
from mutirao.cli.unfit import UnfitTeller
from mutirao.cli.webhook_options import webhook_options, webhook_settings
from mutirao.model.deploys import named
from mutirao.model.jobs.job import OutcomeKind
from mutirao.model.jobs.retry_words import ACCEPTED_FORMS, policy_in_words
from mutirao.workers import EXIT_WHEN_STUCK

if TYPE_CHECKING:
    from mutirao.engine.settings import WorkerTerms

_KEEP_HELP = "How long {} jobs are kept: 36h, 7d, 8w, or forever."


def _text(read: Callable[[str], object], name: str = "AGE") -> Callable[[str], str]:
    """Return a type of option that stays a text, for other processes, if it is readable.

    `name`: what `--help` calls it.
    """

    def checked(text: str) -> str:
        try:
            read(text)
        except ValueError as unfit:
            raise click.BadParameter(str(unfit)) from None
        return text

    checked.__name__ = name  # which click shows
    return checked


@click.command(cls=WorkerCommand)
@target
@names_option("-q", "--queues", help="Queues to serve, such as mail,default; all if left out.")
@option(
    "--database",
    "databases",
    multiple=True,
    metavar="URL",
    envvar="MUTIRAO_DATABASE",
    help="A database to serve, if not the application's own; may be repeated.",
)
@names_option("--exclude-queues", help="Queues not to serve, in place of -q.")
@names_option(
    "--tasks",
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
@beat_options
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
@option(
    "--retry",
    type=_text(policy_in_words, "POLICY"),
    help=f"Retry policy of tasks without their own: {ACCEPTED_FORMS};"
    " the application's if left out.",
)
@option("--max-attempts", type=click.IntRange(min=1), help="Executions of such jobs in all.")
@option(
    "--timeout",
    type=POSITIVE,
    help="Seconds that an attempt may take, for tasks without a timeout of their own.",
)
@option("--keep-succeeded", type=_text(kept), default="7d", help=_KEEP_HELP.format("successful"))
@option("--keep-cancelled", type=_text(kept), default="7d", help=_KEEP_HELP.format("cancelled"))
@option("--keep-dead", type=_text(kept), default="90d", help=_KEEP_HELP.format("dead"))
@option(
    "--keep-hours",
    type=_text(kept),
    default="90d",
    help="How long the figures of an hour are kept, and errors after they last occurred.",
)
@option(
    "--keep-inbox",
    type=_text(kept),
    default="100d",
    help="How long messages of the inbox are remembered.",
)
@option(
    "--keep-said",
    type=_text(kept),
    default="90d",
    help="How long federation remembers what has arrived last.",
)
@option(
    "--keep-audit",
    type=_text(kept),
    default="365d",
    help="How long actions of people are kept in the audit.",
)
@option(
    "--prune-batch",
    type=click.IntRange(min=1),
    default=1_000,
    help="Jobs deleted in one transaction.",
)
@option(
    "--app-version",
    help="Version of the application: numbers with dots, such as a build number, that grow with"
    " each deployment, also with one that goes back to older code.",
)
@option(
    "--drain-on-new-version",
    is_flag=True,
    help="Take no more work once workers with a later --app-version serve all that this one serves,"
    " and end with status 0 when what runs has.",
)
@option("--webhooks", is_flag=True, help="Deliver webhooks to endpoints as well.")
@webhook_options
@option(
    "--reload/--no-reload",
    default=False,
    help="Start again when a Python file below the current directory changes; for development.",
)
@log_options
def worker(
    target: str,
    databases: tuple[str, ...],
    processes: int,
    reload: bool,
    log_format: logs.Format,
    log_level: str,
    **settings: Any,
) -> None:
    """Run jobs until SIGTERM or SIGINT; a second signal ends at once.

    After the first signal no job is claimed; running jobs may finish within --grace, and the others
    are released without costing an attempt.
    """
    logs.configure(log_format, log_level)
    if settings["app_version"] is not None:  # other applications may share the database or broker
        settings["app_version"] = named(settings["app_version"], target)
    if processes > 1 or reload:
        command = _command(target, log_format=log_format, log_level=log_level, **settings)
        command += _databases_given(databases)
        watch = watch_here() if reload else None
        status = asyncio.run(Supervisor(command, processes, watch).run())
    else:
        ending = UnfitTeller()
        with ending.told():
            app = load_app(target)
            _choose(app, databases)
            status = app.run_worker(**_settings(**settings))
        ending.ends_with(status)
    raise click.exceptions.Exit(status)


def _databases_given(databases: tuple[str, ...]) -> list[str]:
    """Return the options for other processes, to which variables come by themselves.

    Everybody on a machine sees the command lines there, and a URL may have a password.
    """
    source = click.get_current_context().get_parameter_source("databases")
    if source is ParameterSource.ENVIRONMENT:
        return []
    return [word for url in databases for word in ("--database", url)]


def _choose(app: Mutirao, databases: tuple[str, ...]) -> None:
    """Let a worker of the application serve these databases, if any."""
    if len(databases) == 1:
        app.use_database(*databases)
    elif databases:
        app.databases(lambda: databases)


def _settings(
    keep_succeeded: str,
    keep_cancelled: str,
    keep_dead: str,
    keep_hours: str,
    keep_inbox: str,
    keep_said: str,
    keep_audit: str,
    exit_when_stuck: float,
    webhooks: bool,
    **others: Any,
) -> "WorkerTerms":
    """Return the options as settings of a worker."""
    sending = webhook_settings(others)
    others["webhooks"] = sending if webhooks else False
    others["exit_when_stuck"] = exit_when_stuck or None
    others["keep_hours"] = kept(keep_hours)
    others["keep_inbox"] = kept(keep_inbox)
    others["keep_said"] = kept(keep_said)
    others["keep_audit"] = kept(keep_audit)
    others["retention"] = {
        OutcomeKind.SUCCEEDED: kept(keep_succeeded),
        OutcomeKind.CANCELLED: kept(keep_cancelled),
        OutcomeKind.DEAD: kept(keep_dead),
    }
    return cast("WorkerTerms", others)


def _command(target: str, **options: Any) -> list[str]:
    """Return the command line of one worker process, whatever the variables say."""
    command = [sys.executable, "-m", "mutirao", "worker", target, "--processes", "1", "--no-reload"]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            command += [flag] if value else []
        elif value is not None:
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            command += [flag, text]
    return command
