"""`metrics`: metrics of the store, for Prometheus."""

import asyncio

import click

from mutirao.cli import logs
from mutirao.cli.options import log_options, option, target
from mutirao.cli.target import AppCommand, load_app
from mutirao.ports.measurements import LAST_PORT


@click.command(cls=AppCommand)
@target
@option("--once", is_flag=True, help="Print the text, and end.")
@option("--host", default="127.0.0.1", help="Where to listen; others than this machine: 0.0.0.0.")
@option(
    "--port", type=click.IntRange(0, LAST_PORT), default=9463, help="Where; 0: any that is free."
)
@option(
    "--every",
    type=click.FloatRange(min=10),
    default=10.0,
    help="Seconds for which what was read is kept at least, however often it is scraped.",
)
@log_options
def metrics(
    target: str,
    once: bool,
    host: str,
    port: int,
    every: float,
    log_format: logs.Format,
    log_level: str,
) -> None:
    """Serve depths, ages and lags for Prometheus until SIGTERM or SIGINT; one for a whole fleet.

    What a worker did is at its own port: `mutirao worker --metrics-port 9464`.
    """
    logs.configure(log_format, log_level)
    from mutirao.telemetry.prometheus import store_port  # which needs an extra

    app = load_app(target)
    if once:
        click.echo(asyncio.run(store_port.told_once(app)), nl=False)
    else:
        asyncio.run(store_port.serve(app, host, port, every))
