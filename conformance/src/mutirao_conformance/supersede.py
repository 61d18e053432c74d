"""Jobs with a supersede rule: which ones a newer job makes redundant, and their order."""

import asyncio
import json
from typing import Any

import pytest

from mutirao.errors import InvalidJob
from mutirao.model.jobs.job import Claim, JobState, NewJob, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.keys.supersede import Merge, Supersede
from mutirao.model.keys.uniqueness import How, Placed, Unique
from mutirao.ports import Store
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    Face,
    at,
    due,
    ended,
    enqueue,
    finish,
    ids_of,
    join,
    newcomer,
    put,
    take,
    take_one,
)
from mutirao_conformance.transactions import Handler, Watched, run
from mutirao_conformance.uniqueness import aside, live_jobs, placed, state_of

RULE = Supersede.activities()
# What is left of two jobs if the older one was not tried: the kind, and which job's object.
TABLE: list[tuple[str, str, How, list[tuple[str, str]]]] = [
    ("Create", "Update", "merged", [("Create", "newer")]),
    ("Create", "Delete", "superseded", []),
    ("Update", "Update", "replaced", [("Update", "newer")]),
    ("Update", "Delete", "replaced", [("Delete", "newer")]),
    ("Delete", "Create", "follows", [("Delete", "older"), ("Create", "newer")]),
    ("Add", "Remove", "superseded", []),
    ("Remove", "Add", "superseded", []),
    ("Follow", "Undo", "superseded", []),
    ("Like", "Announce", "follows", [("Like", "older"), ("Announce", "newer")]),
]
the_table = pytest.mark.parametrize(("older", "newer", "how", "left"), TABLE)


def activity(kind: str, what: str = "", *, merge: Merge | None = None, **options: Any) -> NewJob:
    """Return a job of a key whose rule is that of ActivityStreams."""
    rule = RULE if merge is None else Supersede.activities(merge=merge)
    unique = Unique(supersede=rule, scope=options.pop("scope", None))
    args = json.dumps({"type": kind, "object": what})
    return due(**{"task": "send", "key": "k", "args": args, "unique": unique, **options})


def said(claim: Claim) -> tuple[str, str]:
    """Return the kind of a claimed job and whose object it has."""
    args = json.loads(claim.args)
    return args["type"], args["object"]


async def run_all(store: Store, worker: int, *first: Claim) -> list[tuple[str, str]]:
    """Run jobs, never two at once; return what they were, in their order."""
    ran = []
    claims = [*first] or await take(store, worker)
    while claims:
        [claim] = claims
        ran.append(said(claim))
        await finish(store, worker, [claim])
        claims = await take(store, worker)
    assert await live_jobs(store) == []
    return ran


class SupersedeContract:
    """`Unique.supersede`: the table decides, in the transaction that enqueues the newer one."""

    @the_table
    async def test_the_table(
        self, store: Store, older: str, newer: str, how: How, left: list[Any]
    ) -> None:
        """Of two that wait, what the rule says is left, in their order."""
        first, _ = await placed(store, activity(older, "older"))
        second, placement = await placed(store, activity(newer, "newer"))
        assert placement == how
        assert second > first
        assert await run_all(store, await join(store)) == left
        if how != "follows":
            why = "merged into" if how == "merged" else "superseded by"
            assert await state_of(store, first) == (JobState.CANCELLED, f"{why} job {second}")
        if how == "superseded":
            reason = f"superseded together with job {first}"
            assert await state_of(store, second) == (JobState.CANCELLED, reason)

    @the_table
    async def test_the_table_in_one_call(
        self, store: Store, older: str, newer: str, how: How, left: list[Any]
    ) -> None:
        """Each job of a call sees what those before it did."""
        jobs = [activity(older, "older"), due("other"), activity(newer, "newer")]
        first, other, second = await put(store, *jobs)
        assert isinstance(first, Placed)
        assert isinstance(second, Placed)
        assert (first.how, second.how) == ("inserted", how)
        worker = await join(store)
        await store.cancel(JobFilter(ids=(int(other),)))
        assert await run_all(store, worker) == left

    @the_table
    async def test_once_the_older_one_runs(
        self, store: Store, older: str, newer: str, how: How, left: list[Any]
    ) -> None:
        """Nobody knows what it has done: both are sent, in order."""
        await placed(store, activity(older, "older"))
        worker = await join(store)
        claim = await take_one(store, worker)
        assert (await placed(store, activity(newer, "newer")))[1] == "follows"
        assert await take(store, worker) == []
        assert await run_all(store, worker, claim) == [(older, "older"), (newer, "newer")]

    @the_table
    async def test_once_the_older_one_was_tried(
        self, store: Store, older: str, newer: str, how: How, left: list[Any]
    ) -> None:
        """Its retries come first."""
        await placed(store, activity(older, "older"))
        worker = await join(store)
        failed = ended(await take_one(store, worker), OutcomeKind.RETRIED, after=60.0)
        await store.settle(worker, [failed], now=NOW)
        assert (await placed(store, activity(newer, "newer")))[1] == "follows"
        assert await take(store, worker) == []
        again = await take_one(store, worker, now=at(60))
        assert await run_all(store, worker, again) == [(older, "older"), (newer, "newer")]

    async def test_one_that_was_only_given_back(self, store: Store) -> None:
        """A claim that was never started is no attempt."""
        await placed(store, activity("Update", "1"))
        worker = await join(store)
        claim = await take_one(store, worker)
        await store.release([(claim.id, claim.run)])
        assert (await placed(store, activity("Update", "2")))[1] == "replaced"
        assert await run_all(store, worker) == [("Update", "2")]

    async def test_one_after_another(self, store: Store, face: Face) -> None:
        """Kept jobs run in the order in which they were enqueued, retries or not."""
        kinds = [f"Kind{n}" for n in range(5)]
        hows = [(await placed(store, activity(kind), face))[1] for kind in kinds]
        assert hows == ["inserted", *["follows"] * 4]
        worker, ran = await join(store), list[str]()
        for kind in kinds:
            failed = ended(await take_one(store, worker), OutcomeKind.RETRIED, after=0.0)
            await store.settle(worker, [failed], now=NOW)
            claim = await take_one(store, worker)
            assert claim.attempt == 2
            ran.append(said(claim)[0])
            outcome = OutcomeKind.DEAD if kind == "Kind2" else OutcomeKind.SUCCEEDED
            await finish(store, worker, [claim], outcome)
        assert ran == kinds
        assert await live_jobs(store) == []

    async def test_the_last_one_is_what_a_newer_one_meets(self, store: Store) -> None:
        """Earlier ones go on waiting for their turns."""
        worker = await join(store)
        await placed(store, activity("Delete", "1"))
        claim = await take_one(store, worker)
        said_of = [
            ("Create", "2", "follows"), ("Update", "3", "merged"), ("Delete", "4", "superseded"),
            ("Create", "5", "follows"), ("Like", "6", "follows"), ("Update", "7", "follows"),
            ("Update", "8", "replaced"),
        ]  # fmt: skip
        for kind, what, how in said_of:
            assert (await placed(store, activity(kind, what)))[1] == how
            assert await take(store, worker) == []
        expected = [("Delete", "1"), ("Create", "5"), ("Like", "6"), ("Update", "8")]
        assert await run_all(store, worker, claim) == expected

    async def test_nothing_is_left_of_the_key(self, store: Store) -> None:
        """Nothing is left of the key."""
        worker = await join(store)
        for kind in (OutcomeKind.SUCCEEDED, OutcomeKind.DEAD, OutcomeKind.CANCELLED):
            assert (await placed(store, activity("Create")))[1] == "inserted"
            await finish(store, worker, [await take_one(store, worker)], kind)
        await placed(store, activity("Create"))
        await placed(store, activity("Delete"))
        assert (await placed(store, activity("Update")))[1] == "inserted"

    async def test_merging_keeps_the_place(self, store: Store) -> None:
        """The one that is left runs when the older one would have."""
        await placed(store, activity("Create", "1"))
        merged, _ = await placed(store, activity("Update", "2", run_at=FAR_AHEAD))
        claim = await take_one(store, await join(store))
        assert (claim.id, claim.run_at, said(claim)) == (merged, NOW, ("Create", "2"))

    async def test_merging_behind_another(self, store: Store) -> None:
        """It takes the older one's turn."""
        worker = await join(store)
        await placed(store, activity("Delete", "1"))
        await placed(store, activity("Create", "2"))
        await placed(store, activity("Update", "3", run_at=FAR_AHEAD))
        assert await run_all(store, worker) == [("Delete", "1"), ("Create", "3")]

    async def test_a_newer_one_has_its_own_time(self, store: Store) -> None:
        """Where nothing is merged."""
        await placed(store, activity("Update", "1", run_at=FAR_AHEAD))
        newer, _ = await placed(store, activity("Update", "2"))
        assert (await take_one(store, await join(store))).id == newer

    async def test_a_merge_of_ones_own(self, store: Store, face: Face) -> None:
        """It is given both arguments, and what it returns is what runs: once more, too."""

        def both(older: dict[str, Any], newer: dict[str, Any]) -> dict[str, Any]:
            return {**older, "object": f"{older['object']} é {newer['object']}"}

        for kind, what in (("Create", "a"), ("Update", "b"), ("Update", "c")):
            await placed(store, activity(kind, what, merge=both), face)
        assert await run_all(store, await join(store)) == [("Create", "a é b é c")]

    @pytest.mark.parametrize("made", [None, ["a"], {"a": object()}, {"a": float("nan")}])
    async def test_a_merge_that_makes_no_arguments(self, store: Store, made: Any) -> None:
        """The caller gets the error, and nothing is written."""
        first, _ = await placed(store, activity("Create", "1"))
        with pytest.raises(InvalidJob, match="merge made"):
            await placed(store, activity("Update", "2", merge=lambda *_: made))
        assert await live_jobs(store) == [first]
        assert len(await store.jobs(JobFilter())) == 1

    async def test_a_vanished_one_comes_first(self, store: Store) -> None:
        """A vanished worker's job runs again first."""
        lost = await store.register(newcomer(), expiry=1.0, now=NOW)
        first, _ = await placed(store, activity("Create", "1"))
        await take_one(store, lost)
        await placed(store, activity("Delete", "2"))
        assert await store.rescue(now=at(60)) == [(first, 2)]
        worker = await join(store, now=at(60))
        assert await run_all(store, worker) == [("Create", "1"), ("Delete", "2")]

    async def test_when_a_transaction_commits(self, store: Store, handler: Handler) -> None:
        """A job that completes in `job.transaction()` makes way as any other."""
        await placed(store, activity("Create"))
        worker = await join(store, now=None)
        running = await take_one(store, worker)
        second, _ = await placed(store, activity("Delete"))
        await run(store, running, Watched(), handler)
        assert (await take_one(store, worker)).id == second

    @pytest.mark.parametrize("gone", [(1,), (2,), (3,), (1, 2), (2, 3), (1, 3), (1, 2, 3)])
    async def test_somebody_cancels_some(self, store: Store, gone: tuple[int, ...]) -> None:
        """The others keep their order; the next job comes after all of them."""
        worker, names = await join(store), ("A", "B", "C", "D")
        ids = [(await placed(store, activity(name)))[0] for name in names]
        claim = await take_one(store, worker)
        chosen = tuple(ids[n] for n in gone)
        assert sorted(await store.cancel(JobFilter(ids=chosen), now=NOW)) == sorted(chosen)
        assert await take(store, worker) == []
        assert (await placed(store, activity("E")))[1] == "follows"
        kept = [name for n, name in enumerate(names) if n not in gone]
        ran = await run_all(store, worker, claim)
        assert [kind for kind, _ in ran] == [*kept, "E"]

    async def test_somebody_cancels_the_first_of_those_that_wait(self, store: Store) -> None:
        """Then the second is due."""
        first, _ = await placed(store, activity("A", run_at=FAR_AHEAD))
        await placed(store, activity("B"))
        assert await store.cancel(JobFilter(ids=(first,)), now=NOW) == [first]
        assert await run_all(store, await join(store)) == [("B", "")]

    async def test_its_turn_cannot_be_brought_forward(self, store: Store) -> None:
        """A job that waits for its turn is not made due before."""
        await placed(store, activity("A", run_at=FAR_AHEAD))
        second, _ = await placed(store, activity("B", run_at=FAR_AHEAD))
        assert await store.run_now(JobFilter(ids=(second,)), now=NOW) == []
        worker = await join(store)
        assert await take(store, worker) == []

    async def test_whose_keys(self, store: Store) -> None:
        """They are a task's and a queue's, or a scope's; of another task nothing is redundant."""
        await placed(store, activity("Create"))
        others = [activity("Update", key="l"), activity("Update", task="other"),
                  activity("Update", queue="other"), activity("Update", scope="s")]  # fmt: skip
        assert [(await placed(store, job))[1] for job in others] == ["inserted"] * 4
        shared = activity("Update", scope="s", task="third", queue="fourth")
        assert (await placed(store, shared))[1] == "follows"

    async def test_keys_without_a_rule_are_others(self, store: Store) -> None:
        """A job of a unique key does not meet one that supersedes."""
        await placed(store, activity("Create"))
        unique = due("send", key="k", unique=Unique())
        assert (await placed(store, unique))[1] == "inserted"
        assert (await placed(store, activity("Delete")))[1] == "superseded"

    async def test_kinds_that_are_no_text(self, store: Store) -> None:
        """Nothing is known of them, so all are kept."""
        rule = Unique(supersede=RULE)
        jobs = [due("send", key="k", unique=rule, args=args) for args in ('{"type": 1}', "{}")]
        assert [(await placed(store, job))[1] for job in jobs] == ["inserted", "follows"]
        assert (await placed(store, activity("Update")))[1] == "follows"

    async def test_pruning_forgets_who_was_last(self, store: Store) -> None:
        """But not while a job of it is live."""
        worker = await join(store)
        await placed(store, activity("A"))
        claim = await take_one(store, worker)
        second, _ = await placed(store, activity("B"))
        await store.cancel(JobFilter(ids=(second,)), now=NOW)
        assert await store.prune(OutcomeKind.CANCELLED, 0, 10, now=FAR_AHEAD) == 1
        assert (await placed(store, activity("C")))[1] == "follows"
        assert await run_all(store, worker, claim) == [("A", ""), ("C", "")]
        assert await store.prune(OutcomeKind.SUCCEEDED, 0, 10, now=FAR_AHEAD) == 2
        assert (await placed(store, activity("D")))[1] == "inserted"

    @pytest.mark.parametrize("kind", ["Update", "Like"])
    async def test_many_callers(
        self, store: Store, other_store: Store, face: Face, kind: str
    ) -> None:
        """On several handles, and threads: one is left of updates; of others, all in a row."""
        handles = [store, other_store] * 8
        ids = await asyncio.gather(*(aside(handle, face, activity(kind)) for handle in handles))
        other = "replaced" if kind == "Update" else "follows"
        assert sorted(id.how for id in ids) == sorted(["inserted", *[other] * 15])
        worker = await join(store)
        assert len(await run_all(store, worker)) == (1 if kind == "Update" else 16)
        assert len(await store.jobs(JobFilter())) == 16

    async def test_many_in_one_call(self, store: Store, face: Face) -> None:
        """With jobs without keys, in one call: ids in order."""
        jobs = [*(due() for _ in range(300)), *(activity(f"Kind{n}") for n in range(20))]
        ids = await enqueue(store, face, iter(jobs))
        assert sorted(map(int, ids[300:])) == [int(id) for id in ids[300:]]
        worker, ran = await join(store), list[int]()
        while claims := await take(store, worker, 400):
            ran += [id for id in ids_of(claims) if id in ids[300:]]
            await finish(store, worker, claims)
        assert ran == ids[300:]

    async def test_labels_wait_for_nobody(self, store: Store) -> None:
        """A key without a rule is kept with the job, and that is all."""
        await placed(store, activity("Create"))
        await put(store, due("send", key="k"))
        assert len(await take(store, await join(store))) == 2
