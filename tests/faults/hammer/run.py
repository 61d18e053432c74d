"""One run: connections and workers let loose on each other, then quiet, and what is left."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from random import Random
from time import monotonic
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from mutirao import Limit, Mutirao
from mutirao.sql.schema.tables import live
from tests.faults.hammer import audit
from tests.faults.hammer.app import TENANTS, in_turn, limited_in_turn
from tests.faults.hammer.commanding import COMMANDING
from tests.faults.hammer.crew import HammerCrew
from tests.faults.hammer.enqueueing import ENQUEUEING
from tests.faults.hammer.hand import Hand, Known
from tests.faults.hammer.operation import Operation, chosen
from tests.faults.hammer.plan import Plan
from tests.faults.hammer.report import Report
from tests.faults.hammer.stage import CALLER, COMMAND, WORKER, Stage, staged
from tests.faults.hammer.tally import Tally
from tests.faults.kit.crew import at_work
from tests.faults.kit.program import Say
from tests.faults.kit.reading import Reader, count_of
from tests.faults.kit.timer import Timer

T = TypeVar("T")

LOOK = 1.0  # seconds between two looks at the database; history is pruned after four
TELL = 30.0  # seconds between two lines about how far it is
OPERATIONS = (*ENQUEUEING, *COMMANDING)


def run(plan: Plan, say: Say, logs: Path | None = None) -> Report:
    """Carry out a plan; return what came of it.

    `say` is called with lines that tell how far it is. What the workers and the server say goes to
    files in the directory `logs`, or is thrown away at the end.
    """
    with tempfile.TemporaryDirectory(prefix="mutirao-hammer-") as name:
        directory = Path(name)
        with (
            staged(plan, directory) as stage,
            at_work(HammerCrew(stage.url(WORKER), logs or directory), plan.workers) as workers,
        ):
            hammer = Hammer(plan, stage, workers, say)
            asyncio.run(hammer.strike())
            workers.stop()
            if logs is not None and stage.log is not None:
                shutil.copyfile(stage.log, logs / "server.log")
            return hammer.report()


class Hammer:
    """Everything that takes part in a run."""

    def __init__(self, plan: Plan, stage: Stage, workers: HammerCrew, say: Say) -> None:
        self._plan, self._stage, self._workers, self._say = plan, stage, workers, say
        self._reader = Reader(stage.own_url)
        self._enqueuer, self._commander = Mutirao(stage.url(CALLER)), Mutirao(stage.url(COMMAND))
        self._known, self._tally = Known(), Tally()
        self._handlers: dict[tuple[int, int], str] = {}
        self._wrong: list[str] = []
        self._operations = _those(plan.leave_out)
        self._began = monotonic()
        self._seconds = 0.0

    async def strike(self) -> None:
        """Let everybody loose, then wait for quiet, and look at what is left."""
        plan = self._plan
        self._say(f"seed {plan.seed}, {plan.connections} connections, {plan.workers} workers")
        engine = create_async_engine(self._stage.caller_url(CALLER), pool_size=plan.connections)
        try:
            # The first job of a fair task may meet others, once in the life of a database.
            await self._enqueuer.aenqueue_many(
                each.job(TENANTS[0]) for each in (in_turn, limited_in_turn)
            )
            await self._all_at_once(engine)
            self._seconds = monotonic() - self._began
            await self._read(self._note, audit.whole)
            await self._calm_down()
        finally:
            await engine.dispose()
            await self._enqueuer.aclose()
            await self._commander.aclose()
            self._reader.close()

    def report(self) -> Report:
        """Return the report of the run."""
        transactions, counted = self._stage.counts()
        return Report(
            tally=self._tally,
            seconds=self._seconds,
            transactions=transactions,
            counted=counted,
            deadlocks=self._stage.deadlocks(),
            handlers=list(self._handlers.values()),
            said=self._workers.troubles(),
            wrong=[*self._wrong, *self._workers.problems],
            rare=self._stage.rare,
        )

    # While it goes on.

    async def _all_at_once(self, engine: AsyncEngine) -> None:
        until = monotonic() + self._plan.seconds
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._plan.connections):
                dice = Random(f"{self._plan.seed} {number}")
                tasks.create_task(self._work(self._hand(dice, engine), until))
            tasks.create_task(self._watch(until))

    def _hand(self, dice: Random, engine: AsyncEngine) -> Hand:
        threads = self._plan.database == "sqlite" or self._plan.driver != "asyncpg"
        return Hand(dice, engine, self._enqueuer, self._commander, self._known, threads)

    async def _work(self, hand: Hand, until: float) -> None:
        while monotonic() < until:
            operation = chosen(self._operations, hand.dice, self._known.crowded)
            with self._tally.counting(operation.who, operation.name):
                async with asyncio.timeout(self._plan.patience):
                    await operation.act(hand)

    async def _watch(self, until: float) -> None:
        timer = Timer(TELL)
        while monotonic() < until:
            self._workers.replace_ended()
            count = await self._read(self._look)
            self._known.crowded = count > self._plan.crowd
            if timer.rang():
                made = self._tally.made(CALLER) + self._tally.made(COMMAND)
                self._say(
                    f"{monotonic() - self._began:6.0f} s: {made:,} operations, {count:,} jobs"
                )
            await asyncio.sleep(min(LOOK, max(0.0, until - monotonic())))

    def _look(self, connection: Connection) -> int:
        self._handlers |= audit.errors_of_databases(connection)
        return count_of(connection, live)

    # The end.

    async def _calm_down(self) -> None:
        """Let all that may run do so, until nothing is left that can."""
        for each in await self._commander.limits.alist():
            if each.paused or each.name == "extra":
                await self._commander.store.limits.remove(each.name)
        await self._commander.limits.aput(Limit(500, per=1, burst=100), task="rated")
        deadline = monotonic() + self._plan.patience
        while await self._read(self._left):
            if monotonic() > deadline:
                await self._read(self._note, audit.left_over)
                return
            await asyncio.sleep(LOOK / 4)
        await self._read(self._note, audit.whole)
        await self._read(self._note, audit.places_taken)

    def _left(self, connection: Connection) -> int:
        self._workers.replace_ended()
        self._handlers |= audit.errors_of_databases(connection)
        return audit.unfinished(connection)

    def _note(self, connection: Connection, looking: Callable[[Connection], Iterable[str]]) -> None:
        self._wrong += [each for each in looking(connection) if each not in self._wrong]

    async def _read(self, what: Callable[..., T], *more: object) -> T:
        """Ask in one snapshot, in a thread."""

        def asked() -> T:
            with self._reader.snapshot() as connection:
                return what(connection, *more)

        return await asyncio.to_thread(asked)


def _those(left_out: Collection[str]) -> list[Operation]:
    known = {each.name for each in OPERATIONS}
    if unknown := set(left_out) - known:
        raise ValueError(f"no such operations: {unknown}; there are: {', '.join(sorted(known))}")
    return [each for each in OPERATIONS if each.name not in left_out]
