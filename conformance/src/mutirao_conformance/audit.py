"""Actions of people: their records, the ids that a batch begins with, and deletion."""

from mutirao.model.audit.actions import ActionKind, ActionState, Came, NewAction
from mutirao.model.graphs.graph import chain, step
from mutirao.model.jobs.job import JobState, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.ports import Store
from mutirao_conformance.filtering import wanted
from mutirao_conformance.graphs import write_graph
from mutirao_conformance.kit import NOW, at, due, finish, ids_of, join, put, put_finished, take

CANCELS = NewAction(who="ana", action=ActionKind.CANCEL, filter="queue:a", expected=5)


class AuditContract:
    """`mutirao.ports.audit`."""

    async def test_an_action_is_kept(self, store: Store) -> None:
        """With the user, the kind, the jobs, their number and the state; newest first."""
        first = await store.audit.begin(CANCELS)
        second = await store.audit.begin(
            NewAction(who="é", action=ActionKind.CHANGE, ids=(7, 8), change='{"priority": 1}')
        )
        assert await store.audit.advance(first, Came(4, 3, {"running": 1}))
        [newest, oldest] = await store.audit.actions()
        assert (newest.id, newest.who, newest.ids, newest.filter) == (second, "é", (7, 8), None)
        assert newest.change == '{"priority": 1}'
        assert (oldest.id, oldest.who, oldest.action, oldest.filter, oldest.expected) == (
            first, "ana", ActionKind.CANCEL, "queue:a", 5,
        )  # fmt: skip
        assert (oldest.matched, oldest.done, oldest.passed_over) == (4, 3, 1)
        assert (oldest.why, oldest.state, oldest.finished_at) == (
            {"running": 1}, ActionState.RUNNING, None,
        )  # fmt: skip
        await store.audit.end(first, ActionState.FAILED, "x" * 9_999)
        [ended] = await store.audit.actions(id=first)
        assert (ended.state, len(ended.error or "")) == (ActionState.FAILED, 2_000)
        assert ended.finished_at is not None
        assert [each.id for each in await store.audit.actions(before=second)] == [first]
        assert [each.id for each in await store.audit.actions(limit=1)] == [second]
        assert await store.audit.actions(id=4_711) == []

    async def test_an_action_is_stopped(self, store: Store) -> None:
        """Its next batch is refused; an action that does not run cannot be stopped."""
        id = await store.audit.begin(CANCELS)
        assert await store.audit.stop(id)
        assert not await store.audit.advance(id, Came(1, 1))
        await store.audit.end(id, ActionState.STOPPED)
        assert not await store.audit.stop(id)
        assert not await store.audit.stop(4_711)
        [record] = await store.audit.actions()
        assert (record.state, record.done) == (ActionState.STOPPED, 1)

    async def test_an_action_that_nobody_sees_any_more(self, store: Store) -> None:
        """An action that reports nothing for long is lost; its record has its progress."""
        id = await store.audit.begin(CANCELS, now=NOW)
        await store.audit.advance(id, Came(2, 2), now=at(1))
        [record] = await store.audit.actions()
        assert (record.state, record.done, record.seen_at) == (ActionState.LOST, 2, at(1))
        assert not await store.audit.stop(id)
        await store.audit.advance(id, Came(3, 3))
        [record] = await store.audit.actions()
        assert record.state is ActionState.RUNNING

    async def test_old_actions_are_forgotten(self, store: Store) -> None:
        """The oldest first."""
        ids = [await store.audit.begin(CANCELS, now=at(seconds)) for seconds in (0, 1, 2)]
        assert await store.audit.prune(10, 1, now=at(20)) == 1
        assert await store.audit.prune(10, 9, now=at(11)) == 0
        assert await store.audit.prune(10, 9, now=at(11.5)) == 1
        assert [each.id for each in await store.audit.actions()] == ids[2:]

    async def test_ids_in_parts(self, store: Store) -> None:
        """Newest first, until there are no more."""
        ids = await put(store, *(due(task=f"t{n % 2}") for n in range(5)))
        found, before = await store.audit.matching_ids(wanted("task:t0"), size=2)
        assert (found, before) == ([ids[4], ids[2]], ids[2])
        found, before = await store.audit.matching_ids(wanted("task:t0"), before=before, size=2)
        assert (found, before) == ([ids[0]], None)

    async def test_states_are_counted(self, store: Store) -> None:
        """Of the jobs that match; a state in which none is, is left out."""
        worker = await join(store)
        dead = await put_finished(store, worker, due(), due(), kind=OutcomeKind.DEAD)
        [waiting, *_] = await put(store, due(), due())
        which = JobFilter(ids=(*dead, waiting, 4_711))
        assert await store.audit.states(which) == {JobState.DEAD: 2, JobState.READY: 1}
        assert await store.audit.states(wanted("task:none")) == {}

    async def test_of_what_was_found_before(self, store: Store) -> None:
        """No others are met; but they are not named, so none is redriven twice."""
        worker = await join(store)
        dead = await put_finished(store, worker, due(), due(), due(), kind=OutcomeKind.DEAD)
        found = JobFilter(among=tuple(dead[:2]), limit=None)
        assert ids_of(await store.jobs(found)) == dead[1::-1]
        assert len(await store.redrive(found)) == 2
        assert await store.redrive(found) == []
        assert await store.jobs(JobFilter(among=())) == []

    async def test_finished_jobs_are_deleted(self, store: Store) -> None:
        """With all that is known of them; live ones and steps of what goes on stay."""
        worker = await join(store)
        dead = await put_finished(store, worker, due(), due(), kind=OutcomeKind.DEAD)
        [done] = await put_finished(store, worker, due())
        steps = await write_graph(store, chain(step(due("a")), step(due("b"))))
        claims = await take(store, worker)
        await finish(store, worker, claims)
        assert sorted(await store.audit.delete(wanted("state:dead"))) == dead
        assert await store.audit.delete(JobFilter(limit=None)) == [done]
        assert sorted(ids_of(await store.jobs(JobFilter()))) == steps
        assert await store.audit.delete(JobFilter(ids=tuple(dead))) == []
