"""The version and the fingerprint of a database's tables, and those that this package needs.

A migration writes it beside the revision. So a database distinguishes two states of a revision of
one name, as there were of 0100 before the first release.

Separate from `migrations`: each program checks it when it starts, and loading Alembic for that took
a fifth of the import time of the package.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import (
    Connection,
    Select,
    Update,
    column,
    inspect,
    literal_column,
    select,
    table,
    update,
)

from mutirao.errors import SchemaDiffers, SchemaMissing, SchemaTooNew, SchemaTooOld
from mutirao.model.display import MIGRATE
from mutirao.sql.registry import dialect_of

if TYPE_CHECKING:
    from mutirao.sql.dialects.base import Dialect

FINGERPRINT = "fingerprint"  # the column; databases of revision 0100 have none
_VERSIONS = Path(__file__).parents[1] / "migrations" / "versions"


def fingerprint(database: Dialect, revision: str | None = None) -> str:
    """Return what the files of a revision and of those before give for a database.

    Ends of lines do not count. `revision`: None for `head()`.
    """
    return _fingerprint(database.name, revision or head())


@cache
def _fingerprint(directory: str, revision: str) -> str:
    files = sorted(
        (each.relative_to(_VERSIONS).as_posix(), each)
        for number in REVISIONS[: REVISIONS.index(revision) + 1]
        for each in _VERSIONS.glob(f"r{number}/{directory}/*.sql")
    )
    digest = sha256()
    for name, file in files:
        digest.update(f"{name}\n{file.read_text(encoding='utf-8')}\n".encode())
    return digest.hexdigest()[:16]


VERSION_TABLE = "mutirao_version"
# Release and number: 0101 would be the second one of 0.1. A test compares it with the scripts.
REVISIONS = ("0100", "0101", "0102", "0103", "0104")
UNRELEASED = frozenset({"0001", "0002", "0003", "0004", "0005", "0006"})  # all made before 0.1


def head() -> str:
    """Return the revision that this version of the package works with."""
    return REVISIONS[-1]


class VersionFound(NamedTuple):
    """The revision of a database, and which files made it.

    `fingerprint`: None: they did not say, as a migration that was cut off; "": they could not, for
    want of the column.
    """

    revision: str
    fingerprint: str | None


def current(connection: Connection, schema: str | None = None) -> VersionFound | None:
    """Return what a database says; None if it has no Mutirão tables, in `schema` if given."""
    if not inspect(connection).has_table(VERSION_TABLE, schema):
        return None
    # Not by its name: a database of revision 0100 has no column for the fingerprint.
    all_columns: Select[Any] = select(literal_column("*")).select_from(table(VERSION_TABLE))
    row = connection.execute(all_columns).mappings().first()
    if row is None:
        return None
    return VersionFound(_text(row["version_num"]) or "", _text(row.get(FINGERPRINT, "")))


def _text(value: str | bytes | None) -> str | None:
    """Return a value as text: in a database whose character set is binary drivers give bytes."""
    return value.decode() if isinstance(value, bytes) else value


def signing(database: Dialect, revision: str | None = None) -> Update:
    """Return the statement with which the files of a revision sign what they have made."""
    versions = table(VERSION_TABLE, column(FINGERPRINT))
    said = f"'{fingerprint(database, revision)}'"
    return update(versions).values({FINGERPRINT: literal_column(said)})


def check(connection: Connection, schema: str | None = None) -> None:
    """Raise SchemaMissing, or what `refuse_unfit` raises, unless the database is at `head()`."""
    found, wanted = current(connection, schema), head()
    if found is None:
        where = f" in schema {schema}"
        todo = f"Run {MIGRATE}."
        if schema is None:
            where, elsewhere = dialect_of(connection.dialect).admin.searched(connection)
            if elsewhere:
                todo = (
                    f"There are such in schema {elsewhere}: set the role's search_path, or that of"
                    f" the URL, to find them. For new ones, run {MIGRATE}."
                )
        raise SchemaMissing(
            f"The database has no Mutirão tables{where}; revision {wanted} is needed. {todo}"
        )
    refuse_unfit(connection, found)
    if found.revision != wanted:
        raise SchemaTooOld(
            f"The database's Mutirão tables are at revision {found.revision}; this version of"
            f" mutirao needs {wanted}. Run {MIGRATE}."
        )


def refuse_unfit(connection: Connection, current: VersionFound) -> None:
    """Raise an error unless the package can migrate from what a database says.

    Raises:
        SchemaTooOld: it was made before the first release.
        SchemaTooNew: its revision is unknown.
        SchemaDiffers: other files made it.
    """
    found = current.revision
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
    database = dialect_of(connection.dialect)
    if current.fingerprint not in _accepted(database, found):
        raise SchemaDiffers(
            f"The database's Mutirão tables are at revision {found}, but not the one that this"
            f" version of mutirao makes (fingerprint {current.fingerprint or 'missing'}, not"
            f" {fingerprint(database, found)}): a state between two releases made them, or a script"
            " that was cut. Use the version that migrated the database; or restore a backup from"
            " before, and run `mutirao migrate module:app` on that."
        )


def _accepted(database: Dialect, revision: str) -> set[str | None]:
    """Return the fingerprints of databases at a revision with which this package can go on.

    Where a migration was cut off at one, the database says what it had said before it.
    """
    if revision == head():
        return {fingerprint(database)}
    passed = REVISIONS[: REVISIONS.index(revision) + 1]
    unsigned = {None, ""} if revision == REVISIONS[0] else {None}
    return unsigned | {fingerprint(database, each) for each in passed}
