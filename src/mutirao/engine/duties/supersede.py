"""Applies supersede rules of the code to jobs that were enqueued by SQL.

It declares which tasks have a rule, so that the database holds such jobs until a rule has decided.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mutirao.engine.loops import LoopHealth, LoopRetry, forever
from mutirao.log import log
from mutirao.ports import Store
from mutirao.tasks.task import Task


class Superseding:
    """Applies the supersede rules of one worker.

    Parameters:
        tasks: those in its code, some of which have a rule.
        every: seconds between two searches for jobs that were enqueued by SQL.
    """

    def __init__(self, store: Store, tasks: Mapping[str, Task[..., Any]], every: float) -> None:
        self._store, self._every = store, every
        self._usual = {name: task.options.unique for name, task in tasks.items()}
        self.rules = {name: key for name, key in self._usual.items() if key.supersede is not None}

    async def declare(self) -> None:
        """Write which tasks have a rule, once, when the worker starts."""
        await self._store.declare_supersede(self._usual)

    async def run(self, pulse: LoopHealth, longest: float) -> None:
        """Apply the rules forever; `longest`: the longest wait between two tries, in seconds."""
        trouble = LoopRetry(
            "cannot ask supersede rules", "supersede rules are asked again", longest
        )
        await forever(self._turn, pulse, trouble)

    async def _turn(self) -> float:
        return 0.0 if await self.judge() else self._every

    async def judge(self, now: datetime | None = None) -> bool:
        """Apply the rules to some jobs that SQL enqueued; return whether there may be more."""
        judged = await self._store.judge(self.rules, now=now)
        if judged:
            log.debug("asked supersede rules about jobs of %s keys, enqueued in SQL", judged)
        return judged > 0
