"""Jobs with keys, enqueued in transactions of MariaDB that show what was committed long before."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import ClassVar, TypeAlias

import pymysql
import pytest
from pymysql.cursors import Cursor

from mutirao.model.jobs.job import NewJob
from mutirao.model.keys.uniqueness import How, Placed
from mutirao.sql import migrations
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.enqueueing import EnqueueingContract
from mutirao_conformance.kit import deadline, due, finish, join, put, take, take_one
from mutirao_conformance.repeated import RepeatedContract, droppable
from mutirao_conformance.supersede import SupersedeContract, activity
from mutirao_conformance.uniqueness import UniquenessContract, keyed, live_jobs
from mutirao_conformance.versions import VersionsContract
from tests.support.mariadb import MysqlServer, empty
from tests.support.waiting import until

REPEATABLE, SERIALIZABLE = "REPEATABLE READ", "SERIALIZABLE"
LEVEL = "SET SESSION TRANSACTION ISOLATION LEVEL "
SNAPSHOT = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
PURGED = "SET GLOBAL innodb_max_purge_lag_wait = 0"  # waits until what was deleted is gone
LOCK_WAITS = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'"

Connection: TypeAlias = "pymysql.Connection[Cursor]"


class Behind(SqlStore):
    """Who enqueues does so in a REPEATABLE READ of a while ago: three calls of it earlier."""

    theirs: deque[Connection]
    begin: Callable[[], Connection]

    def clone(self, connections: int = 1, *, within: float | None = None) -> Behind:
        """Share the transactions, too."""
        other = Behind(self.engines.database, pool_size=connections, within=within)
        other.theirs, other.begin = self.theirs, self.begin
        return other

    def enqueue(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """Enqueue in the oldest transaction, and begin another for later."""
        assert conn is None
        with self._lent() as theirs:
            ids = super().enqueue(jobs, theirs)
            theirs.commit()
        return ids

    async def aenqueue(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """Do the same."""
        return await asyncio.to_thread(self.enqueue, jobs, conn)

    @contextmanager
    def _lent(self) -> Iterator[Connection]:
        theirs = self.theirs.popleft() if self.theirs else self.begin()
        try:
            yield theirs
        finally:
            _say(theirs, "ROLLBACK", SNAPSHOT)
            self.theirs.append(theirs)


def _say(connection: Connection, *statements: str) -> tuple[tuple[object, ...], ...]:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall()


@pytest.fixture(scope="module")
def database(mysql: MysqlServer) -> str:
    """The name of a database with Mutirão's tables, and with what earlier tests left in them."""
    name = mysql.create_database()
    migrations.upgrade(mysql.url(name))
    return name


class Pool:
    """Connections that tests have one after another: to open one takes longer than most tests."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self.free: list[Connection] = []
        self.lent: list[Connection] = []

    def begin(self) -> Connection:
        """Begin a REPEATABLE READ, which shows from then on what is committed by then."""
        connection = self.free.pop() if self.free else self._connect()
        self.lent.append(connection)
        _say(connection, LEVEL + REPEATABLE, SNAPSHOT)
        return connection

    def take_back(self) -> None:
        """Undo what is open."""
        for connection in self.lent:
            connection.rollback()
        self.free += self.lent
        self.lent.clear()


@pytest.fixture(scope="module")
def pool(mysql: MysqlServer, database: str) -> Iterator[Pool]:
    """The connections of the callers."""
    pool = Pool(lambda: mysql.connect(database, autocommit=False))
    yield pool
    for connection in pool.free:
        connection.close()


@pytest.fixture
def begin(pool: Pool) -> Callable[[], Connection]:
    """What begins a caller's transaction."""
    return pool.begin


@pytest.fixture(scope="module")
def own_store(mysql: MysqlServer, database: str) -> Iterator[SqlStore]:
    """A store whose connections serve all tests."""
    store = SqlStore(mysql.url(database))
    yield store
    store.engines.close_sync()


@pytest.fixture(scope="module")
def callers(mysql: MysqlServer, database: str) -> Iterator[Behind]:
    """A store whose callers are behind, for all tests."""
    store = Behind(mysql.url(database))
    yield store
    store.engines.close_sync()


@pytest.fixture(scope="module")
def connection(mysql: MysqlServer, database: str) -> Iterator[Connection]:
    """A connection of somebody who only looks on, and commits at once."""
    with mysql.connect(database) as connection:
        yield connection


@pytest.fixture(autouse=True)
def emptied(connection: Connection, pool: Pool) -> Iterator[None]:
    """Empty tables, and afterwards no open transaction."""
    empty(connection)
    yield
    pool.take_back()


class TestOldTransactions:
    """The contract of enqueueing, for callers who see little of what the others do."""

    faces: ClassVar[tuple[str, ...]] = ("enqueue",)
    handlers: ClassVar[tuple[str, ...]] = ("coroutine",)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test in one form: the steps of both are the same."""
        for name, forms in (("face", self.faces), ("handler", self.handlers)):
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, forms)

    @pytest.fixture
    async def store(self, callers: Behind, pool: Pool) -> AsyncIterator[Behind]:
        """The same for one test. Connections of coroutines end with their event loop."""
        callers.begin, callers.theirs = pool.begin, deque(pool.begin() for _ in range(3))
        yield callers
        for engine in (callers.engines._async.pop() or {}).values():
            await engine.dispose()

    @pytest.fixture
    async def other_store(self, store: Behind) -> AsyncIterator[Behind]:
        """Another one of them."""
        other = store.clone()
        yield other
        await other.close()

    test_ids_are_returned_in_order = EnqueueingContract.test_ids_are_returned_in_order

    test_keep = UniquenessContract.test_keep
    test_the_end_frees_the_key = UniquenessContract.test_the_end_frees_the_key
    test_error = UniquenessContract.test_error
    test_replacing_one_that_waits = UniquenessContract.test_replacing_one_that_waits
    test_rerun_moves_the_time_forward_only = UniquenessContract.test_rerun_moves_the_time_forward_only  # fmt: skip # noqa: E501
    test_the_longest_wait = UniquenessContract.test_the_longest_wait
    test_once_more_after_a_running_one = UniquenessContract.test_once_more_after_a_running_one
    test_a_job_that_is_given_back = UniquenessContract.test_a_job_that_is_given_back_is_replaced
    test_after_a_rescue = UniquenessContract.test_after_a_rescue
    test_somebody_cancels_it = UniquenessContract.test_somebody_cancels_the_one_that_waits
    test_a_cancelled_one_is_gone = UniquenessContract.test_a_cancelled_one_is_gone
    test_a_window_after_the_end = UniquenessContract.test_a_window_after_the_end
    test_a_window_ends = UniquenessContract.test_a_window_ends
    test_many_at_once = UniquenessContract.test_many_at_once
    test_many_callers_of_one_key = UniquenessContract.test_many_callers_of_one_key
    test_many_callers_who_replace = UniquenessContract.test_many_callers_who_replace
    test_pruning_forgets_the_key = UniquenessContract.test_pruning_forgets_the_key

    test_an_older_one_that_comes_late = VersionsContract.test_an_older_one_that_comes_late
    test_once_the_newer_has_ended = VersionsContract.test_once_the_newer_one_has_ended
    test_once_somebody_cancelled = VersionsContract.test_once_somebody_has_cancelled_the_newer_one

    test_the_table = SupersedeContract.test_the_table
    test_once_the_older_one_runs = SupersedeContract.test_once_the_older_one_runs
    test_one_after_another = SupersedeContract.test_one_after_another
    test_the_last_one = SupersedeContract.test_the_last_one_is_what_a_newer_one_meets
    test_nothing_is_left_of_the_key = SupersedeContract.test_nothing_is_left_of_the_key
    test_merging_behind_another = SupersedeContract.test_merging_behind_another
    test_somebody_cancels_some = SupersedeContract.test_somebody_cancels_some
    test_many_callers = SupersedeContract.test_many_callers
    test_many_in_one_call = SupersedeContract.test_many_in_one_call

    test_what_has_succeeded = RepeatedContract.test_what_has_succeeded
    test_another_was_tried_since = RepeatedContract.test_another_was_tried_since
    test_another_runs_or_waits = RepeatedContract.test_another_runs_or_waits_for_its_retry
    test_back_to_what_is_known = RepeatedContract.test_back_to_what_is_known
    test_one_nobody_tried = RepeatedContract.test_one_that_nobody_tried_was_cancelled


# What is enqueued twice, whether the first one has ended by then, and how the second one stands.
SCENES: dict[str, tuple[NewJob, bool, How]] = {
    "keep": (keyed(), False, "found"),
    "keep, ended": (keyed(), True, "inserted"),
    "window, ended": (keyed(unique_for=3_600.0), True, "found"),
    "replace": (keyed("replace"), False, "replaced"),
    "replace, ended": (keyed("replace"), True, "inserted"),
    "merge": (activity("Update"), False, "replaced"),
    "series": (activity("Like"), False, "follows"),
    "series, ended": (activity("Like"), True, "inserted"),
    "repeated, ended": (droppable("Update"), True, "repeated"),
}
BEGAN = ["before the first", "while it is live", "afterwards"]


@pytest.mark.parametrize("began", BEGAN)
@pytest.mark.parametrize("scene", SCENES)
async def test_nobody_waits_for_an_open_transaction(
    own_store: SqlStore, begin: Callable[[], Connection], scene: str, began: str
) -> None:
    """It has decided by what is committed, and locks no gap: jobs are enqueued, claimed, settled.

    Those with other keys, too. Nothing else is live, so that a gap would be that of all new jobs.
    """
    job, ends, how = SCENES[scene]
    moments = iter(BEGAN)
    theirs = begin() if next(moments) == began else None
    await put(own_store, job)
    worker = await join(own_store)
    theirs = begin() if next(moments) == began else theirs
    if ends:
        await finish(own_store, worker, [await take_one(own_store, worker)], now=datetime.now(UTC))
    theirs = theirs or begin()
    [id] = own_store.enqueue([job], theirs)
    assert isinstance(id, Placed)
    assert id.how == how
    async with deadline():
        others = [keyed("replace", "other"), keyed("replace", "l"), activity("Like", key="l")]
        for other in (due(), *others, *others):
            await put(own_store, other)
        claims = await take(own_store, worker, 9)
        assert len(claims) >= 4
        await finish(own_store, worker, [each for each in claims if each.key != "k"])
    theirs.commit()
    stand = set(await live_jobs(own_store))
    assert (int(id) in stand) is not ((how == "found" and ends) or how == "repeated")


@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_two_at_once(
    own_store: SqlStore, begin: Callable[[], Connection], connection: Connection, ends: str
) -> None:
    """The second waits for the first, and sees what came of it, though it began before."""
    first, second = begin(), begin()
    [stands] = own_store.enqueue([keyed()], first)
    waiting = asyncio.create_task(asyncio.to_thread(own_store.enqueue, [keyed()], second))
    await until(lambda: _say(connection, LOCK_WAITS)[0][1] == "1")
    getattr(first, ends)()
    async with deadline():
        [found] = await waiting
    second.commit()
    assert isinstance(found, Placed)
    assert (found.how, found == stands) == (
        ("found", True) if ends == "commit" else ("inserted", False)
    )
    assert await live_jobs(own_store) == [found]


async def test_what_a_caller_has_done_itself(
    own_store: SqlStore, begin: Callable[[], Connection]
) -> None:
    """In the same transaction, and undone by a savepoint of its own."""
    theirs = begin()
    [first] = own_store.enqueue([keyed("replace")], theirs)
    _say(theirs, "SAVEPOINT own")
    [undone] = own_store.enqueue([keyed("replace")], theirs)
    _say(theirs, "ROLLBACK TO SAVEPOINT own")
    [last] = own_store.enqueue([keyed("replace")], theirs)
    theirs.commit()
    assert [id.how for id in (first, undone, last) if isinstance(id, Placed)] == [
        "inserted", "replaced", "replaced",
    ]  # fmt: skip
    assert await live_jobs(own_store) == [last]


@pytest.mark.parametrize(
    "said",
    [
        LEVEL + "READ UNCOMMITTED",
        LEVEL + SERIALIZABLE,
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    ],
)
async def test_other_levels(
    own_store: SqlStore, begin: Callable[[], Connection], said: str
) -> None:
    """Each decides by what is committed, also one that is set for a single transaction."""
    theirs = begin()
    _say(theirs, "ROLLBACK", said)
    [id] = await put(own_store, keyed("replace"))
    [newer] = own_store.enqueue([keyed("replace")], theirs)
    theirs.commit()
    assert await live_jobs(own_store) == [newer]
    assert newer != id


async def test_a_serializable_one_keeps_others_waiting(
    own_store: SqlStore, begin: Callable[[], Connection], connection: Connection
) -> None:
    """Where the key's job has ended, for its plain reads lock the gap where new jobs belong."""
    await put(own_store, keyed())
    worker = await join(own_store)
    await finish(own_store, worker, [await take_one(own_store, worker)])
    _say(connection, PURGED)
    theirs = begin()
    _say(theirs, "ROLLBACK", LEVEL + SERIALIZABLE)
    own_store.enqueue([keyed()], theirs)
    other = asyncio.create_task(put(own_store, due()))
    await until(lambda: _say(connection, LOCK_WAITS)[0][1] == "1")
    theirs.commit()
    async with deadline():
        [id] = await other
    assert id in await live_jobs(own_store)


SNAPSHOTS = "SHOW SESSION VARIABLES LIKE 'innodb_snapshot_isolation'"
ALL_BACK = ["The server has rolled back the whole transaction: begin it again."]
OLD, DEADLOCK = 1020, 1213


@pytest.fixture
def minding(begin: Callable[[], Connection]) -> Iterator[Connection | None]:
    """A transaction that is ended by news (1020), if the server has such: MySQL has not."""
    theirs = begin()
    if not _say(theirs, SNAPSHOTS):
        yield None
        return
    _say(theirs, "ROLLBACK", "SET SESSION innodb_snapshot_isolation = ON", SNAPSHOT)
    yield theirs
    _say(theirs, "ROLLBACK", "SET SESSION innodb_snapshot_isolation = DEFAULT")


def _is_usual(theirs: Connection) -> bool:
    """Return whether servers of that version have it ON by default."""
    [(version,)] = _say(theirs, "SELECT version()")
    return tuple(map(int, str(version).split("-")[0].split("."))) >= (11, 6, 2)


@pytest.mark.parametrize("mode", ["keep", "replace", "rerun"])
async def test_a_server_that_minds_old_snapshots(
    own_store: SqlStore, minding: Connection | None, mode: str
) -> None:
    """Where that is usual our statements decide by news. Before, it ends who would do so.

    With the driver's error, which says that nothing is left to be undone, and nothing is written.
    """
    if minding is None:
        return
    [id] = await put(own_store, keyed())
    if _is_usual(minding):
        own_store.enqueue([keyed(mode)], minding)
    else:
        with pytest.raises(pymysql.OperationalError) as raised:
            own_store.enqueue([keyed(mode)], minding)
        assert raised.value.args[0] == OLD
        assert raised.value.__notes__ == ALL_BACK
        assert own_store.enqueue([keyed()], minding) == [id]
    minding.commit()
    assert len(await live_jobs(own_store)) == 1


async def test_what_a_caller_minds_itself(
    own_store: SqlStore, minding: Connection | None, connection: Connection
) -> None:
    """Its own statements are refused after ours as before, in the same transaction."""
    if minding is None:
        return
    _say(connection, "CREATE TABLE own (id int PRIMARY KEY) ENGINE InnoDB")
    try:
        _say(connection, "INSERT INTO own VALUES (1)")
        _say(minding, "ROLLBACK", SNAPSHOT)
        _say(connection, "UPDATE own SET id = 2")
        own_store.enqueue([keyed("replace")], minding)
        assert _say(minding, SNAPSHOTS)[0][1] == "ON"
        with pytest.raises(pymysql.OperationalError) as raised:
            _say(minding, "UPDATE own SET id = 3")
        minding.rollback()
    finally:
        _say(connection, "DROP TABLE own")
    assert raised.value.args[0] == OLD
    assert await live_jobs(own_store) == []


async def test_two_who_wait_for_each_other(
    own_store: SqlStore, begin: Callable[[], Connection], connection: Connection
) -> None:
    """The server ends one of them, whose error says so, and of no savepoint that is gone."""
    first, second = begin(), begin()
    own_store.enqueue([keyed(key="a")], first)
    own_store.enqueue([keyed(key="b")], second)
    waiting = asyncio.create_task(asyncio.to_thread(own_store.enqueue, [keyed(key="b")], first))
    await until(lambda: _say(connection, LOCK_WAITS)[0][1] == "1")
    circle = asyncio.to_thread(own_store.enqueue, [keyed(key="a")], second)
    async with deadline():
        ended, waited = await asyncio.gather(circle, waiting, return_exceptions=True)
        ended = waited if isinstance(waited, BaseException) else ended
    assert isinstance(ended, pymysql.OperationalError)
    assert ended.args[0] == DEADLOCK
    assert ended.__notes__ == ALL_BACK
