"""Troubles that only a PostgreSQL server has, beside those in `troubles_server`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import psycopg
from psycopg import sql

from tests.faults.ordeal.plan import Event
from tests.faults.ordeal.stage_postgresql import PostgresStage
from tests.faults.ordeal.stage_server import NAME
from tests.faults.ordeal.troubles import Catalogue, Scene

POSTGRESQL = Catalogue()
TRIES = 30  # to find nobody in a database
_NAME = sql.Identifier(NAME)

PostgresScene = Scene[PostgresStage]


@POSTGRESQL.trouble("failover")
def failover(scene: PostgresScene, event: Event) -> Iterator[str]:
    """Stop the primary; its standby answers in recovery, and is promoted some seconds later."""
    stage = scene.stage
    standby = stage.server.standby()
    former, stage.server = stage.server, standby
    former.stop("fast")  # which sends the standby all there is
    for way in (stage.proxy, stage.way):
        way.lead_to(standby.port)
    try:
        yield "the server is a standby in recovery"
    finally:
        standby.promote()
        former.close()


@POSTGRESQL.trouble("rename")
def rename(scene: PostgresScene, event: Event) -> Iterator[str]:
    """Give the database another name for a while."""
    other = sql.Identifier(f"{NAME}_away")
    change = sql.SQL("alter database {} rename to {}")
    _with_nobody_in(scene, NAME, change.format(_NAME, other))
    try:
        yield "the database has another name"
    finally:
        _with_nobody_in(scene, f"{NAME}_away", change.format(other, _NAME))


def _with_nobody_in(scene: PostgresScene, database: str, change: sql.Composed) -> None:
    """Change a database that nobody may be connected to: throw them out until it is done."""
    out = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
    with scene.stage.connect() as connection:
        for _ in range(TRIES):
            connection.execute(out, (database,))
            with suppress(psycopg.errors.ObjectInUse):
                connection.execute(change)
                return
    raise TimeoutError(f"{database} is used again and again, and cannot be changed")
