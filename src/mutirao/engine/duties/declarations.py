"""Declares limits, fairness and subscriptions of the code in the database, and confirms them.

Every minute it confirms that they are still in the code, and warns of limits that are in no code.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from mutirao.engine.loops import LoopHealth, LoopRetry, forever
from mutirao.engine.worker_row import WorkerRow
from mutirao.log import log
from mutirao.model.limits.limits import LimitOrigin, Rule
from mutirao.tasks.registration import subscriptions_of
from mutirao.tasks.task import Task

CONFIRM_EVERY = 60.0  # seconds; a limit that is in no code is detected after three of them


class Limiter:
    """Declares the limits, fair arguments and subscriptions of one worker.

    Parameters:
        tasks: the tasks in its code, some of which are fair or subscribers.
    """

    def __init__(
        self,
        row: WorkerRow,
        declared: Sequence[Rule],
        tasks: Mapping[str, Task[..., Any]],
    ) -> None:
        self._store, self._declared, self._name = row.store, declared, row.facts.name
        self._fair = {name: task.options.fair_by for name, task in tasks.items()}
        self._subscriptions = subscriptions_of(tasks)
        self._reported: set[str] = set()

    async def declare(self, now: datetime | None = None) -> None:
        """Write the declarations of the code, once, when the worker starts."""
        await self._store.declare_fairness(self._fair)
        for rule in self._declared:
            await self._store.limits.put(rule, origin=LimitOrigin.CODE, worker=self._name, now=now)
        for each in self._subscriptions:
            await self._store.subscriptions.put(each, worker=self._name, now=now)
        await self._warn_of_undeclared()

    async def run(self, pulse: LoopHealth, longest: float) -> None:
        """Confirm every minute the declarations in the code; forever.

        `longest`: the longest wait between two tries, in seconds.
        """
        trouble = LoopRetry("cannot confirm declarations", "they are confirmed again", longest)
        await forever(self._turn, pulse, trouble, after=CONFIRM_EVERY)

    async def _turn(self) -> float:
        await self.confirm_declared()
        return CONFIRM_EVERY

    async def confirm_declared(self, now: datetime | None = None) -> None:
        """Confirm the declarations of a live worker's code; warn of limits that are in none."""
        if self._subscriptions:
            ids = [each.id for each in self._subscriptions]
            confirm = self._store.subscriptions.confirm_declared
            await confirm(ids, self._name, every=CONFIRM_EVERY, now=now)
        if not self._declared:
            return
        names = [rule.name for rule in self._declared]
        await self._store.limits.confirm_declared(names, self._name, every=CONFIRM_EVERY, now=now)
        await self._warn_of_undeclared()

    async def _warn_of_undeclared(self) -> None:
        if not self._declared:
            return
        mine = {rule.name for rule in self._declared}
        found = [each for each in await self._store.limits.listed() if each.is_left]
        left = [limit for limit in found if limit.name not in mine]
        for limit in left:
            if limit.name not in self._reported:
                log.warning(
                    "limit %s was in the code of worker %s until %s and is not in this one's: it is"
                    " still in force; remove it, or put it back",
                    *(limit.name, limit.declared_by, limit.declared_at),
                )
        self._reported = {limit.name for limit in left}
