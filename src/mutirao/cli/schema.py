"""`migrate` and `schema`: making the tables, or seeing how they are made."""

import click

from mutirao.cli.options import as_json, target
from mutirao.cli.output import print_json
from mutirao.cli.sql import engines_of
from mutirao.cli.target import AppCommand, load_app
from mutirao.sql.schema import head


@click.command(cls=AppCommand)
@target
@as_json
def migrate(target: str, as_json: bool) -> None:
    """Bring the application's database to the newest schema.

    Safe to run again, and by many at once. Your own Alembic migrations are not touched.
    """
    url = engines_of(load_app(target)).given
    from mutirao.sql import migrations  # it loads Alembic, which no other command needs

    migrations.upgrade(url)
    revision = head()
    if as_json:
        print_json({"revision": revision, "database": url.render_as_string(hide_password=True)})
    else:
        click.echo(f"{url.render_as_string(hide_password=True)} is at revision {revision}")


@click.command()
@click.option("--dialect", required=True, show_envvar=True, help="postgresql or sqlite.")
def schema(dialect: str) -> None:
    """Print the SQL that makes the tables, to read it or to run it by other means."""
    from mutirao.sql import migrations

    click.echo(migrations.ddl(dialect), nl=False)
