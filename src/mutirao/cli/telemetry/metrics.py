"""`metrics`: what the store holds, for Prometheus."""

import asyncio

import click

from mutirao.cli import logs
from mutirao.cli.options import log_options, option, target
from mutirao.cli.target import AppCommand, load_app
from mutirao.errors import MissingDriver
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
    try:
        from mutirao.telemetry.prometheus import store_port  # which needs an extra
    except ModuleNotFoundError as missing:
        raise MissingDriver(
            f"metrics need {missing.name}, which is not installed: run"
            " pip install 'mutirao[prometheus]'"
        ) from missing
    app = load_app(target)
    queues = {task.options.queue for task in app.tasks.values()}
    if once:
        click.echo(asyncio.run(store_port.told_once(app.store, queues)), nl=False)
    else:
        asyncio.run(store_port.serve(app.store, queues, host, port, every))
