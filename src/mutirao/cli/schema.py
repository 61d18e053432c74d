"""`migrate` and `schema`: making the tables, or seeing how they are made and who needs what."""

import click

from mutirao.cli.options import as_json, names, option, target
from mutirao.cli.output import print_json
from mutirao.cli.sql import engines_of
from mutirao.cli.target import AppCommand, load_app
from mutirao.sql.dialects.admin import admin_named
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
@option("--dialect", help="postgresql or sqlite.")
@click.option(
    "--grants",
    is_flag=False,
    flag_value="",
    metavar="[ROLES]",
    help="Print what roles need on PostgreSQL: all, or some, such as worker,keys.",
)
@click.option("--to", metavar="NAME", help="With --grants: who gets it, a role of your server.")
def schema(dialect: str | None, grants: str | None, to: str | None) -> None:
    """Print the SQL that makes the tables, or that grants roles what they need.

    To read it, or to run it by other means.
    """
    if grants is not None:
        roles = names(grants) if grants else ()
        click.echo(admin_named(dialect or "postgresql").grants(roles, to), nl=False)
        return
    if dialect is None or to is not None:
        raise click.UsageError("Give --dialect for the tables, or --grants for roles.")
    from mutirao.sql import migrations

    click.echo(migrations.ddl(dialect), nl=False)
