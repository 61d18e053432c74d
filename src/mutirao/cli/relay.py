"""`relay`: carry due jobs to brokers until a signal stops it."""

from typing import Any

import click

from mutirao.cli import logs
from mutirao.cli.options import log_options, option, target
from mutirao.cli.target import AppCommand, load_app
from mutirao.cli.terms import METRICS_PORT, setting_options
from mutirao.model.brokers.doorbell import MAX_DOORBELLS_PER_MESSAGE
from mutirao.workers import RELAY_SETTINGS

_TOGETHER = option(
    "--together",
    type=click.IntRange(1, MAX_DOORBELLS_PER_MESSAGE),
    default=1,
    help="Doorbells in one message; more than one for jobs that take milliseconds.",
)


@click.command(cls=AppCommand)
@target
@setting_options(
    *RELAY_SETTINGS,
    after={"exclude_queues": [_TOGETHER]},
    queues={"help": "Carried queues to relay, such as mail; all if left out."},
    exclude_queues={"help": "Queues not to relay, in place of -q."},
    metrics_port=METRICS_PORT,
    grace={
        "help": "Seconds that a broker may take to confirm what is under way once a signal says to"
        " stop."
    },
)
@log_options
def relay(
    target: str, together: int, log_format: logs.Format, log_level: str, **settings: Any
) -> None:
    """Carry due jobs of carried queues to their brokers until SIGTERM or SIGINT; run none of them.

    Workers that serve such queues do so as well. Any number of relays may run beside them, or while
    there is no worker: schedules tick, and the jobs of vanished workers are carried again.
    """
    with logs.configured(log_format, log_level):
        app = load_app(target)
    raise click.exceptions.Exit(app.run_relay(together, **settings))
