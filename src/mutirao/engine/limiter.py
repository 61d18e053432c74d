"""The worker's part in limits: says which are in its code, and tells of those that are in none."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from mutirao.engine.logs import log
from mutirao.engine.pulse import Pulse
from mutirao.engine.trouble import Trouble
from mutirao.limit import Origin, Rule
from mutirao.ports import Store

VOUCH_EVERY = 60.0  # seconds; a limit that is in no code is noticed after three of them


class Limiter:
    """One worker's word for the limits in its code, and for the turns that its tasks take.

    Parameters:
        fair: for each task the argument whose values take turns, if any.
        name: what it is called where the limits are listed.
    """

    def __init__(
        self, store: Store, declared: Sequence[Rule], fair: Mapping[str, str | None], name: str
    ) -> None:
        self._store, self._declared, self._fair, self._name = store, declared, fair, name
        self._told: set[str] = set()

    async def declare(self, now: datetime | None = None) -> None:
        """Write down what the code says, once, when the worker starts."""
        await self._store.declare_fair(self._fair)
        for rule in self._declared:
            await self._store.put_limit(rule, origin=Origin.CODE, worker=self._name, now=now)
        await self._tell_of_the_lost()

    async def run(self, pulse: Pulse, longest: float) -> None:
        """Say every minute that the limits are in the code, for ever.

        `longest`: the longest wait between two tries, in seconds.
        """
        trouble = Trouble("cannot vouch for limits", "limits are vouched for again", longest)
        wait = VOUCH_EVERY
        while True:
            await pulse.rest(wait)
            pulse.turn()
            try:
                await self.vouch()
                wait = VOUCH_EVERY
                trouble.over()
            except Exception as error:  # noqa: BLE001 (raised where it does not pass)
                wait = trouble.met(error)

    async def vouch(self, now: datetime | None = None) -> None:
        """Say that these limits are in the code of a live worker, and tell of those in none."""
        if not self._declared:
            return
        names = [rule.name for rule in self._declared]
        await self._store.vouch_limits(names, self._name, every=VOUCH_EVERY, now=now)
        await self._tell_of_the_lost()

    async def _tell_of_the_lost(self) -> None:
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
