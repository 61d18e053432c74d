"""Settling: how outcomes are written, and the state of the job after it."""

import json
from datetime import timedelta, timezone

import pytest

from mutirao.errors import UnknownJob
from mutirao.model.jobs.job import JobState, NewJob, OutcomeKind
from mutirao.model.jobs.outcome import Outcome, Settlement
from mutirao.model.jobs.records import JobFilter
from mutirao.ports import Store
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    SLACK,
    at,
    due,
    ended,
    ids_of,
    join,
    lane,
    put,
    refused,
    take,
    take_one,
)

FINAL = [OutcomeKind.SUCCEEDED, OutcomeKind.DEAD, OutcomeKind.CANCELLED]
WAITING = [OutcomeKind.RETRIED, OutcomeKind.SNOOZED, OutcomeKind.RELEASED]
UNCOUNTED = [OutcomeKind.SNOOZED, OutcomeKind.RELEASED]


class SettlingContract:
    """`Store.settle`, when the settlements are the current ones."""

    async def test_nothing_to_settle(self, store: Store) -> None:
        """An empty batch writes nothing and returns nothing."""
        assert await store.settle(await join(store), [], now=NOW) == set()
        assert await store.settle(1, []) == set()

    @pytest.mark.parametrize("kind", FINAL)
    async def test_final_outcomes_end_the_job(self, store: Store, kind: OutcomeKind) -> None:
        """It is in history then, and no longer live: not waiting, not running, not claimable."""
        [id] = await put(store, due())
        worker = await join(store)
        claim = await take_one(store, worker)
        done = ended(claim, kind, error_type="E", error="why", started_ago=5.5, finished_ago=0.25)
        assert await store.settle(worker, [done], now=at(10)) == {id}
        record = await store.job(id)
        assert (record.state.value, record.attempt, record.worker) == (kind.value, 1, worker)
        assert (record.started_at, record.finished_at) == (at(4.5), at(9.75))
        assert (record.error_type, record.error) == ("E", "why")
        [attempt] = record.attempts
        assert (attempt.outcome, attempt.attempt, attempt.run) == (kind, 1, claim.run)
        assert (attempt.started_at, attempt.finished_at) == (at(4.5), at(9.75))
        assert (attempt.worker, attempt.error_type, attempt.error) == (worker, "E", "why")
        assert await store.lanes(None, now=FAR_AHEAD) == []
        assert await store.held(worker) == []

    async def test_success_has_no_error(self, store: Store) -> None:
        """Nothing is said where nothing was wrong."""
        [id] = await put(store, due())
        worker = await join(store)
        await store.settle(worker, [ended(await take_one(store, worker))], now=NOW)
        record = await store.job(id)
        assert (record.error_type, record.error) == (None, None)
        assert (record.attempts[0].error_type, record.attempts[0].error) == (None, None)

    @pytest.mark.parametrize("kind", WAITING)
    async def test_after_some_seconds(self, store: Store, kind: OutcomeKind) -> None:
        """`after` counts from now: not claimable before, claimable then."""
        [id] = await put(store, due())
        worker = await join(store)
        settlement = ended(await take_one(store, worker), kind, after=12.5, finished_ago=3)
        assert await store.settle(worker, [settlement], now=NOW) == {id}
        assert await take(store, worker, now=at(12.4)) == []
        claim = await take_one(store, worker, now=at(12.5))
        assert (claim.id, claim.run_at) == (id, at(12.5))

    @pytest.mark.parametrize("kind", WAITING)
    async def test_at_a_moment(self, store: Store, kind: OutcomeKind) -> None:
        """`at` is the moment, in whatever time zone, and may have passed."""
        zone = timezone(timedelta(hours=3))
        [id] = await put(store, due())
        worker = await join(store)
        for moment in (at(40), at(-40)):
            claim = await take_one(store, worker, now=at(50))
            settlement = ended(claim, kind, at=moment.astimezone(zone))
            assert await store.settle(worker, [settlement], now=NOW) == {id}
            assert (await store.job(id)).run_at == moment
            assert await take(store, worker, now=moment - timedelta(seconds=1)) == []

    @pytest.mark.parametrize("kind", WAITING)
    async def test_without_a_time_it_is_due(self, store: Store, kind: OutcomeKind) -> None:
        """Neither `after` nor `at`: it waits for nothing."""
        await put(store, due())
        worker = await join(store)
        claim = await take_one(store, worker)
        await store.settle(worker, [ended(claim, kind)], now=at(5))
        assert (await take_one(store, worker, now=at(5))).run > claim.run

    async def test_a_retry_has_cost_an_attempt(self, store: Store) -> None:
        """Every execution is counted, and every one has its row, in order."""
        [id] = await put(store, due())
        worker = await join(store)
        for attempt in (1, 2, 3):
            claim = await take_one(store, worker)
            assert claim.attempt == attempt
            failed = ended(claim, OutcomeKind.RETRIED, error_type="E", error=f"no. {attempt}")
            await store.settle(worker, [failed], now=NOW)
        record = await store.job(id)
        assert record.attempt == 3
        assert record.state == JobState.READY
        assert [(each.attempt, each.error) for each in record.attempts] == [
            (1, "no. 1"),
            (2, "no. 2"),
            (3, "no. 3"),
        ]
        runs = [each.run for each in record.attempts]
        assert runs == sorted(set(runs))

    @pytest.mark.parametrize("kind", UNCOUNTED)
    async def test_the_attempt_is_given_back(self, store: Store, kind: OutcomeKind) -> None:
        """The next execution has the same number; both are in history, with different runs."""
        [id] = await put(store, due())
        worker = await join(store)
        failed = ended(await take_one(store, worker), OutcomeKind.RETRIED)
        await store.settle(worker, [failed], now=NOW)
        claim = await take_one(store, worker)
        assert claim.attempt == 2
        await store.settle(worker, [ended(claim, kind, error="later")], now=NOW)
        assert (await store.job(id)).attempt == 1
        claim = await take_one(store, worker)
        assert claim.attempt == 2
        await store.settle(worker, [ended(claim)], now=NOW)
        attempts = (await store.job(id)).attempts
        assert [(each.outcome, each.attempt) for each in attempts] == [
            (OutcomeKind.RETRIED, 1),
            (kind, 2),
            (OutcomeKind.SUCCEEDED, 2),
        ]

    async def test_a_batch_of_every_kind(self, store: Store) -> None:
        """Each settlement of a batch has its own outcome, times, error and follow-up."""
        worker = await join(store)
        kinds = (FINAL + WAITING) * 3
        await put(store, *(due(args=json.dumps({"n": n})) for n in range(len(kinds))))
        claims = await take(store, worker)
        batch = [
            ended(claim, kind, after=n, error=f"error {n}", started_ago=100 + n, finished_ago=n)
            for n, (claim, kind) in enumerate(zip(claims, kinds, strict=True))
        ]
        assert await store.settle(worker, batch, now=NOW) == set(ids_of(claims))
        for n, (claim, kind) in enumerate(zip(claims, kinds, strict=True)):
            record = await store.job(claim.id)
            [attempt] = record.attempts
            assert (attempt.outcome, attempt.error, record.args) == (kind, f"error {n}", {"n": n})
            assert (attempt.started_at, attempt.finished_at) == (at(-100 - n), at(-n))
            assert record.run_at == (NOW if kind.final else at(n))

    async def test_a_large_batch(self, store: Store) -> None:
        """Thousands in one call, more than any database has parameters for in one statement."""
        worker = await join(store)
        ids = await put(store, *(due() for _ in range(5_000)))
        claims = await store.claim(worker, [lane()], 5_000, now=NOW)
        batch = [ended(claim, error_type="E", error="x") for claim in claims]
        assert await store.settle(worker, batch, now=NOW) == set(ids)
        [count] = await store.counts()
        assert (count.state, count.jobs) == (JobState.SUCCEEDED, 5_000)

    async def test_errors_are_kept_as_they_are(self, store: Store) -> None:
        """Any character, several lines, and as long as the engine leaves them."""
        text = "línea 1\n'quoted' \"double\" %s :name 🎈 {}\\\n" + "x" * 8_000
        [id] = await put(store, due())
        worker = await join(store)
        claim = await take_one(store, worker)
        failed = ended(claim, OutcomeKind.DEAD, error_type="pkg.Erro[é]", error=text)
        await store.settle(worker, [failed], now=NOW)
        record = await store.job(id)
        assert (record.error_type, record.error) == ("pkg.Erro[é]", text)

    async def test_settled_by_the_database_s_clock(self, store: Store) -> None:
        """Without `now`, history has the database's time, and `after` counts from it."""
        first, second = await put(store, due(), due())
        worker = await join(store, now=None)
        claims = await store.claim(worker, [lane()], 2)
        done, again = (
            ended(claims[0], started_ago=2.0),
            ended(claims[1], OutcomeKind.RETRIED, after=500),
        )
        assert await store.settle(worker, [done, again]) == {first, second}
        [attempt] = (await store.job(first)).attempts
        assert (attempt.finished_at - attempt.started_at).total_seconds() == pytest.approx(2.0)
        later = await store.job(second)
        assert later.state == JobState.SCHEDULED
        wait = (later.run_at - attempt.finished_at).total_seconds()
        assert wait == pytest.approx(500, abs=1)
        since_enqueued = (attempt.finished_at - later.enqueued_at).total_seconds()
        assert -1 < since_enqueued < SLACK

    @pytest.mark.parametrize("kind", FINAL + WAITING)
    async def test_a_follow_up_is_enqueued(self, store: Store, kind: OutcomeKind) -> None:
        """Whatever the outcome: a job like any other, with everything it was given."""
        [id] = await put(store, due())
        worker = await join(store)
        next_one = NewJob(
            task="after", args='{"of": 1}', queue="other", priority=4, run_at=at(9),
            on_dead_of=id, tags=("t",), metadata={"m": 1}, max_attempts=3,
        )  # fmt: skip
        settlement = ended(await take_one(store, worker), kind, after=999, follow_up=next_one)
        assert await store.settle(worker, [settlement], now=NOW) == {id}
        assert await take(store, worker, now=NOW) == []
        claim = await take_one(store, worker, now=at(9))
        assert (claim.task, claim.args and json.loads(claim.args)) == ("after", {"of": 1})
        assert (claim.queue, claim.priority, claim.on_dead_of) == ("other", 4, id)
        assert (claim.run, claim.attempt, claim.max_attempts) == (1, 1, 3)

    async def test_every_follow_up_of_a_batch(self, store: Store) -> None:
        """Some have one and some have none; none is lost and none is doubled."""
        worker = await join(store)
        ids = await put(store, *(due() for _ in range(40)))
        batch = [
            ended(claim, follow_up=due("after", on_dead_of=claim.id) if claim.id % 2 else None)
            for claim in await take(store, worker)
        ]
        await store.settle(worker, batch, now=NOW)
        after = await store.jobs(JobFilter(task="after"))
        assert sorted(record.on_dead_of or 0 for record in after) == [id for id in ids if id % 2]

    async def test_all_in_one_transaction(self, store: Store) -> None:
        """A follow-up that is refused takes the whole batch with it; the jobs are still held."""
        worker = await join(store)
        ids = await put(store, *(due() for _ in range(3)))
        claims = await take(store, worker)
        wrong = due("after", args='["not an object"]')
        batch = [
            ended(claims[0], follow_up=due("after")),
            ended(claims[1], OutcomeKind.RETRIED),
            ended(claims[2], follow_up=wrong),
        ]
        with refused():
            await store.settle(worker, batch, now=NOW)
        assert sorted(id for id, _ in await store.held(worker)) == sorted(ids)
        assert [(await store.job(id)).attempts for id in ids] == [(), (), ()]
        assert await store.jobs(JobFilter(task="after")) == []
        assert await store.settle(worker, [ended(claim) for claim in claims], now=NOW) == set(ids)

    async def test_a_job_nobody_knows(self, store: Store) -> None:
        """Settling it writes nothing."""
        worker = await join(store)
        lost = Settlement(4_711, 1, Outcome(OutcomeKind.SUCCEEDED), follow_up=due())
        assert await store.settle(worker, [lost], now=NOW) == set()
        assert await store.jobs(JobFilter()) == []
        with pytest.raises(UnknownJob):
            await store.job(4_711)
