"""Which version of the tables a database has, and which one this package works with.

Apart from `migrations`: each program asks this when it starts, and loading Alembic for it took a
fifth of the time that importing the package takes.
"""

from sqlalchemy import Connection, column, inspect, select, table

from mutirao.errors import SchemaMissing, SchemaTooNew, SchemaTooOld

VERSION_TABLE = "mutirao_version"
REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006")  # a test compares with the scripts


def head() -> str:
    """Return the revision that this version of the package works with."""
    return REVISIONS[-1]


def current(connection: Connection) -> str | None:
    """Return the revision a database is at; None where there are no Mutirão tables."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.scalars(
        select(column("version_num")).select_from(table(VERSION_TABLE))
    ).first()


def check(connection: Connection) -> None:
    """Raise SchemaMissing, SchemaTooOld or SchemaTooNew unless the database is at `head()`."""
    found, wanted = current(connection), head()
    if found == wanted:
        return
    if found is None:
        raise SchemaMissing(
            f"The database has no Mutirão tables; revision {wanted} is needed."
            " Run `mutirao migrate module:app`."
        )
    refuse_newer(found)
    raise SchemaTooOld(
        f"The database's Mutirão tables are at revision {found}; this version of mutirao needs"
        f" {wanted}. Run `mutirao migrate module:app`."
    )


def refuse_newer(found: str) -> None:
    """Raise SchemaTooNew if the package does not know the revision `found`."""
    if found not in REVISIONS:
        raise SchemaTooNew(
            f"The database's Mutirão tables are at revision {found}, which this version of mutirao"
            f" does not know; it works with {head()}. Upgrade the package to the version that"
            " migrated the database: `pip install --upgrade mutirao`."
        )
