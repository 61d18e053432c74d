"""A database in which everybody has a role, with the privileges that are printed for it.

The tables belong to a migrator, who is no superuser; the others log in by their roles. Logins are
the server's: databases of one server share them, and their privileges are granted in each.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from psycopg import Connection, errors, sql
from sqlalchemy import make_url

from mutirao.sql import migrations
from mutirao.sql.dialects.postgresql import grant_statements, grants
from tests.support.postgresql import PostgresServer

PASSWORD = "in-company"
MIGRATOR = "company_migrator"


class Privilege(NamedTuple):
    """One thing that a role may do: of a table with columns named, one for each of these."""

    kind: str
    on: str
    column: str = ""

    def __str__(self) -> str:
        column = f' ("{self.column}")' if self.column else ""
        return f"{self.kind}{column} ON {self.on}"

    @property
    def name(self) -> str:
        """What a server calls that on which it is."""
        return self.on.rpartition(" ")[2]


class Company:
    """The roles of one database, which its creator drops."""

    def __init__(self, postgres: PostgresServer, database: str) -> None:
        self._postgres, self._database = postgres, database
        self._employ(MIGRATOR)

    def found(self, schema: str | None = None) -> None:
        """Make the tables, as a migrator with the privileges of one."""
        self.administer(grant_statements.sql(["migrator"], MIGRATOR, schema))
        migrations.upgrade(self.url(MIGRATOR), schema)

    def take_over(self) -> None:
        """Give the tables that a superuser made, and all that belongs to them, to the migrator."""
        with self._superuser() as superuser:
            for (statement,) in superuser.execute(_OWN, [MIGRATOR] * 2).fetchall():
                superuser.execute(statement)

    def hire(self, login: str, *roles: str, schema: str | None = None) -> str:
        """Make a login with the privileges of roles; return its URL. The migrator grants them."""
        self._employ(login)
        with self.owner() as owner:
            owner.execute(grant_statements.sql(roles, login, schema).encode())
        return self.url(login)

    def url(self, login: str) -> str:
        """Return the URL (psycopg) for a login."""
        url = make_url(self._postgres.url(self._database))
        return url.set(username=login, password=PASSWORD).render_as_string(hide_password=False)

    def owner(self) -> Connection:
        """Return a connection of the migrator's, in autocommit mode."""
        there = self.url(MIGRATOR).replace("+psycopg", "")
        return Connection.connect(there, autocommit=True)

    def administer(self, statements: str) -> None:
        """Execute statements as the superuser."""
        with self._superuser() as superuser:
            superuser.execute(statements.encode())

    @contextmanager
    def closed_to_public(self) -> Iterator[None]:
        """Take from PUBLIC for a while what it may do in a new database; the migrator still may."""
        self.administer(f"GRANT USAGE ON SCHEMA public TO {MIGRATOR}")
        self.administer(_OPEN.format("REVOKE", "FROM"))
        try:
            yield
        finally:
            self.administer(_OPEN.format("GRANT", "TO"))

    def _superuser(self) -> Connection:
        return self._postgres.connect(self._database)

    def _employ(self, login: str) -> None:
        made = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
        # Another database of this server may have it.
        with self._superuser() as superuser, suppress(errors.DuplicateObject):
            superuser.execute(made.format(sql.Identifier(login), sql.Literal(PASSWORD)))


def each_privilege(role: str) -> Iterator[Privilege]:
    """Yield every single privilege that is printed for a role."""
    for on, kinds in grants.privileges(role).items():
        for kind, columns in kinds.items():
            for column in sorted(columns) or [""]:
                yield Privilege(kind, on, column)


_OPEN = """
{0} USAGE ON SCHEMA public {1} PUBLIC;
{0} EXECUTE ON ALL FUNCTIONS IN SCHEMA public {1} PUBLIC;
"""
_OWN = """
SELECT format(
    'ALTER %%s %%s OWNER TO %%I',
    CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass,
    %s::text
)
FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'v', 'S')
  -- Those of a column go with its table.
  AND NOT EXISTS (
    SELECT FROM pg_depend d
    WHERE c.relkind = 'S' AND d.classid = 'pg_class'::regclass AND d.objid = c.oid
      AND d.deptype IN ('a', 'i')
  )
UNION ALL
SELECT format('ALTER FUNCTION %%s OWNER TO %%I', p.oid::regprocedure, %s::text)
FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace
"""
