"""A bounded buffer of job events that wait to be published, numbered so that gaps are noticed."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from mutirao.model.jobs.events import EventKey, JobEvent
from mutirao.ports.events import MAX_KEYS, Drops

MOST_WAITING = 10_000  # events
MOST_IN_MESSAGE = 500  # events in one message


class Bundle(NamedTuple):
    """Events of one key, and the number of the first one."""

    key: EventKey
    first: int
    events: Sequence[JobEvent]


class EventBuffer:
    """The waiting events of one publisher."""

    def __init__(self, drops: Drops, most: int = MOST_WAITING) -> None:
        self._drops, self._most, self._waiting = drops, most, 0
        self._events: dict[EventKey, list[JobEvent]] = {}
        self._gaps: dict[EventKey, int] = {}  # dropped, behind those that wait
        self._numbers: dict[EventKey, int] = {}  # of the next one

    def __bool__(self) -> bool:
        """Return whether some wait."""
        return self._waiting > 0

    def add(self, event: JobEvent) -> None:
        """Add an event, or drop it if there is no room."""
        key = event.key
        if self._waiting >= self._most:
            self._gaps[key] = self._gaps.get(key, 0) + 1
            self._drops.add(1)
            return
        self._waiting += 1
        self._events.setdefault(key, []).append(event)

    def take(self) -> Iterator[Bundle]:
        """Yield all that wait, and forget them."""
        events, gaps = self._events, self._gaps
        self._events, self._gaps, self._waiting = {}, {}, 0
        for key, some in events.items():
            number = self._numbers.pop(key, 0)
            for first in range(0, len(some), MOST_IN_MESSAGE):
                yield Bundle(key, number + first, some[first : first + MOST_IN_MESSAGE])
            self._numbers[key] = number + len(some)
        for key, gap in gaps.items():
            self._numbers[key] = self._numbers.pop(key, 0) + gap
        # Those that were used least recently; a number that begins again is no gap to a listener.
        for key in list(islice(self._numbers, max(0, len(self._numbers) - MAX_KEYS))):
            del self._numbers[key]
