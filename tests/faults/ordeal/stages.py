"""Where it takes place: the database with its troubles, as workers and as we ourselves reach it.

Beside it a broker, if one carries jobs.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sqlalchemy import NullPool, create_engine, make_url

from mutirao.sql import migrations
from tests.faults.kit.broker import broker_on
from tests.faults.ordeal import app
from tests.faults.ordeal.plan import Plan
from tests.faults.ordeal.stage_mysql import on_mysql
from tests.faults.ordeal.stage_postgresql import on_postgresql
from tests.faults.ordeal.stage_server import Carried, ServerStage
from tests.support.rabbitmq import RabbitServer

DISK = "1g"
CAP_SYS_ADMIN = 21


class SqliteStage(Carried):
    """A file, on a small disk of its own if `disk` is given."""

    def __init__(self, directory: Path, disk: Path | None) -> None:
        self.disk = disk
        self.path = (disk or directory) / "ordeal.db"
        self.worker_url = self.own_url = f"sqlite:///{self.path}"

    def workers_sessions(self) -> list[int]:
        """Return nothing: a file has no sessions."""
        return []


Stage = ServerStage | SqliteStage


@contextmanager
def staged(plan: Plan, directory: Path, troubles: Sequence[str]) -> Iterator[Stage]:
    """Lend a database with the tables in it, as the troubles need it."""
    with ExitStack() as stack:
        stage: Stage
        if plan.database == "postgresql":
            stage = stack.enter_context(on_postgresql(plan.driver))
        elif plan.database != "sqlite":
            stage = stack.enter_context(on_mysql(plan.database))
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
    if url.get_backend_name() == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    migrations.upgrade(url)
    app.metadata.create_all(create_engine(url, poolclass=NullPool))
