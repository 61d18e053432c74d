"""The enqueueing part of a store, as a protocol."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mutirao.model.graphs.graph_plan import Plan
    from mutirao.model.jobs.job import NewJob


class Intake(Protocol):
    """The enqueueing part of a store.

    The synchronous and the asynchronous face write the same; neither commits a caller's
    transaction.
    """

    def enqueue(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """Write jobs and return their ids, in order.

        With `conn`, the jobs are written in the caller's transaction: others see them when the
        caller commits, and they disappear when it rolls back (savepoints included); the connection
        is left as it was found. Without `conn`, they are written in a short transaction of their
        own. Either all of `jobs` are written or none. Idle workers that listen are woken at the
        commit, with at most one notification per call. Jobs are streamed: memory does not grow with
        their number, except for the ids.

        For a job with `unique`, `mutirao.model.keys.uniqueness.judge` compares it with the job that
        holds its key; the returned id is a `Placed`: the id of the job that holds the key
        afterwards. Of two transactions with the same key, the second waits until the first has
        ended. One whose `version` is less than that of the key's newest job is not written, however
        that job ended, until it is pruned. A replaced job is cancelled when the transaction
        commits; if it runs by then, the new job waits for it and is due once that job has left the
        live table. Jobs of others are not locked until the commit, so that no transaction has to
        wait in order to settle one. With `Unique.supersede`, `mutirao.model.keys.supersede.decide`
        compares the job with the last live one of its key and decides which of the two remain; a
        superseded job is cancelled at the commit if no attempt of it has started by then. A job
        that repeats the last successful job, by a rule that drops it, is not written: the id is
        that job's. The remaining jobs of a key run one after another, in the order in which they
        were enqueued.

        Raises:
            DuplicateJob: another job has the key, and this one was given `on_conflict="error"`.
            UnsupportedConnection: `conn` is not one of the accepted kinds, or is asynchronous.
        """
        ...

    async def aenqueue(self, jobs: Iterable[NewJob], conn: object | None = None) -> list[int]:
        """Write jobs through an asynchronous connection or session; see `enqueue`."""
        ...

    def enqueue_graph(self, plan: Plan, conn: object | None = None) -> list[int]:
        """Write a graph and return the ids of its jobs, in the order of the plan's steps.

        As in `enqueue`, all jobs are written or none, in the caller's transaction or in one of its
        own. The first id is the graph's id. A step that waits at a gate is blocked. It becomes due,
        at its own `run_at`, when all steps before the gate have ended, in the transaction that
        settles or cancels the last of them; that transaction also wakes idle workers. Each step is
        released exactly once, however many workers settle at the same time. A step that dies or is
        cancelled counts as ended if its `on_dead` is "continue", but not before the steps that it
        waits for. With "stop" it does not count as ended; if it is redriven, the new job replaces
        it in the graph, and is blocked if it was. With "compensate", the waiting steps of the graph
        are cancelled and the running ones continue; the transaction that ends the last running one
        enqueues the compensating jobs of the steps that have succeeded, which run one after
        another, the last step's first.
        """
        ...

    def remember(self, consumer: str, message: str, conn: object) -> bool:
        """Remember that a consumer handles a message; return False if it was remembered before.

        Written in the caller's transaction: a rollback forgets it. Of two transactions with the
        same message, the second waits until the first has ended, or fails; never do both get True
        and commit. The connection is left as it was found.

        Raises:
            UnsupportedConnection: `conn` is not one of the accepted kinds, or is asynchronous.
        """
        ...

    async def aremember(self, consumer: str, message: str, conn: object) -> bool:
        """Remember through an asynchronous connection or session; see `remember`."""
        ...

    async def aenqueue_graph(self, plan: Plan, conn: object | None = None) -> list[int]:
        """Write a graph through an asynchronous connection or session; see `enqueue_graph`."""
        ...
