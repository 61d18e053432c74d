"""Troubles of a PostgreSQL server. Those of the way to it are in `network`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import psycopg
from psycopg import sql

from mutirao.sql.schema.tables import metadata
from tests.acceptance.ordeal.plan import Event, Lasts
from tests.acceptance.ordeal.stages import NAME, ROLE, PostgresStage
from tests.acceptance.ordeal.troubles import HOUR, Catalogue, Scene, clocks_set, repeatedly

POSTGRESQL = Catalogue()
STATEMENT_TIMEOUT = "3s"
ROWS = 5  # claimed rows that somebody locks
FEW = 2  # connections that are left to a role
TRIES = 30  # to take the place of workers' connections
_NAME, _ROLE = sql.Identifier(NAME), sql.Identifier(ROLE)
_TERMINATE = (
    "select pg_terminate_backend(pid) from pg_stat_activity where usename = %s and random() <= %s"
)
_CANCEL = (
    "select pg_cancel_backend(pid) from pg_stat_activity where usename = %s and state = 'active'"
)

PostgresScene = Scene[PostgresStage]


@POSTGRESQL.trouble("clock")
def clock(scene: PostgresScene, event: Event) -> Iterator[str]:
    """Put one worker's clock far on or back: it is not used for anything."""
    place = clocked_place(scene)
    far = event.chosen.choice((HOUR, 2 * scene.plan.expiry)) * event.chosen.choice((1, -1))
    with clocks_set(scene.fleet, [place], far):
        yield f"the clock of worker {place} jumps by {far:+g} s, and back"


def clocked_place(scene: PostgresScene) -> int:
    """Return the place whose clock can be set."""
    return scene.plan.workers - 1


@POSTGRESQL.trouble("crash")
def crash(scene: PostgresScene, event: Event) -> Iterator[str]:
    """Let the server crash, and recover."""
    scene.stage.server.stop("immediate")
    try:
        yield "SIGQUIT of the postmaster"
    finally:
        scene.stage.server.start()


@POSTGRESQL.trouble("read-only")
def read_only(scene: PostgresScene, event: Event) -> Iterator[str]:
    """Let nobody write."""
    administer(scene, "alter system set default_transaction_read_only = on", RELOAD)
    try:
        yield "nobody may write"
    finally:
        administer(scene, "alter system reset default_transaction_read_only", RELOAD)


RELOAD = "select pg_reload_conf()"


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


@POSTGRESQL.trouble("lock-table")
def lock_table(scene: PostgresScene, event: Event) -> Iterator[str]:
    """Lock one table of ours, as a migration does; another one each time."""
    tables = list(metadata.tables)
    table = tables[(scene.plan.seed + event.turn) % len(tables)]
    with scene.stage.administer(NAME) as connection, connection.transaction():
        lock = sql.SQL("lock table {} in access exclusive mode")
        connection.execute(lock.format(sql.Identifier(table)))
        yield f"{table} is locked"


@POSTGRESQL.trouble("lock-rows")
def lock_rows(scene: PostgresScene, event: Event) -> Iterator[str]:
    """Lock rows of jobs that run, where the workers' statements have a time limit."""
    limit = sql.SQL("alter role {} set statement_timeout = {}")
    administer(scene, limit.format(_ROLE, sql.Literal(STATEMENT_TIMEOUT)))
    terminate(scene)
    try:
        with scene.stage.administer(NAME) as connection, connection.transaction():
            rows = _lock_claimed(connection)
            yield f"{rows} claimed rows are locked, statement_timeout is {STATEMENT_TIMEOUT}"
    finally:
        administer(scene, sql.SQL("alter role {} reset statement_timeout").format(_ROLE))
        terminate(scene)


@POSTGRESQL.trouble("terminate", Lasts.AT_ONCE)
def terminate_all(scene: PostgresScene, event: Event) -> Iterator[str]:
    """End all of the workers' sessions."""
    yield f"{terminate(scene)} sessions are terminated"


@POSTGRESQL.trouble("terminate-some")
def terminate_some(scene: PostgresScene, event: Event) -> Iterator[str]:
    """End some of the workers' sessions, again and again."""
    share = event.chosen.uniform(0.1, 0.6)
    again = partial(_unless_away, partial(terminate, scene, share))
    with repeatedly(event.chosen.uniform(0.2, 2), again):
        yield f"{share:.0%} of the sessions are terminated, again and again"


@POSTGRESQL.trouble("cancel")
def cancel(scene: PostgresScene, event: Event) -> Iterator[str]:
    """Cancel whatever the workers' sessions do, again and again."""
    every = event.chosen.uniform(0.02, 0.5)
    with (
        scene.stage.administer() as connection,
        repeatedly(every, lambda: connection.execute(_CANCEL, (ROLE,))),
    ):
        yield f"statements are cancelled every {every:.2f} s"


@POSTGRESQL.trouble("crowded")
def crowded(scene: PostgresScene, event: Event) -> Iterator[str]:
    """Let others take every connection that the server has."""
    others: list[psycopg.Connection] = []

    def crowd() -> None:
        with suppress(psycopg.OperationalError):  # that was the last one
            while True:
                others.append(psycopg.connect(_as_somebody(scene.stage), connect_timeout=5))

    administer(scene, "create role somebody login password 'somebody'")
    try:
        for _ in range(TRIES):  # workers are as quick as we are
            crowd()
            if terminate(scene) <= FEW:
                break
        with repeatedly(0.2, crowd):
            yield f"others have {len(others)} connections, workers {len(_sessions(scene))}"
    finally:
        for other in others:
            other.close()
        administer(scene, "drop role somebody")


@POSTGRESQL.trouble("role-limit")
def role_limit(scene: PostgresScene, event: Event) -> Iterator[str]:
    """Leave only a few connections to the workers' role."""
    limit = sql.SQL("alter role {} connection limit {}")
    administer(scene, limit.format(_ROLE, sql.Literal(FEW)))
    terminate(scene)
    try:
        yield f"the workers' role has {FEW} connections"
    finally:
        administer(scene, limit.format(_ROLE, sql.Literal(-1)))


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


@POSTGRESQL.trouble("no-login")
def no_login(scene: PostgresScene, event: Event) -> Iterator[str]:
    """Let the workers' role not log in, and end its sessions."""
    administer(scene, sql.SQL("alter role {} nologin").format(_ROLE))
    try:
        yield f"the role may not log in, {terminate(scene)} sessions are terminated"
    finally:
        administer(scene, sql.SQL("alter role {} login").format(_ROLE))


def administer(scene: PostgresScene, *statements: str | sql.Composed) -> None:
    """Execute statements as a superuser, each for itself."""
    with scene.stage.administer() as connection:
        for statement in statements:
            connection.execute(statement)


def terminate(scene: PostgresScene, share: float = 1.0) -> int:
    """End a share of the workers' sessions; return how many there were."""
    with scene.stage.administer() as connection:
        return connection.execute(_TERMINATE, (ROLE, share)).rowcount


def _sessions(scene: PostgresScene) -> list[int]:
    return scene.stage.workers_sessions()


def _unless_away(act: Callable[[], object]) -> None:
    with suppress(psycopg.OperationalError):
        act()


def _lock_claimed(connection: psycopg.Connection) -> int:
    statement = (
        "select id from mutirao_live where worker is not null order by id limit %s"
        " for update skip locked"
    )
    return connection.execute(statement, (ROWS,)).rowcount


def _as_somebody(stage: PostgresStage) -> str:
    return f"postgresql://somebody:somebody@127.0.0.1:{stage.server.port}/postgres"


def _with_nobody_in(scene: PostgresScene, database: str, change: sql.Composed) -> None:
    """Change a database that nobody may be connected to: throw them out until it is done."""
    out = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
    with scene.stage.administer() as connection:
        for _ in range(TRIES):
            connection.execute(out, (database,))
            with suppress(psycopg.errors.ObjectInUse):
                connection.execute(change)
                return
    raise TimeoutError(f"{database} is used again and again, and cannot be changed")
