"""The thread that receives the messages of one queue for one consumer.

A request that SQS is answering is never broken off: what it hands out meanwhile would be invisible
to everybody until its time is over. What is wrong with a queue pauses this thread, and no other.
"""

import threading
from collections.abc import Callable
from random import random
from typing import Any

from mutirao.errors import TransportMismatch
from mutirao.transports.sqs.calls import MOST, SqsCalls, SqsQueue
from mutirao.transports.sqs.failures import Raised, explain
from mutirao.transports.sqs.logs import note

SHORTEST_PAUSE, LONGEST_PAUSE = 0.2, 30.0  # seconds


class Polling:
    """The receiving of one queue, until it is stopped.

    Parameters:
        wait: seconds of a long poll.
        visibility: seconds for which what is received is invisible to others.
        take: called in the thread with what was received.
        failed: called in the thread when the queue is not there any more: the last call.
        ended: called in the thread when nothing more comes.
    """

    def __init__(
        self,
        calls: SqsCalls,
        queue: SqsQueue,
        wait: int,
        visibility: int,
        take: Callable[[list[dict[str, Any]]], None],
        failed: Callable[[TransportMismatch], object],
        ended: Callable[[], object],
    ) -> None:
        self._calls, self._queue, self._wait, self._visibility = calls, queue, wait, visibility
        self._take, self._failed, self._ended = take, failed, ended
        self._changed = threading.Condition()
        self._room = 0
        self._stopped = False
        self._pause = 0.0
        self._thread = threading.Thread(
            target=self._run, name=f"mutirao-sqs-{queue.name}", daemon=True
        )

    def start(self, room: int) -> None:
        """Begin to receive."""
        self._room = room
        self._thread.start()

    def add_room(self, more: int) -> None:
        """Have so many more received, or fewer; from any thread."""
        with self._changed:
            self._room += more
            self._changed.notify_all()

    def stop(self) -> None:
        """Receive no more, once SQS has answered what it was asked; does not wait for that."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            while (most := self._wanted()) > 0:
                self._receive(most)
        finally:
            self._ended()

    def _wanted(self) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._room > 0)
            return 0 if self._stopped else min(MOST, self._room)

    def _receive(self, most: int) -> None:
        try:
            found = self._calls.receive(self._queue, most, self._wait, self._visibility)
        except Raised as error:
            told = explain(error, f"queue {self._queue.name!r}")
            if isinstance(told, TransportMismatch):
                self._failed(told)
                self.stop()
            else:
                self._rest(told)
            return
        if self._pause:
            self._pause = 0.0
            note.goes_on(self._queue.name)
        with self._changed:
            self._room -= len(found)
        self._take(found)

    def _rest(self, why: Exception) -> None:
        """Pause, longer each time, with full jitter, so that workers do not come back together."""
        self._pause = min(LONGEST_PAUSE, max(SHORTEST_PAUSE, 2 * self._pause))
        seconds = max(SHORTEST_PAUSE / 4, self._pause * random())
        note.paused(self._queue.name, why, seconds)
        with self._changed:
            self._changed.wait_for(lambda: self._stopped, seconds)
