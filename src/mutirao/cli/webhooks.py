"""`webhooks`: a worker that delivers webhooks, and needs no application."""

from typing import Any

import click

from mutirao.app import Mutirao
from mutirao.cli import logs
from mutirao.cli.options import log_options, option
from mutirao.cli.terms import METRICS_PORT, setting_options
from mutirao.cli.webhook_options import webhook_options, webhook_settings
from mutirao.model.webhooks.endpoints import WEBHOOK_QUEUE
from mutirao.workers import EXIT_WHEN_STUCK


@click.command()
@option("--database", required=True, envvar="MUTIRAO_DATABASE", help="Where the jobs are.")
@option("--schema", help="The schema of the tables, if it is not the usual one.")
@setting_options(
    *("concurrency", "grace", "poll", "metrics_port", "metrics_host"),
    metrics_port=METRICS_PORT,
    concurrency={"default": 200, "help": "Deliveries at once."},
    grace={"help": "Seconds that running deliveries may take once a signal says to stop."},
)
@webhook_options
@log_options
def webhooks(
    database: str,
    schema: str | None,
    concurrency: int,
    grace: float,
    poll: float,
    metrics_port: int | None,
    metrics_host: str,
    log_format: logs.Format,
    log_level: str,
    **given: Any,
) -> None:
    """Deliver webhooks until SIGTERM or SIGINT; a second signal ends at once.

    It needs the database only, and no application: not the signers of one either. What is
    published is handed out by workers of the application.

    \b
    mutirao webhooks --database postgresql+psycopg://mutirao@db/shop
    """
    logs.configure(log_format, log_level)
    status = Mutirao(database, schema=schema).run_worker(
        queues=[WEBHOOK_QUEUE],
        concurrency=concurrency,
        grace=grace,
        poll=poll,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        webhooks=webhook_settings(given),
        exit_when_stuck=EXIT_WHEN_STUCK,
    )
    raise click.exceptions.Exit(status)
