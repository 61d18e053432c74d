"""`grafana`: dashboards and alert rules, as files."""

from pathlib import Path

import click

from mutirao.cli.options import as_json, option
from mutirao.cli.output import print_json
from mutirao.errors import ConfigurationError


@click.command()
@option(
    "--to",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default="grafana",
    help="The directory to write to; what has the same names there is replaced.",
)
@as_json
def grafana(directory: Path, as_json: bool) -> None:
    """Write dashboards for Grafana and alert rules for Prometheus.

    One dashboard is on Prometheus, the others on the SQL views, for Grafana's PostgreSQL and MySQL
    data sources. Import them, or provision the directory.
    """
    from mutirao.telemetry.grafana import writing  # which nothing else needs

    try:
        written = writing.write(directory)
    except OSError as error:
        raise ConfigurationError(
            f"--to is {directory}, where nothing can be written: {error.strerror or error}; give"
            " another directory"
        ) from error
    if as_json:
        print_json({"files": [str(path) for path in written]})
        return
    for path in written:
        click.echo(path)
