"""`migrate` and `schema`: create the tables, or print their SQL and the rights of roles."""

import click

from mutirao.app import Mutirao
from mutirao.cli.options import as_json, names, option, target
from mutirao.cli.output import print_json, say
from mutirao.cli.target import AppCommand, load_app


@click.command(cls=AppCommand)
@target
@as_json
def migrate(target: str, as_json: bool) -> None:
    """Migrate the application's database to the newest schema.

    Safe to repeat, and safe when several processes run it at once. Your own Alembic migrations are
    not touched.
    """
    app = load_app(target)
    revision = app.migrate()
    if as_json:
        print_json({"revision": revision, "database": app.database})
    else:
        say(f"{app.database} is at revision {revision}")


@click.command()
@option("--dialect", help="postgresql, sqlite or mysql. For singlestore it was not run by us.")
@click.option(
    "--grants",
    multiple=True,
    is_flag=False,
    flag_value="",
    metavar="[ROLES]",
    help="Print what roles need on PostgreSQL: all, or some, such as worker,keys.",
)
@click.option("--to", metavar="NAME", help="With --grants: who gets it, a role of your server.")
@option("--schema", "place", metavar="NAME", help="The schema of the tables, on PostgreSQL.")
def schema(dialect: str | None, grants: tuple[str, ...], to: str | None, place: str | None) -> None:
    """Print the SQL that creates the tables, or that grants roles the rights they need.

    Use it to read the SQL, or to run it by other means.
    """
    if grants:
        roles = [name for some in grants if some for name in names(some)]
        click.echo(Mutirao.grants(dialect, roles, to, place), nl=False)
        return
    if dialect is None or to is not None:
        raise click.UsageError("Give --dialect for the tables, or --grants for roles.")
    click.echo(Mutirao.ddl(dialect, place), nl=False)
