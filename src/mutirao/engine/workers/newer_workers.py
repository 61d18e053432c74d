"""Detects that workers of a newer version of the application serve the same queues.

It finds them in the rows of its databases, and from brokers over which workers inform each
other. A worker counts from its first heartbeat on: a new version that ends right after its start
does not end an old one.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import uniform
from time import monotonic
from typing import Any

import msgspec

from mutirao.engine.loops import MAX_REST, LoopHealth, LoopRetry, forever
from mutirao.engine.settings import WorkerSettings
from mutirao.errors import TransportError
from mutirao.log import log
from mutirao.model.deploys import Deployed, Lane, taken_over
from mutirao.ports import Store
from mutirao.ports.announcements import Announcements, Announces
from mutirao.tasks.task import Task

REPEATS, REMEMBERED = 2.0, 6.0  # times `expiry`: between two announcements, and how long one counts


class VersionWatch:
    """The known other versions. All methods are called in the worker's event loop.

    Attributes:
        outdated: set once newer versions serve all that this worker serves, if it shall react to
            that.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self.outdated = asyncio.Event()
        self._settings = settings
        self._mine: set[Lane] = {(queue, None) for queue in settings.queues or ()}
        self._stored: dict[Store, Sequence[Deployed]] = {}  # of each database that is served
        self._announced: dict[Deployed, float] = {}  # until when an announcement counts

    def serve(self, tasks: Mapping[str, Task[..., Any]]) -> None:
        """Record what this worker serves of these tasks."""
        lanes = ((each.options.queue, name) for name, each in tasks.items())
        self._mine.update(lane for lane in lanes if self._settings.served.has(*lane))

    async def look(self, store: Store, pulse: LoopHealth, longest: float) -> None:
        """Look for other versions in a database at every heartbeat, as long as it is served.

        Before the first answer, and while the database is unavailable, nothing has changed.
        """
        self._stored[store] = ()
        try:
            await self._look(store, pulse, longest)
        finally:
            del self._stored[store]

    async def _look(self, store: Store, pulse: LoopHealth, longest: float) -> None:
        often = self._settings.heartbeat
        trouble = LoopRetry("cannot look for newer versions", "looking for them again", longest)

        async def turn() -> float:
            try:
                self._stored[store] = await store.deployed(self._settings.app_version or "")
            finally:
                self._judge()
            return often

        await forever(turn, pulse, trouble, after=often)

    def heard(self, one: Deployed, seconds: float) -> None:
        """Record what a worker has announced, for some time."""
        self._announced[one] = monotonic() + seconds
        self._judge()

    def _judge(self) -> None:
        version, now = self._settings.app_version, monotonic()
        if version is None or not self._settings.drain_on_new_version or self.outdated.is_set():
            return
        self._announced = {each: until for each, until in self._announced.items() if until > now}
        newer = [
            taken_over(version, self._mine, [*stored, *self._announced])
            for stored in self._stored.values() or [()]
        ]
        if all(newer):
            log.warning(
                "version %s has taken over from %s: claiming no more, ending after running jobs. To"
                " go back to older code, deploy it with a later version",
                *(newer[0], version),
            )
            self.outdated.set()


class VersionAnnouncer:
    """Announces to the other workers of a broker what this one serves, and receives theirs.

    Of workers with the same announcement one repeats it for all.

    Parameters:
        works: returns whether this worker consumes what it serves of the broker.
    """

    def __init__(
        self,
        transport: Announces,
        deploys: VersionWatch,
        settings: WorkerSettings,
        works: Callable[[], bool],
    ) -> None:
        self._transport, self._deploys, self._works = transport, deploys, works
        self._settings = settings
        self._announce_at = 0.0

    async def run(self, pulse: LoopHealth) -> None:
        """Announce and listen, forever; a problem that a person must resolve is logged once."""
        trouble = LoopRetry(
            "cannot hear of newer versions", "hearing of them again", MAX_REST,
            who="broker", once="text",
        )  # fmt: skip

        async def turn() -> float:
            async with self._transport.announcements() as announcements:
                trouble.over()
                await self._exchange(announcements, pulse)
            return 0.0

        await forever(turn, pulse, trouble, waits_out=TransportError)

    async def _exchange(self, announcements: Announcements, pulse: LoopHealth) -> None:
        self._announce_at = monotonic() + self._settings.heartbeat
        me = Deployed(self._settings.app_version or "", self._settings.served)
        while True:
            pulse.turn()
            seconds = min(MAX_REST, self._announce_at - monotonic())
            if (body := await announcements.receive(max(0.0, seconds))) is not None:
                self._heard(body, me)
            elif monotonic() >= self._announce_at:
                await self._announce(announcements, me)

    async def _announce(self, announcements: Announcements, me: Deployed) -> None:
        if self._works():
            await announcements.tell(msgspec.json.encode(me))
            self._rest()
        else:
            self._announce_at = monotonic() + self._settings.heartbeat

    def _heard(self, body: bytes, me: Deployed) -> None:
        try:
            other = msgspec.json.decode(body, type=Deployed)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as unfit:
            log.warning("an announcement of a worker cannot be read, and is ignored: %s", unfit)
            return
        if other == me:
            self._rest()
        else:
            self._deploys.heard(other, REMEMBERED * self._settings.expiry)

    def _rest(self) -> None:
        self._announce_at = monotonic() + REPEATS * self._settings.expiry * uniform(0.5, 1.0)
