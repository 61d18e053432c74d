"""The worker's part in limits: it confirms those in its code, and warns of those in no code."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from mutirao.engine.logs import log
from mutirao.engine.pulse import Pulse
from mutirao.engine.trouble import Trouble
from mutirao.model.limits import LimitOrigin, Rule
from mutirao.ports import Store

CONFIRM_EVERY = 60.0  # seconds; a limit that is in no code is detected after three of them


class Limiter:
    """The declarations of one worker: its limits, and the arguments by which its tasks are fair.

    Parameters:
        fair: for each task, the argument by whose values its jobs are claimed fairly, if any.
        name: the worker's name in the list of limits.
    """

    def __init__(
        self, store: Store, declared: Sequence[Rule], fair: Mapping[str, str | None], name: str
    ) -> None:
        self._store, self._declared, self._fair, self._name = store, declared, fair, name
        self._told: set[str] = set()

    async def declare(self, now: datetime | None = None) -> None:
        """Write the declarations of the code, once, when the worker starts."""
        await self._store.declare_fairness(self._fair)
        for rule in self._declared:
            await self._store.put_limit(rule, origin=LimitOrigin.CODE, worker=self._name, now=now)
        await self._warn_of_undeclared()

    async def run(self, pulse: Pulse, longest: float) -> None:
        """Confirm every minute that the limits are in the code; forever.

        `longest`: the longest wait between two tries, in seconds.
        """
        trouble = Trouble("cannot confirm declared limits", "limits are confirmed again", longest)
        wait = CONFIRM_EVERY
        while True:
            await pulse.rest(wait)
            pulse.turn()
            try:
                await self.confirm_declared()
                wait = CONFIRM_EVERY
                trouble.over()
            except Exception as error:  # noqa: BLE001 (raised if it does not pass)
                wait = trouble.met(error)

    async def confirm_declared(self, now: datetime | None = None) -> None:
        """Confirm that these limits are in the code of a live worker, and warn of those in none."""
        if not self._declared:
            return
        names = [rule.name for rule in self._declared]
        await self._store.confirm_declared_limits(names, self._name, every=CONFIRM_EVERY, now=now)
        await self._warn_of_undeclared()

    async def _warn_of_undeclared(self) -> None:
        if not self._declared:
            return
        mine = {rule.name for rule in self._declared}
        for limit in await self._store.limits():
            if limit.in_code is False and limit.name not in {*mine, *self._told}:
                self._told.add(limit.name)
                log.warning(
                    "limit %s was in the code of worker %s until %s and is not in this one's: it is"
                    " still in force; remove it, or put it back",
                    *(limit.name, limit.declared_by, limit.declared_at),
                )
