"""The watch over a worker's own loops and slots: a worker either works or ends."""

from collections.abc import Callable, Sequence
from time import monotonic

from mutirao.engine.calls.resources import Starts, mend_standard_streams
from mutirao.engine.dispatch.slots import Slots
from mutirao.engine.pulse import Pulse
from mutirao.errors import WorkerFailed, WorkerStuck

WATCH_EVERY = 1.0  # seconds between checks of loops and slots


class Watch:
    """A watch that raises an error to end a worker which no longer works.

    Parameters:
        pulses: returns the pulses of its loops.
        limit: how long all slots may be lost, in seconds; None: forever.
        starts: what handlers need to begin.
    """

    def __init__(
        self,
        slots: Slots,
        pulses: Callable[[], Sequence[Pulse]],
        limit: float | None,
        starts: Sequence[Starts] = (),
    ) -> None:
        self._slots, self._pulses, self._limit = slots, pulses, limit
        self._starts = starts
        self._stuck_since: float | None = None
        self._suspected: set[str] = set()

    async def run(self, pulse: Pulse, every: float) -> None:
        """Check every so many seconds.

        Raises:
            WorkerFailed: a loop hangs.
            WorkerStuck: all slots have been lost for longer than the limit.
            HandlersCannotStart: no child process, or no thread, could be started for a while.
        """
        while True:
            await pulse.rest(every)
            self.look()

    def look(self) -> None:
        """Check once; raises what `run` raises."""
        self._look_at_loops()
        self._look_at_slots()
        mend_standard_streams()
        for each in self._starts:
            each.check()

    def _look_at_loops(self) -> None:
        """Check each hanging loop twice: after a stall of the process all of them seem to hang.

        By the second check the healthy ones have turned.
        """
        hanging = {pulse.name: pulse.age() for pulse in self._pulses() if pulse.hangs()}
        if found := hanging.keys() & self._suspected:
            names = ", ".join(f"{name} ({hanging[name]:.0f} s)" for name in sorted(found))
            raise WorkerFailed(f"these loops of the worker do not turn any more: {names}")
        self._suspected = set(hanging)

    def _look_at_slots(self) -> None:
        if not self._slots.all_stuck():
            self._stuck_since = None
            return
        now = monotonic()
        self._stuck_since = self._stuck_since or now
        if self._limit is not None and now - self._stuck_since >= self._limit:
            raise WorkerStuck(
                f"all {self._slots.stuck} slots were lost for {self._limit:g} s to handlers"
                " that do not end; give them timeouts of their own, or process=True"
            )
