"""`publish`: what publishing costs, and how fast a publication becomes deliveries."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, text

from benchmarks.figures import Figures
from benchmarks.ground import Ground, ground
from benchmarks.load import PREFIX, Load, filling
from mutirao.engine.settings import WorkerSettings, identity
from mutirao.errors import MutiraoError
from mutirao.model.jobs.job import Claim, Job, Wake
from mutirao.model.moments import EPOCH
from mutirao.sql.schema import tables
from mutirao.tasks.topics.topics import Topic

TOLD = (1_000, 100_000)
WAITING = 10_000  # subscriptions, while it is measured what publishing costs
_AT_ONCE, _BLOCK = 10_000, 50
_SMALL, _OFTEN = 10_000, 5  # up to so many subscriptions it is measured so often instead of once
_TURNS = "_first", "_second"  # the second one is measured
_KEYS = {"delivery": "job"}
_OF_LIVE = ", ".join(tables.live.c.keys())
_COPIED = ("job", "live", "delivery")  # in the order in which they are written again


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Seconds of a fan-out, and of the INSERT … SELECT of the rows that it wrote.

    Both are what the connection does for the second time, as that of a worker does.
    """

    subscriptions: int
    fan_out: float
    insert: float

    @property
    def ratio(self) -> float:
        """How fast the fan-out is, as a share of the INSERT."""
        return self.insert / self.fan_out


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The medians of all rounds; milliseconds of one call, each a transaction of its own."""

    enqueue: float
    publish: float
    publish_to_many: float
    told: tuple[Told, ...]

    def figures(self) -> Figures:
        """Return them by name."""
        found: Figures = {
            "enqueue, ms": self.enqueue,
            "publish, ms": self.publish,
            f"publish beside {WAITING:,} subscriptions, ms": self.publish_to_many,
        }
        for each in self.told:
            name = f"{each.subscriptions:,} subscriptions"
            found |= {
                f"{name}: deliveries/s": each.subscriptions / each.fan_out,
                f"{name}: INSERT … SELECT, rows/s": each.subscriptions / each.insert,
                f"{name}: ratio": each.ratio,
            }
        return found


async def publish(
    url: str, *, jobs: int = 500, told: Sequence[int] = TOLD, rounds: int = 3
) -> Published:
    """Publish beside enqueueing, and fan out beside one INSERT … SELECT of the same rows.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        jobs: how often is published, and enqueued, each time, in turns.
        told: numbers of subscriptions; each is measured.
        rounds: how often each fan-out is measured; those to few subscriptions more often.

    Raises:
        MutiraoError: the database is not ours to use, or some deliveries were not made.
    """
    load = Load(url)
    topic = load.app.topic(f"{PREFIX}published")
    async with ground(url) as place:
        plain, nobody = await _calls(load, topic, jobs)
        await _subscribe(place, topic, WAITING)
        again, many = await _calls(load, topic, jobs)
        found = [await _told(place, topic, count, rounds) for count in told]
        await place.prepare()
    await load.app.aclose()
    return Published(
        enqueue=median((plain, again)), publish=nobody, publish_to_many=many, told=tuple(found)
    )


async def _calls(load: Load, topic: Topic[Any], jobs: int) -> tuple[float, float]:
    """Return milliseconds of an enqueue and of a publish, done in turns."""
    payload, times = filling(60), max(jobs // _BLOCK, 1)
    enqueueing = publishing = 0.0
    for _ in range(times):
        started = perf_counter()
        for _ in range(_BLOCK):
            await load.coroutine.aenqueue(payload=payload)
        between = perf_counter()
        for _ in range(_BLOCK):
            await topic.apublish({"payload": payload})
        enqueueing, publishing = (
            enqueueing + between - started,
            publishing + perf_counter() - between,
        )
    calls = times * _BLOCK / 1e3
    return enqueueing / calls, publishing / calls


async def _subscribe(place: Ground, topic: Topic[Any], count: int) -> None:
    """Make so many subscriptions, and no others."""

    def write(conn: Connection) -> None:
        conn.execute(delete(tables.subscription))
        for first in range(0, count, _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, count))
            conn.execute(insert(tables.subscription), [_row(topic, n) for n in numbers])

    await place.change(write)
    await place.store.refresh_statistics()


def _row(topic: Topic[Any], number: int) -> dict[str, Any]:
    return {
        "id": f"{PREFIX}{number:07}", "topic": topic.topic, "kind": "handler", "active": True,
        "task": f"{PREFIX}told", "queue": "default", "priority": 0, "options": "{}",
        "origin": "call", "created_at": EPOCH, "changed_at": EPOCH,
    }  # fmt: skip


async def _told(place: Ground, topic: Topic[Any], count: int, rounds: int) -> Told:
    times = []
    for _ in range(rounds if count > _SMALL else rounds * _OFTEN):
        await place.change(_drop_copies)
        await place.prepare()
        await _subscribe(place, topic, count)
        for turn in _TURNS:
            await topic.apublish({"payload": filling(60)})
            took = await _fan_out(place)
            await place.change(partial(_check_and_copy, turn, count))
        await place.prepare()
        times.append((took, await _insert(place)))
    await place.change(_drop_copies)
    fan_outs, inserts = zip(*times, strict=True)
    return Told(subscriptions=count, fan_out=median(fan_outs), insert=median(inserts))


async def _insert(place: Ground) -> float:
    """Write the same rows again, twice; return the seconds of the second time.

    Where a trigger makes jobs live, these rows are not written by us. Nothing is asked meanwhile.
    """
    first, second = _TURNS
    await place.change(partial(_write_copies, first, _COPIED[:1]))
    is_live = await place.ask(lambda conn: conn.scalar(select(func.count(tables.live.c.id))))
    names = [name for name in _COPIED if name != "live" or not is_live]
    await place.change(partial(_write_copies, first, names[1:]))
    started = perf_counter()
    await place.change(partial(_write_copies, second, names))
    return perf_counter() - started


class _Attempt:
    """An attempt that nobody waits for."""

    settled = False

    def started_ago(self) -> float:
        """Return what every attempt may say."""
        return 0.0

    def mark_settled(self, woken: Iterable[Wake] = ()) -> None:
        """Note it."""
        self.settled = True


async def _fan_out(place: Ground) -> float:
    """Claim the publication and make its deliveries; return the seconds of the latter."""
    store = place.store
    worker = await store.register(identity(WorkerSettings(), version=""), expiry=3_600)
    [claim] = await store.claim(worker, [head.lane for head in await store.lanes(None)], 1)
    attempt, after = _Attempt(), None
    started = perf_counter()
    while not attempt.settled:
        after = await store.subscriptions.fan_out(_job(claim), attempt, after)
    took = perf_counter() - started
    await store.retire(worker)
    return took


def _job(claim: Claim) -> Job:
    def begin(*_: object) -> Any:
        raise AssertionError("nothing runs")

    return Job(claim, 1, None, begin)


def _check_and_copy(turn: str, count: int, conn: Connection) -> None:
    """Keep the deliveries of the last publication; raise MutiraoError unless they are so many."""
    last = conn.execute(select(func.max(tables.delivery.c.publication))).scalar()
    for name in _COPIED:
        of = f"SELECT job FROM mutirao_delivery WHERE publication = {int(last or 0)}"  # noqa: S608
        rows = f"SELECT * FROM mutirao_{name} WHERE {_KEYS.get(name, 'id')} IN ({of})"  # noqa: S608
        conn.execute(text(f"CREATE TABLE mutirao_bench_{name}{turn} AS {rows}"))
    kept = conn.execute(text(f"SELECT count(*) FROM mutirao_bench_delivery{turn}"))  # noqa: S608
    if (made := kept.scalar_one()) != count:
        raise MutiraoError(f"{count} deliveries should have been made, but there are {made}")
    conn.execute(delete(tables.live))  # or they would be claimed before the next publication


def _write_copies(turn: str, names: Sequence[str], conn: Connection) -> None:
    for name in names:
        # A database may compute a column of live rows, and have one of jobs that is not ours.
        its, columns = ("*", "") if name != "live" else (_OF_LIVE, f" ({_OF_LIVE})")
        copies = f"SELECT {its} FROM mutirao_bench_{name}{turn}"  # noqa: S608 (our own constants)
        conn.exec_driver_sql(f"INSERT INTO mutirao_{name}{columns} {copies}")


def _drop_copies(conn: Connection) -> None:
    for name in _COPIED:
        for turn in _TURNS:
            conn.execute(text(f"DROP TABLE IF EXISTS mutirao_bench_{name}{turn}"))
