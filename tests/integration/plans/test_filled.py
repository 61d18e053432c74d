"""With a million jobs in history and 200,000 live ones, workers read by index, and little."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Engine, NullPool, create_engine, text

from mutirao.sql.registry import dialect_named
from tests.integration.plans import filling
from tests.integration.plans.cases import CASES
from tests.integration.plans.kit import overheard, plan_generically
from tests.support.postgresql import PostgresServer

POSTGRESQL = dialect_named("postgresql")
SCAN_IN_A_FUNCTION = """
DO $$ BEGIN PERFORM count(*) FROM mutirao_live WHERE attempt = 99; END $$
"""


@pytest.fixture(scope="module")
def filled(postgres: PostgresServer, migrated_template: str) -> Iterator[Engine]:
    """A database with all these jobs, and statistics of them."""
    with postgres.database(migrated_template) as name:
        engine = create_engine(postgres.url(name), poolclass=NullPool)
        with engine.connect() as connection:
            filling.quieten(connection)
            filling.fill(connection)
            filling.analyse(connection)
        yield engine


@pytest.fixture(params=["planned for the values", "generic plans"])
def connection(request: pytest.FixtureRequest, filled: Engine) -> Iterator[Connection]:
    """A connection of its own, whose transaction is rolled back; servers compile by default."""
    with filled.connect() as connection:
        connection.exec_driver_sql("SET jit = on")
        if request.param == "generic plans":
            plan_generically(connection)
        yield connection


@pytest.mark.parametrize("what", CASES)
def test_read_by_index(connection: Connection, what: str) -> None:
    """Each statement on the way reads by the indexes it is meant to, and not much.

    How much follows from the batch (for a rescue, from what is due), not from the tables. None
    is compiled, which takes longer than any of them.
    """
    case = CASES[what]
    act = case.prepare(POSTGRESQL, connection)
    with overheard(connection) as heard:
        act()
    assert heard
    assert heard.reads == case.reads
    assert max(map(heard.rows, case.reads), default=0) <= case.most
    assert heard.compiled == []


@pytest.mark.parametrize(
    "scan", ["SELECT count(*) FROM mutirao_live WHERE attempt = 99", SCAN_IN_A_FUNCTION]
)
def test_a_scan_is_noticed(connection: Connection, scan: str) -> None:
    """The rules above can fail, for statements inside functions too."""
    with overheard(connection) as heard:
        connection.execute(text(scan))
    assert heard.reads == {"Seq Scan of mutirao_live"}
    assert heard.rows("Seq Scan of mutirao_live") >= filling.LIVE
