"""The connections that jobs are written through where the program gives none of its own."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest

from mutirao import Mutirao, Task
from mutirao.errors import StoreUnavailable
from mutirao.sql.engines import KEPT, MAX_OVERFLOW
from tests.support.postgresql import PostgresServer
from tests.support.waiting import until

MANY = KEPT + MAX_OVERFLOW + 16  # threads: more than there may be connections
MINE = "SELECT pid FROM pg_stat_activity WHERE application_name = 'the shop'"


@pytest.fixture(params=["psycopg", "psycopg2"])
def shop(request: pytest.FixtureRequest, pg_url: str) -> Iterator[Mutirao]:
    """An application whose connections have a name."""
    url = pg_url.replace("psycopg", request.param)
    application = Mutirao(f"{url}?application_name=the+shop")
    yield application
    application.close()


@pytest.fixture
def sell(shop: Mutirao) -> Task[[], None]:
    """Its only task."""

    @shop.task
    def sell() -> None: ...

    return sell


@pytest.fixture
def administrator(postgres: PostgresServer) -> Iterator[psycopg.Connection]:
    """Somebody who sees the connections of others, and can end them."""
    with postgres.connect() as connection:
        yield connection


def opened(administrator: psycopg.Connection) -> int:
    """Count the application's connections."""
    return len(administrator.execute(MINE).fetchall())


def all_at_once(sell: Task[[], None], threads: int, times: int) -> list[int]:
    """Enqueue so many times in each of so many threads that begin together; return the ids."""
    together = Barrier(threads)

    def shout(_: int) -> list[int]:
        together.wait()
        return [sell.enqueue().id for _ in range(times)]

    with ThreadPoolExecutor(threads) as pool:
        return [id for found in pool.map(shout, range(threads)) for id in found]


def test_one_after_the_other(sell: Task[[], None], administrator: psycopg.Connection) -> None:
    """They all go through the same one."""
    ids = [sell.enqueue().id for _ in range(30)]
    assert ids == sorted(set(ids))
    assert opened(administrator) == 1


def test_many_at_once(sell: Task[[], None], administrator: psycopg.Connection) -> None:
    """Whoever finds none waits for one, and not for ever; afterwards few are kept."""
    assert len(set(all_at_once(sell, MANY, 3))) == 3 * MANY
    assert opened(administrator) <= KEPT + KEPT // 2


async def test_closing(
    shop: Mutirao, sell: Task[[], None], administrator: psycopg.Connection
) -> None:
    """Leaves none; the next call opens one again."""
    for _ in range(2):
        sell.enqueue()
        assert opened(administrator) == 1
        shop.close()
        await until(lambda: opened(administrator) == 0)


def test_when_they_were_cut(sell: Task[[], None], administrator: psycopg.Connection) -> None:
    """One call hears of it; the others of the same age are not tried."""
    assert len(set(all_at_once(sell, 5, 1))) == 5
    administrator.execute(MINE.replace("pid", "pg_terminate_backend(pid, 60000)", 1))
    with pytest.raises(StoreUnavailable):
        sell.enqueue()
    for _ in range(5):
        sell.enqueue()
