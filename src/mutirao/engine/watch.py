"""Looks after a worker's own loops and slots: a worker either works or ends."""

from collections.abc import Callable, Sequence
from time import monotonic

from mutirao.engine.dispatcher import Dispatcher
from mutirao.engine.pulse import Pulse
from mutirao.errors import WorkerFailed, WorkerStuck


class Watch:
    """Raises what ends a worker that does not work any more.

    Parameters:
        pulses: returns the pulses of its loops.
        limit: how long all slots may be lost, in seconds; None for ever.
    """

    def __init__(
        self, dispatcher: Dispatcher, pulses: Callable[[], Sequence[Pulse]], limit: float | None
    ) -> None:
        self._dispatcher, self._pulses, self._limit = dispatcher, pulses, limit
        self._stuck_since: float | None = None
        self._suspected: set[str] = set()

    async def run(self, pulse: Pulse, every: float) -> None:
        """Look every so many seconds.

        Raises:
            WorkerFailed: a loop hangs.
            WorkerStuck: all slots have been lost for longer than the limit.
        """
        while True:
            await pulse.rest(every)
            self.look()

    def look(self) -> None:
        """Look once; as `run`."""
        self._look_at_loops()
        self._look_at_slots()

    def _look_at_loops(self) -> None:
        """Look at each that hangs twice: after a stall of the whole process all of them seem to.

        By the second time the others have had their turn.
        """
        hanging = {pulse.name: pulse.age() for pulse in self._pulses() if pulse.hangs()}
        if found := hanging.keys() & self._suspected:
            names = ", ".join(f"{name} ({hanging[name]:.0f} s)" for name in sorted(found))
            raise WorkerFailed(f"these loops of the worker do not turn any more: {names}")
        self._suspected = set(hanging)

    def _look_at_slots(self) -> None:
        if not self._dispatcher.all_stuck():
            self._stuck_since = None
            return
        now = monotonic()
        self._stuck_since = self._stuck_since or now
        if self._limit is not None and now - self._stuck_since >= self._limit:
            raise WorkerStuck(
                f"all {self._dispatcher.stuck} slots were lost for {self._limit:g} s to handlers"
                " that do not end; give them timeouts of their own, or process=True"
            )
