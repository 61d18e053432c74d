"""The version of the tables that a database has, and the one that this package needs.

Separate from `migrations`: each program checks it when it starts, and loading Alembic for that took
a fifth of the import time of the package.
"""

from sqlalchemy import Connection, column, inspect, select, table

from mutirao.errors import SchemaMissing, SchemaTooNew, SchemaTooOld

VERSION_TABLE = "mutirao_version"
# Release and number: 0101 would be the second one of 0.1. A test compares it with the scripts.
REVISIONS = ("0100", "0101")
UNRELEASED = frozenset({"0001", "0002", "0003", "0004", "0005", "0006"})  # all made before 0.1


def head() -> str:
    """Return the revision that this version of the package works with."""
    return REVISIONS[-1]


def current(connection: Connection, schema: str | None = None) -> str | None:
    """Return the revision of a database; None if it has no Mutirão tables, in `schema` if given."""
    if not inspect(connection).has_table(VERSION_TABLE, schema):
        return None
    return connection.scalars(
        select(column("version_num")).select_from(table(VERSION_TABLE))
    ).first()


def check(connection: Connection, schema: str | None = None) -> None:
    """Raise SchemaMissing, SchemaTooOld or SchemaTooNew unless the database is at `head()`."""
    found, wanted = current(connection, schema), head()
    if found == wanted:
        return
    if found is None:
        where = "" if schema is None else f" in schema {schema}"
        raise SchemaMissing(
            f"The database has no Mutirão tables{where}; revision {wanted} is needed."
            " Run `mutirao migrate module:app`."
        )
    refuse_unknown(found)
    raise SchemaTooOld(
        f"The database's Mutirão tables are at revision {found}; this version of mutirao needs"
        f" {wanted}. Run `mutirao migrate module:app`."
    )


def refuse_unknown(found: str) -> None:
    """Raise an error unless the package can migrate from the revision `found`.

    Raises:
        SchemaTooOld: it was made before the first release.
        SchemaTooNew: it is unknown.
    """
    if found in UNRELEASED:
        raise SchemaTooOld(
            f"The database's Mutirão tables are at revision {found}, made before the first release;"
            f" migrations begin with {REVISIONS[0]}. Remove everything whose name begins with"
            " mutirao_, with all jobs, as docs/sql.md shows under Removing, and run"
            " `mutirao migrate module:app` again."
        )
    if found not in REVISIONS:
        raise SchemaTooNew(
            f"The database's Mutirão tables are at revision {found}, which this version of mutirao"
            f" does not know; it works with {head()}. Upgrade the package to the version that"
            " migrated the database: `pip install --upgrade mutirao`."
        )
