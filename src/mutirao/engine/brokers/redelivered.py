"""Remembers messages that were delivered before and not settled, and delays suspects.

A broker counts hand-outs, and a hand-out is no start: a worker that ends takes along what it was
handed and never began. A connection that breaks is no end of a worker, either. So such a message is
a suspect, which has used nothing yet. Before a suspect starts, that is noted in the message itself;
only a start that was noted, and that no outcome followed, counts as a worker that ended with it.
See docs/adr/0086-a-start-is-noted.md.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from time import monotonic

from mutirao.model.brokers.message import Message

KEPT_FOR = 3600.0  # seconds for which it is known what was lost with a connection
MOST_KEPT = 10_000
# Seconds after a connection was lost and is back, in which what comes again came back for that: a
# broker that restarts cuts all of its workers, and each gets what others had.
CUT_LATELY = 10.0
NOTED_FOR = 1.0  # seconds in which a noted suspect is expected back before another one is noted


class Suspects:
    """What came again to one queue's receiver."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._cut: dict[str, float] = {}  # ids, and until when they are kept
        self._cut_lately_until = self._noted_until = 0.0

    def cut(self, ids: Iterable[str]) -> None:
        """Remember messages that were lost with a connection: this worker goes on."""
        now = self._clock()
        for id in [id for id, until in self._cut.items() if until < now]:
            del self._cut[id]
        for id in ids:
            if len(self._cut) < MOST_KEPT:
                self._cut[id] = now + KEPT_FOR

    def connected_again(self) -> None:
        """Record that a connection is back that had been lost."""
        self._cut_lately_until = self._clock() + CUT_LATELY

    def judged(self, message: Message, returned: int) -> Message:
        """Return a message as it is known here. `returned`: how often it was handed out before."""
        if not (returned or message.suspect):  # as most
            return message
        cut = message.id in self._cut
        if cut:  # a worker that had it lives: none in a row any more
            message = replace(message, lost=0)
        if not returned or cut or self._clock() < self._cut_lately_until:
            return message
        return replace(message, lost=message.lost + message.noted, suspect=True, noted=False)

    def may_note(self) -> bool:
        """Return whether another suspect may be noted: one at a time is on its way back."""
        return self._clock() >= self._noted_until

    def noting(self) -> None:
        """Record that one is noted now."""
        self._noted_until = self._clock() + NOTED_FOR

    def came_back(self) -> None:
        """Record that a noted one has come: the next may be noted."""
        self._noted_until = 0.0
