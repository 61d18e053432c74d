"""Remembers messages that were delivered before and not settled, and delays suspects.

A broker counts deliveries, and a delivery is no start: when a worker ends, messages that it held
and never began are delivered again. A connection that breaks is no end of a worker, either. So such
a message is a suspect, which has used no attempt yet. Before a suspect starts, that is noted in the
message itself. Only a start that was noted and had no outcome counts as a worker that ended with
it. See docs/adr/0086-a-start-is-noted.md.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from time import monotonic

from mutirao.model.brokers.message import Message

KEPT_FOR = 3600.0  # seconds for which messages of a lost connection are remembered
MOST_KEPT = 10_000
# Seconds after a lost connection is back, in which redelivered messages are attributed to the loss:
# a broker that restarts cuts off all of its workers, and each receives messages that others held.
CUT_LATELY = 10.0
NOTED_FOR = 1.0  # seconds in which a noted suspect is expected back before another one is noted


class Suspects:
    """The suspects of one queue's consumer."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._cut: dict[str, float] = {}  # ids of messages, and until when they are kept
        self._cut_lately_until = self._noted_until = 0.0

    def cut(self, ids: Iterable[str]) -> None:
        """Remember messages that were lost with a connection: this worker still runs."""
        now = self._clock()
        for id in [id for id, until in self._cut.items() if until < now]:
            del self._cut[id]
        for id in ids:
            if len(self._cut) < MOST_KEPT:
                self._cut[id] = now + KEPT_FOR

    def connected_again(self) -> None:
        """Record that a lost connection is back."""
        self._cut_lately_until = self._clock() + CUT_LATELY

    def judged(self, message: Message, returned: int) -> Message:
        """Return a message with its known losses. `returned`: how often it was delivered before."""
        if not (returned or message.suspect):  # as most
            return message
        cut = message.id in self._cut
        if cut:
            # The worker that held it lives: losses in a row start from zero. Other workers read
            # that in the message, once it is noted again.
            message = replace(message, lost=0, noted=message.noted and not message.lost)
        if not returned or cut or self._clock() < self._cut_lately_until:
            return message
        return replace(message, lost=message.lost + message.noted, suspect=True, noted=False)

    def may_note(self) -> bool:
        """Return whether another suspect may be noted: only one at a time is on its way back."""
        return self._clock() >= self._noted_until

    def noting(self) -> None:
        """Record that one is noted now."""
        self._noted_until = self._clock() + NOTED_FOR

    def came_back(self) -> None:
        """Record that a noted suspect has come back: the next one may be noted."""
        self._noted_until = 0.0
