"""What pages read from a store: pages by cursor, bounded counts, figures, a job's standing."""

from datetime import UTC, datetime, timedelta

from mutirao.model.graphs.graph import chain, step
from mutirao.model.jobs.job import JobState, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.limits.limits import LimitOrigin, Rule
from mutirao.model.reading.figures import Counted, read_cursor
from mutirao.model.reading.standing import Standing
from mutirao.ports import Store
from mutirao_conformance.filtering import wanted
from mutirao_conformance.graphs import write_graph
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    at,
    due,
    ended,
    ids_of,
    join,
    put,
    put_finished,
    take,
    take_one,
)
from mutirao_conformance.uniqueness import keyed


class PagingContract:
    """`Store.page` and `Store.how_many`."""

    async def test_pages_follow_each_other(self, store: Store) -> None:
        """Newest first, each job once, also where others come or go meanwhile."""
        ids = await put(store, *(due(task=f"t{n % 2}") for n in range(7)))
        first = await store.reading.page(JobFilter(), size=3)
        assert ids_of(first.jobs) == ids[:3:-1]
        assert first.searched_all
        await put(store, due())
        await store.cancel(JobFilter(ids=(ids[4],)), now=NOW)
        assert first.next is not None
        second = await store.reading.page(JobFilter(), before=read_cursor(first.next), size=3)
        assert ids_of(second.jobs) == ids[3:0:-1]
        assert second.next is not None
        third = await store.reading.page(JobFilter(), before=read_cursor(second.next), size=3)
        assert (ids_of(third.jobs), third.next, third.searched_all) == (ids[:1], None, True)

    async def test_pages_of_a_filter(self, store: Store) -> None:
        """Those that match; of live states, of failed ones, and of both."""
        worker = await join(store)
        [dead] = await put_finished(store, worker, due(), kind=OutcomeKind.DEAD)
        ids = await put(store, *(due(task=f"t{n}") for n in range(3)))
        for text, expected in [
            ("state:dead", [dead]),
            ("state:ready task:t1", ids[1:2]),
            ("state:ready,scheduled", ids[::-1]),
            ("state:ready,dead", [*ids[::-1], dead]),
            ("state:dead task:t1", []),
            (f"id:{ids[0]}..{ids[1]}", ids[1::-1]),
            (f"id:{ids[1]}.. id:..{ids[1]}", [ids[1]]),
            (f"id:{ids[2]}..,{dead} task:t2,greet", [ids[2], dead]),
            ("id:>9223372036854775806", []),
            (f"id:..{'9' * 18} key:none", []),
            ("graph:7", []),
            ("state:running", []),
        ]:
            page = await store.reading.page(wanted(text), size=10)
            assert (ids_of(page.jobs), page.next, page.searched_all) == (expected, None, True)
        page = await store.reading.page(wanted("state:ready"), size=2)
        assert ids_of(page.jobs) == ids[:0:-1]
        assert page.next is not None
        rest = await store.reading.page(
            wanted("state:ready"), before=read_cursor(page.next), size=2
        )
        assert ids_of(rest.jobs) == ids[:1]

    async def test_counts_stop(self, store: Store) -> None:
        """Up to a bound, and it says that there are more."""
        [first, *_] = await put(store, *(due(task="a") for _ in range(5)), due(task="b"))
        assert await store.reading.how_many(JobFilter()) == Counted(6)
        assert await store.reading.how_many(JobFilter(), most=6) == Counted(6)
        assert await store.reading.how_many(JobFilter(), most=5) == Counted(5, at_least=True)
        assert await store.reading.how_many(wanted(f"task:a -id:{first}")) == Counted(4)
        assert await store.reading.how_many(wanted("task:c")) == Counted(0)

    async def test_counts_of_failed_jobs(self, store: Store) -> None:
        """Those that died, were cancelled, or both; with other terms, too."""
        worker = await join(store)
        dead = [await put_finished(store, worker, due(), kind=OutcomeKind.DEAD) for _ in range(2)]
        [stopped, *_] = await put(store, due(), due(task="b"))
        await store.cancel(JobFilter(ids=(stopped,)), now=NOW)
        assert await store.reading.how_many(wanted("state:dead")) == Counted(2)
        assert await store.reading.how_many(wanted("state:dead,cancelled")) == Counted(3)
        assert await store.reading.how_many(wanted("state:dead"), most=1) == Counted(
            1, at_least=True
        )
        assert await store.reading.how_many(wanted(f"state:dead id:{dead[0][0]}")) == Counted(1)
        assert await store.reading.how_many(JobFilter(state=JobState.CANCELLED)) == Counted(1)


class FiguresContract:
    """Figures of queues, hours, minutes, waits, errors, and of what runs."""

    async def test_figures_of_queues(self, store: Store) -> None:
        """What `counts` says, whether or not it is added up."""
        worker = await join(store)
        await put_finished(store, worker, due(queue="a"), due(queue="b"))
        await put_finished(store, worker, due(queue="a"), kind=OutcomeKind.DEAD)
        await put(store, due(queue="a"), due(queue="a", fair_by="x"), due(run_at=FAR_AHEAD))
        for added_up in (False, True):
            if added_up:
                while await store.roll_up(None):
                    pass
            counted = {(each.queue, each.state): each.jobs for each in await store.counts()}
            figures = await store.reading.figures()
            assert {(each.queue, each.state): each.jobs for each in figures} == counted
            assert not any(each.at_least for each in figures)

    async def test_figures_of_a_paused_queue(self, store: Store) -> None:
        """What is due there is blocked."""
        await put(store, due(queue="a"), due(queue="b"))
        pause = Rule(name="pause", queue="a", most=0)
        await store.limits.put(pause, origin=LimitOrigin.COMMAND)
        found = {(each.queue, each.state) for each in await store.reading.figures()}
        assert found == {("a", JobState.BLOCKED), ("b", JobState.READY)}

    async def test_paused_queues(self, store: Store) -> None:
        """By name; neither what else has a limit, nor one value of theirs, nor a task."""
        for rule in (
            Rule(name="1", queue="b", most=0),
            Rule(name="2", queue="a", most=0),
            Rule(name="3", queue="c", most=1),
            Rule(name="4", queue="d", by="user", most=0),
            Rule(name="5", task="a", most=0),
        ):
            await store.limits.put(rule, origin=LimitOrigin.COMMAND)
        assert await store.limits.paused_queues() == ["a", "b"]
        await store.limits.remove("2")
        assert await store.limits.paused_queues() == ["b"]

    async def test_hours_and_minutes(self, store: Store) -> None:
        """Attempts by when they ended; those before are left out."""
        worker = await join(store)
        now = datetime.now(UTC)
        await put_finished(store, worker, due(queue="a"), due(queue="b"), now=now)
        await put_finished(
            store, worker, due(task="x"), kind=OutcomeKind.DEAD, now=now, error_type="E"
        )
        hours = await store.reading.hours(now - timedelta(hours=2))
        assert sorted((each.queue, each.outcome, each.attempts, each.failed) for each in hours) == [
            ("a", "succeeded", 1, False),
            ("b", "succeeded", 1, False),
            ("default", "dead", 1, True),
        ]
        assert [
            each.task for each in await store.reading.hours(now - timedelta(hours=2), queue="b")
        ] == ["greet"]
        assert await store.reading.hours(now + timedelta(hours=2)) == []
        minutes = await store.reading.minutes(now - timedelta(minutes=5))
        assert [(each.outcome, each.attempts, each.at_least) for each in minutes] == [
            ("dead", 1, False),
            ("succeeded", 2, False),
        ]
        assert minutes[0].minute == now.replace(second=0, microsecond=0)
        assert await store.reading.minutes(now + timedelta(minutes=5)) == []

    async def test_waits(self, store: Store) -> None:
        """From when a job was due to its start, by queue; only of first attempts."""
        worker = await join(store)
        await put(store, *(due(queue="a") for _ in range(3)), due(queue="b", run_at=at(7)))
        for seconds in (10, 10, 10, 10):
            claims = await take(store, worker, 9, now=at(seconds))
            done = [ended(each) for each in claims]
            await store.settle(worker, done, now=at(seconds))
        [a, b] = await store.reading.waits()
        assert (a.queue, a.jobs, b.queue, b.jobs) == ("a", 3, "b", 1)
        assert all(each.p50 <= each.p95 <= each.longest for each in (a, b))

    async def test_errors_are_grouped(self, store: Store) -> None:
        """Grouped; the filter of each finds its jobs."""
        worker = await join(store)
        [first] = await put(store, due())
        claim = await take_one(store, worker)
        dead = ended(claim, OutcomeKind.DEAD, error_type="shop.Busy", error='a "7%" \\ b\nmore')
        await store.settle(worker, [dead], now=NOW)
        [other] = await put_finished(
            store, worker, due(task="x"), kind=OutcomeKind.DEAD, error_type="E"
        )
        found = {each.task: each for each in await store.reading.errors()}
        assert {task: each.jobs for task, each in found.items()} == {"greet": 1, "x": 1}
        assert found["greet"].message == 'a "7%" \\ b'
        assert ids_of(await store.jobs(wanted(found["greet"].filter))) == [first]
        assert ids_of(await store.jobs(wanted(found["x"].filter))) == [other]
        assert [each.task for each in await store.reading.errors(task="x")] == ["x"]
        assert len(await store.reading.errors(limit=1)) == 1

    async def test_what_runs(self, store: Store) -> None:
        """By worker, those that began first first."""
        one, two = await join(store), await join(store)
        ids = await put(store, *(due() for _ in range(3)))
        await take(store, one, 2, now=at(1))
        await take(store, two, 2, now=at(2))
        assert ids_of(await store.reading.running()) == ids
        assert ids_of(await store.reading.running(worker=two)) == ids[2:]
        await store.cancel(JobFilter(ids=(ids[0],)), now=at(3))
        [first] = await store.reading.running(limit=1)
        assert (first.worker, first.attempt, first.started_at) == (one, 1, at(1))
        assert (first.task, first.queue, first.cancelling) == ("greet", "default", True)


class StandingContract:
    """`Store.standing`: what holds a job back."""

    async def test_what_is_not_live(self, store: Store) -> None:
        """Nothing holds it back."""
        worker = await join(store)
        [id] = await put_finished(store, worker, due())
        assert await store.reading.standing(id) is None
        assert await store.reading.standing(4_711) is None

    async def test_due_scheduled_and_running(self, store: Store) -> None:
        """The number of jobs before it in its lane; when it is due; the worker that runs it."""
        ids = await put(store, due(), due(run_at=at(1)), due(run_at=FAR_AHEAD), due(priority=3))
        assert [(await _standing(store, id)).ahead for id in ids] == [0, 1, 0, 0]
        assert (await _standing(store, ids[2])).state is JobState.SCHEDULED
        worker = await join(store)
        await take(store, worker, 1)
        running = await _standing(store, ids[0])
        assert (running.state, running.worker) == (JobState.RUNNING, worker)

    async def test_behind_a_pause(self, store: Store) -> None:
        """By its queue or its task, and by no other."""
        ids = await put(store, due(queue="a"), due(task="t", queue="b"), due(queue="c"))
        for rule in (Rule(name="p", most=0, queue="a"), Rule(name="q", most=0, task="t")):
            await store.limits.put(rule, origin=LimitOrigin.COMMAND)
        assert [(await _standing(store, id)).paused for id in ids] == [("p",), ("q",), ()]

    async def test_behind_a_full_limit(self, store: Store) -> None:
        """Which one, for which value, and how many are at it."""
        rule = Rule(name="one", queue="a", by="n", most=1)
        await store.limits.put(rule, origin=LimitOrigin.COMMAND)
        ids = await put(store, *(due(queue="a", args='{"n": 7}') for _ in range(2)))
        worker = await join(store)
        assert len(await take(store, worker)) == 1
        full = (await _standing(store, ids[1])).full
        assert full is not None
        assert (full.limit, full.key, full.most, full.running) == ("one", "7", 1, 1)

    async def test_behind_a_key(self, store: Store) -> None:
        """The job that has it."""
        worker = await join(store)
        [first] = await put(store, keyed())
        await take_one(store, worker)
        [second] = await put(store, keyed("replace"))
        assert (await _standing(store, second)).held_by == first

    async def test_after_a_step(self, store: Store) -> None:
        """The steps that have not succeeded."""
        steps = (due(task="a"), due(task="b"), due(task="c"))
        ids = await write_graph(store, chain(*map(step, steps)))
        assert [(await _standing(store, id)).after for id in ids] == [(), (ids[0],), (ids[1],)]


async def _standing(store: Store, id: int) -> Standing:
    found = await store.reading.standing(id)
    assert found is not None
    return found
