"""The thread that receives the messages of one queue for one consumer.

A request that SQS is answering is never aborted: messages that it hands out meanwhile would be
invisible to all consumers until their visibility timeout ends. A failing queue pauses this thread
only: messages that were received before stay ours, and are settled as usual.
"""

import threading
from collections.abc import Callable
from math import inf
from random import random
from time import monotonic
from typing import Any

from mutirao.errors import TransportError, TransportUnavailable
from mutirao.ports.transport import is_for_people
from mutirao.transports.sqs.calls import MOST, SqsCalls, SqsQueue
from mutirao.transports.sqs.failures import Raised, code_of, explain
from mutirao.transports.sqs.logs import QueueNote, log, paused

SHORTEST_PAUSE, LONGEST_PAUSE = 0.2, 30.0  # seconds
REPEAT_EVERY = 60.0  # seconds after which a failure that people have to repair is logged again
TO_GIVE_BACK = 1.0  # seconds of a grace period that are kept for messages of the last answer


def fitting_wait(wait: int, grace: float) -> int:
    """Return the seconds of a long poll: its answer and what that brings are within the grace."""
    return int(max(1, min(wait, grace - TO_GIVE_BACK)))


class Polling:
    """The receiving of one queue, until it is stopped.

    Parameters:
        wait: seconds of a long poll.
        visibility: seconds for which received messages are invisible to other consumers.
        take: called in the thread with received messages.
        begun: called in the thread once SQS has answered for the first time.
        failed: called in the thread when it has not; then nothing comes.
        ended: called in the thread when nothing more comes.
        most: messages of a request.
    """

    def __init__(
        self,
        calls: SqsCalls,
        queue: SqsQueue,
        wait: int,
        visibility: int,
        take: Callable[[list[dict[str, Any]]], None],
        begun: Callable[[], object],
        failed: Callable[[TransportError], object],
        ended: Callable[[], object],
        most: int = MOST,
    ) -> None:
        self._most = most
        self._calls, self._queue, self._wait, self._visibility = calls, queue, wait, visibility
        self._take, self._begun, self._failed, self._ended = take, begun, failed, ended
        self._changed = threading.Condition()
        self._room = 0
        self._stopped = False
        self._pause = 0.0
        self._said: dict[str, float] = {}  # codes of SQS in this pause, and when they were logged
        self.paused: TransportError | None = None  # why nothing is received; from any thread
        self._answers_by: float | None = None  # monotonic; while a request to SQS runs
        self._thread = threading.Thread(
            target=self._run, name=f"mutirao-sqs-{queue.name}", daemon=True
        )

    def start(self, room: int) -> None:
        """Begin to receive."""
        self._room = room
        self._thread.start()

    def add_room(self, more: int) -> None:
        """Receive this many more, or fewer; from any thread."""
        with self._changed:
            self._room += more
            self._changed.notify_all()

    def stop(self) -> None:
        """Receive no more, after the answer of the running request; does not wait for that."""
        with self._changed:
            if not self._stopped and self._answers_by is not None:
                QueueNote.WAITS(self._queue.name, max(0.0, self._answers_by - monotonic()))
            self._stopped = True
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            if self._begins():
                while (most := self._wanted()) > 0:
                    self._receive(most)
        except Exception as error:  # noqa: BLE001 (logged; whoever consumes begins anew)
            log.exception("receiving from %s failed", self._queue.name)
            why = f"queue {self._queue.name!r}: receiving ended by an error of ours: {error!r}"
            self._failed(TransportUnavailable(why))
        finally:
            self.paused = None
            self._ended()

    def _begins(self) -> bool:
        """Ask for the first time, without waiting for messages; return whether SQS answers."""
        try:
            found = self._asked(min(self._most, self._room), 0)
        except Raised as error:
            self._failed(explain(error, f"queue {self._queue.name!r}"))
            return False
        self._took(found)
        self._begun()
        return True

    def _wanted(self) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._room > 0)
            return 0 if self._stopped else min(self._most, self._room)

    def _receive(self, most: int) -> None:
        try:
            found = self._asked(most, self._wait)
        except Raised as error:
            self._rest(error)
            return
        if self._pause:
            self._pause, self.paused = 0.0, None
            self._said.clear()
            QueueNote.GOES_ON(self._queue.name)
        self._took(found)

    def _took(self, found: list[dict[str, Any]]) -> None:
        with self._changed:
            self._room -= len(found)
        self._take(found)

    def _asked(self, most: int, wait: int) -> list[dict[str, Any]]:
        self._answers_by = monotonic() + wait
        try:
            return self._calls.receive(self._queue, most, wait, self._visibility)
        finally:
            self._answers_by = None

    def _rest(self, error: Exception) -> None:
        """Pause, longer each time, with full jitter, so that workers do not come back at once."""
        self._pause = min(LONGEST_PAUSE, max(SHORTEST_PAUSE, 2 * self._pause))
        seconds = max(SHORTEST_PAUSE / 4, self._pause * random())
        self.paused = explain(error, f"queue {self._queue.name!r}")
        code, now = code_of(error), monotonic()
        again = REPEAT_EVERY if is_for_people(self.paused) else inf
        if code not in self._said or now - self._said[code] >= again:
            self._said[code] = now
            paused(self._queue.name, self.paused)
        with self._changed:
            self._changed.wait_for(lambda: self._stopped, seconds)
