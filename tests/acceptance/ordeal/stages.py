"""Where it takes place: the database with its troubles, as workers and as we ourselves reach it.

Beside it a broker, if one carries jobs.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic

import psycopg
from psycopg import sql
from sqlalchemy import NullPool, create_engine, make_url

from mutirao.sql import migrations
from tests.acceptance.ordeal import app
from tests.acceptance.ordeal.plan import Plan
from tests.acceptance.shared.broker import Broker, broker_on
from tests.acceptance.shared.proxy import Proxy
from tests.support.postgresql import PostgresServer
from tests.support.rabbitmq import RabbitServer

NAME = ROLE = "ordeal"
PASSWORD = "ordeal"
DISK = "1g"
CAP_SYS_ADMIN = 21
PATIENCE = 30.0  # seconds


class Carried:
    """The part of a stage that is a broker, if there is one."""

    broker: Broker | None = None


class PostgresStage(Carried):
    """A server of our own. Workers reach it through `proxy`, we through `way`.

    `server` is the primary; a failover makes another one that.
    """

    def __init__(self, server: PostgresServer, proxy: Proxy, way: Proxy, driver: str) -> None:
        self.server, self.proxy, self.way = server, proxy, way
        worker = make_url(f"postgresql+{driver}://{ROLE}:{PASSWORD}@127.0.0.1:{proxy.port}/{NAME}")
        self.worker_url = worker.render_as_string(hide_password=False)
        own = make_url(server.url(NAME)).set(port=way.port)
        self.own_url = own.render_as_string(hide_password=False)

    def administer(self, database: str = "postgres") -> psycopg.Connection:
        """Return a superuser's connection straight to the server, in autocommit mode.

        In a crowd those who are being turned away take even the places kept for superusers.
        """
        deadline = monotonic() + PATIENCE
        while True:
            try:
                return self.server.connect(database)
            except psycopg.OperationalError:
                if monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def workers_sessions(self) -> list[int]:
        """Return the server's processes that serve workers."""
        with self.administer() as connection:
            rows = connection.execute(
                "select pid from pg_stat_activity where usename = %s", (ROLE,)
            ).fetchall()
        return [row[0] for row in rows]


class SqliteStage(Carried):
    """A file, on a small disk of its own if `disk` is given."""

    def __init__(self, directory: Path, disk: Path | None) -> None:
        self.disk = disk
        self.path = (disk or directory) / "ordeal.db"
        self.worker_url = self.own_url = f"sqlite:///{self.path}"

    def workers_sessions(self) -> list[int]:
        """Return nothing: a file has no sessions."""
        return []


Stage = PostgresStage | SqliteStage


@contextmanager
def staged(plan: Plan, directory: Path, troubles: Sequence[str]) -> Iterator[Stage]:
    """Lend a database with the tables in it, as the troubles need it."""
    with ExitStack() as stack:
        stage: Stage
        if plan.database == "postgresql":
            stage = stack.enter_context(_postgresql(plan.driver))
        else:
            disk = stack.enter_context(_small_disk(directory)) if "full-disk" in troubles else None
            stage = SqliteStage(directory, disk)
        _make_tables(stage)
        if plan.carried:
            server = stack.enter_context(RabbitServer())
            stage.broker = stack.enter_context(broker_on(server, app.PREFIX, [app.CARRIED]))
        yield stage


def may_mount() -> bool:
    """Tell whether a small disk can be made here: root in a container may not be allowed to."""
    status = Path("/proc/self/status").read_text().splitlines()
    capabilities = next(line.split()[1] for line in status if line.startswith("CapEff:"))
    return bool(int(capabilities, 16) >> CAP_SYS_ADMIN & 1)


@contextmanager
def _postgresql(driver: str) -> Iterator[PostgresStage]:
    with ExitStack() as stack:
        stage = PostgresStage(
            server := stack.enter_context(PostgresServer()),
            stack.enter_context(Proxy(server.port)),
            stack.enter_context(Proxy(server.port)),
            driver,
        )
        # After a failover it is another one.
        stack.callback(lambda: stage.server.close())
        with stage.administer() as connection:
            role, name = sql.Identifier(ROLE), sql.Identifier(NAME)
            made = sql.SQL("create role {} login password {}").format(role, sql.Literal(PASSWORD))
            connection.execute(made)
            connection.execute(sql.SQL("create database {} owner {}").format(name, role))
        yield stage


@contextmanager
def _small_disk(directory: Path) -> Iterator[Path]:
    disk = directory / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", disk], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def _make_tables(stage: Stage) -> None:
    """Make the tables as the workers' role, whose they are."""
    url = make_url(stage.worker_url)
    if url.drivername != "sqlite":
        url = url.set(drivername="postgresql+psycopg")
    migrations.upgrade(url)
    app.metadata.create_all(create_engine(url, poolclass=NullPool))
