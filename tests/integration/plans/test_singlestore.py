"""Which statements of the hot path break a rule of SingleStore: those that its page calls open.

They are those of MariaDB, as they are said there. SingleStore itself was not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from mutirao.errors import ConfigurationError
from mutirao.model.jobs.job import OutcomeKind
from mutirao.sql import migrations
from mutirao.sql.dialects import singlestore
from mutirao.sql.dialects.singlestore import RULES
from mutirao.sql.migrations import ddl
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import due, ended, join
from tests.integration.plans.test_mysql import listening
from tests.support.mariadb import MysqlServer
from tests.support.singlestore import Table, lint

PAGE = Path(__file__).parents[3] / "docs/singlestore.md"
ROW = re.compile(r"^\| (no [^|]*|[^|]*keys?[^|]*|AUTO[^|]*) \| (yes|unknown) \| ([^|]*) \|$", re.M)


class Listener:
    """Notes what is said in each part of a job's life."""

    def __init__(self) -> None:
        self.said: dict[str, set[str]] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Note what is said in the block."""
        said = self.said.setdefault(name, set())

        def note(conn: Any, cursor: Any, sql: str, *rest: Any) -> None:
            said.add(sql)

        event.listen(Engine, "before_cursor_execute", note)
        try:
            with listening() as asked:
                yield
        finally:
            event.remove(Engine, "before_cursor_execute", note)
        said.update(sql for sql, _ in asked)


async def lived(url: str) -> dict[str, set[str]]:
    """Let jobs be enqueued, claimed and settled; return what is said for each of that."""
    store, path = SqlStore(url), Listener()
    with path.part("enqueue"):
        await store.aenqueue([due()])
        await store.aenqueue([due() for _ in range(9)])
    worker = await join(store)
    with path.part("look for lanes"):
        heads = await store.lanes(None)
    with path.part("claim"):
        claims = await store.claim(worker, [head.lane for head in heads], 10)
    with path.part("settle"):
        final = [ended(claim) for claim in claims[:5]]
        again = [ended(claim, OutcomeKind.RETRIED, after=5) for claim in claims[5:8]]
        await store.settle(worker, [*final, *again])
        await store.release([(claims[8].id, claims[8].run)])
    with path.part("heartbeat"):
        await store.beat(worker, expiry=15)
    with path.part("rescue"):
        assert len(await store.rescue(now=datetime.now(UTC) + timedelta(days=1))) == 1
    await store.close()
    return path.said


async def test_what_is_open(migrated_mysql_url: str) -> None:
    """The page lists each rule with the parts of a job's life that break it."""
    tables = [table for each in ddl("singlestore").split(";\n") if (table := Table.of(each))]
    broken: dict[str, list[str]] = {rule.says: [] for rule in RULES}
    for part, statements in (await lived(migrated_mysql_url)).items():
        assert statements, part
        for says in {says for says, _ in lint(statements, tables)}:
            broken[says].append(part)
    rows = ROW.findall(PAGE.read_text())
    assert [(says, known == "yes") for says, known, _ in rows] == [
        (rule.says, rule.documented) for rule in RULES
    ]
    values = {says: listed.replace("none", "") for says, _, listed in rows}
    assert values == {says: ", ".join(parts) for says, parts in broken.items()}


async def test_it_is_refused(mysql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever connects is told so, whether anything was made there or not."""

    def refuse(connection: object) -> None:
        raise ConfigurationError("the server is SingleStore")

    monkeypatch.setattr(singlestore, "refuse", refuse)
    with pytest.raises(ConfigurationError, match="is SingleStore"):
        migrations.upgrade(mysql_url)
    for driver in ("pymysql", "aiomysql"):
        with pytest.raises(ConfigurationError, match="is SingleStore"):
            await SqlStore(mysql_url.replace("pymysql", driver)).check()


def test_mariadb_reads_the_tables(mysql: MysqlServer) -> None:
    """All that is not SingleStore's own in them is SQL; only what is left out is a comment."""
    script = ddl("singlestore")
    script = re.sub(r",\n    SHARD KEY \([^)]*\)", "", script)
    script = re.sub(r"ROWSTORE (REFERENCE )?TABLE", "TABLE", script)
    with mysql.connect(mysql.create_database()) as conn, conn.cursor() as cursor:
        statements = [each for each in script.split(";\n") if "CREATE" in each or "INSERT" in each]
        for statement in statements:
            cursor.execute(statement)
        cursor.execute("SHOW FULL TABLES WHERE Table_type = 'VIEW'")
        assert len(cursor.fetchall()) > 6
