"""`worker`: run jobs until a signal stops it."""

import asyncio
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import click
from click.core import ParameterSource

from mutirao.app import Mutirao
from mutirao.cli import logs
from mutirao.cli.options import kept, log_options, option, target
from mutirao.cli.reloading import watch_here
from mutirao.cli.sections import WorkerCommand
from mutirao.cli.supervisor import Supervisor
from mutirao.cli.target import host, load_app
from mutirao.cli.terms import setting_options, text_of
from mutirao.cli.unfit import UnfitNotice
from mutirao.cli.webhook_options import webhook_options, webhook_settings
from mutirao.model.deploys import named
from mutirao.model.jobs.job import OutcomeKind
from mutirao.model.jobs.retry_words import policy_in_words
from mutirao.ports.measurements import LAST_PORT
from mutirao.workers import EXIT_WHEN_STUCK

if TYPE_CHECKING:
    from mutirao.engine.settings import WorkerTerms

_DATABASES = option(
    "--database",
    "databases",
    multiple=True,
    metavar="URL",
    envvar="MUTIRAO_DATABASE",
    help="A database to serve, if not the application's own; may be repeated.",
)
_PROCESSES = option(
    "--processes", type=click.IntRange(min=1), default=1, help="Workers, each a process."
)
_RETENTION = [
    option(
        f"--keep-{state}",
        type=text_of(kept),
        default=usual,
        help=f"How long {called} jobs are kept: 36h, 7d, 8w, or forever.",
    )
    for state, called, usual in (
        ("succeeded", "successful", "7d"),
        ("cancelled", "cancelled", "7d"),
        ("dead", "dead", "90d"),
    )
]


@click.command(cls=WorkerCommand)
@target
@setting_options(
    after={"queues": [_DATABASES], "concurrency": [_PROCESSES], "retention": _RETENTION},
    metrics_port={"type": click.IntRange(0, LAST_PORT)},
    exit_when_stuck={"type": click.FloatRange(min=0), "default": EXIT_WHEN_STUCK},
    retry={"type": text_of(policy_in_words, "POLICY")},
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
    if settings["app_version"] is not None:  # other applications may share the database or broker
        settings["app_version"] = named(settings["app_version"], target)
    if processes > 1 or reload:
        logs.configure(log_format, log_level)
        first = settings.pop("metrics_port")
        _check_ports(first, processes)
        command = _command(target, log_format=log_format, log_level=log_level, **settings)
        command += _databases_given(databases)
        watch, own = watch_here() if reload else None, partial(_port_of, first)
        status = asyncio.run(Supervisor(command, processes, watch, own).run())
    else:
        ending = UnfitNotice()
        with ending.on_errors():
            with logs.configured(log_format, log_level):
                app = load_app(target)
            _choose(app, databases)
            status = app.run_worker(**_settings(**settings))
        ending.ends_with(status)
    raise click.exceptions.Exit(status)


def _check_ports(first: int | None, processes: int) -> None:
    if first is not None and first + processes - 1 > LAST_PORT:
        raise click.UsageError(
            f"--metrics-port {first} is the first of {processes}, and the last port is {LAST_PORT};"
            f" give at most {LAST_PORT - processes + 1}"
        )


def _port_of(first: int | None, place: int) -> list[str]:
    """Return the option of the process at a place, from 0: each has a port of its own."""
    if first is None:
        return []
    return ["--metrics-port", str(first and first + place)]


def _databases_given(databases: tuple[str, ...]) -> list[str]:
    """Return the options for other processes, which inherit variables.

    All users of a machine can see command lines, and a URL may contain a password.
    """
    source = click.get_current_context().get_parameter_source("databases")
    if source is ParameterSource.ENVIRONMENT:
        return []
    return [word for url in databases for word in ("--database", url)]


def _choose(app: Mutirao, databases: tuple[str, ...]) -> None:
    """Make a worker of the application serve these databases, if any."""
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
    program = host()
    start = [sys.executable, "-m", "mutirao"] if program is None else program.command
    application = [target] if program is None else []
    command = [*start, "worker", *application, "--processes", "1", "--no-reload"]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            command += [flag] if value else []
        elif value is not None:
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            command += [flag, text]
    return command
