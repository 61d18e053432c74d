"""The commands together, and what their exit statuses mean."""

from typing import Any

import click

from mutirao.cli import care, jobs, schema, stats, work
from mutirao.cli.bench import bench
from mutirao.cli.enqueue import enqueue
from mutirao.cli.graphs import graphs
from mutirao.cli.limits import limits, pause, resume
from mutirao.cli.schedules import schedules
from mutirao.errors import (
    ConfigurationError,
    InvalidTask,
    MutiraoError,
    SchemaError,
    StoreUnavailable,
)

REFUSED, MISUSED, SCHEMA, UNREACHABLE = 1, 2, 3, 4
_STATUSES: tuple[tuple[type[MutiraoError], int], ...] = (
    (ConfigurationError, MISUSED),
    (InvalidTask, MISUSED),
    (SchemaError, SCHEMA),
    (StoreUnavailable, UNREACHABLE),
    (MutiraoError, REFUSED),
)


class Commands(click.Group):
    """A group whose commands may raise the library's errors."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn the library's errors into exit statuses."""
        try:
            return super().invoke(ctx)
        except MutiraoError as error:
            click.echo(f"mutirao: {' '.join(str(error).split())}", err=True)
            status = next(status for kind, status in _STATUSES if isinstance(error, kind))
            raise click.exceptions.Exit(status) from error


@click.group(
    "mutirao",
    cls=Commands,
    context_settings={"auto_envvar_prefix": "MUTIRAO", "help_option_names": ["-h", "--help"]},
    epilog=(
        "Exit status: 0 done; 1 refused, or some of it failed; 2 called or configured wrongly;"
        " 3 the schema is missing, too old or too new; 4 the database cannot be reached."
    ),
)
@click.version_option(package_name="mutirao")
def main() -> None:
    """Background jobs that live in your application's SQL database."""


for command in (
    *(schema.migrate, schema.schema, work.worker, enqueue),
    *(jobs.list_, jobs.show, jobs.retry, jobs.cancel, jobs.redrive),
    *(stats.stats, care.prune, care.doctor, schedules, graphs, bench),
    *(limits, pause, resume),
):
    main.add_command(command)
