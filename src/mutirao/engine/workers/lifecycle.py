"""Starts, watches and stops the workers of a process: the base class of all of them.

Workers of a database, of broker queues, of both, and of several databases share this base: their
common part is written once.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from mutirao.engine.loops import Health, LoopHealth
from mutirao.engine.measurement_listeners import Listeners
from mutirao.engine.settings import WorkerSettings
from mutirao.engine.workers.shared_slots import SharedSlots
from mutirao.ports.measurements import WorkerCondition, WorkerLoad


class Service(ABC):
    """A worker that a program runs in an event loop. Starting and stopping twice is harmless.

    Parameters:
        shared: what the workers of this process share.

    Attributes:
        failure: why it has ended by itself; None: it has not.
        failed: set when it ends by itself.
        ended: set once it has stopped, or failed.
        outdated: set once a newer version of the application serves all that it serves.
        on_blocked: called in another thread when the event loop is lost for good.
        listeners: measure it as a whole; None: nothing does, or it is a part of another.
        served: the queues, and the (queue, task), that it is known to serve.
    """

    def __init__(self, settings: WorkerSettings, shared: SharedSlots) -> None:
        self.settings, self._shared = settings, shared
        self.failure: BaseException | None = None
        self.failed, self.ended = asyncio.Event(), asyncio.Event()
        self.outdated = shared.deploys.outdated
        self.on_blocked: Callable[[], None] | None = None
        self.listeners: Listeners | None = None
        self.served: tuple[Sequence[str], Sequence[tuple[str, str]]] = (), ()
        self._hurried = asyncio.Event()  # running handlers get no more time
        self._started = False
        self._stopping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to claim; if it cannot, raise with nothing started."""
        if not (self._started or self.ended.is_set()):
            if self.listeners is not None:
                self.listeners.begin(self)
            try:
                await self._start()
            except BaseException:
                self._end_listeners()
                raise
            self._started = True

    @abstractmethod
    async def first_claim(self) -> None:
        """Wait until it has made its first claims."""

    async def stop(self, grace: float | None = None) -> None:
        """Stop gracefully; a second call waits for the first one.

        `grace`: replaces that of the settings.
        """
        await asyncio.shield(self._begin_stop(grace))

    @abstractmethod
    def stop_claiming(self) -> None:
        """Stop claiming and starting jobs; `stop` does the rest."""

    def end_grace(self) -> None:
        """End the grace period now: running handlers get no more time."""
        self._hurried.set()

    def health(self) -> Health:
        """Return whether it works, and if not, why. May be called from any thread."""
        pulses, reason = self._pulses(), self._why_not()
        ages = {pulse.name: pulse.age() for pulse in pulses}
        works = self._started and self._stopping is None
        hears, unmended = (self._hears(), tuple(self._unmended())) if works else (None, ())
        return Health(reason is None, reason, ages, self._shared.slots.stuck, hears, unmended)

    def load(self) -> WorkerLoad:
        """Return its current load. May be called from any thread."""
        return self._shared.slots.load(self._beat_age())

    def condition(self) -> WorkerCondition:
        """Return what a probe reports. May be called from any thread.

        A worker that starts or stops is live, but not ready.
        """
        health = self.health()
        settled = self._started and self._stopping is None
        hangs = settled and any(pulse.hangs() for pulse in self._pulses())
        live = self.failure is None and not hangs
        return WorkerCondition(live, health.alive, health.reason)

    def _why_not(self) -> str | None:
        if self.failure is not None:
            return f"it failed: {self.failure}"
        if self._stopping is not None:
            return "it has been stopped"
        if not self._started:
            return "it has not been started"
        hanging = [pulse.name for pulse in self._pulses() if pulse.hangs()]
        return f"no turn of {', '.join(hanging)}" if hanging else None

    def _beat_age(self) -> float | None:
        """Return the seconds since its last heartbeat; None: it has none."""
        return None

    @abstractmethod
    async def _start(self) -> None:
        """Start; raise if it cannot."""

    @abstractmethod
    async def _stop(self, grace: float) -> None:
        """Stop within `grace` seconds, whether it was started or not."""

    @abstractmethod
    def _pulses(self) -> Sequence[LoopHealth]:
        """Return the signs of life of its loops."""

    def _hears(self) -> bool | None:
        """Return whether wake-ups reach it; None: it only polls."""
        return None

    def _unmended(self) -> Sequence[str]:
        """Return what brokers refuse until a person changes something."""
        return ()

    def _fail(self, error: BaseException | None) -> None:
        """End because of an error; the first one counts."""
        self.failure = self.failure or error
        self.end_grace()
        self._begin_stop()
        self.failed.set()

    def _lose_loop(self) -> None:
        """Report, in another thread, that the event loop is lost for good."""
        if self.on_blocked is not None:
            self.on_blocked()

    def _begin_stop(self, grace: float | None = None) -> asyncio.Task[None]:
        if self._stopping is None:
            seconds = self.settings.grace if grace is None else grace
            self._stopping = asyncio.create_task(self._stop_and_end(seconds))
        return self._stopping

    async def _stop_and_end(self, grace: float) -> None:
        await self._stop(grace)
        self._end_listeners()
        self.ended.set()

    def _end_listeners(self) -> None:
        if self.listeners is not None:
            self.listeners.end(self)
