"""Jobs by broker alone: published while the broker is in trouble, and counted afterwards.

Each has a number, by which the inbox knows it, and writes one row. Whoever publishes them keeps
them, and publishes once more what a purge threw away: by broker alone nobody else has it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from mutirao import Mutirao, NewJob
from mutirao.errors import TransportUnavailable
from mutirao.sql.schema.tables import inbox
from tests.faults.chaos import app
from tests.faults.chaos.aside import OneByOne

AHEAD = 3 / 4  # of the messages are published before the workers start
AT_ONCE = 100  # messages
AGAIN_AFTER = 0.2  # seconds
DELAY, DEAD = f"{app.PREFIX}-delay-", f"{app.PREFIX}-dead."


class Messages:
    """The messages of a run, 0 to `counts` - 1 of each queue, and their publisher.

    `again`: how many had to be published once more, by queue.
    """

    def __init__(self, application: Mutirao, counts: Mapping[str, int], pause: float) -> None:
        self._application, self._pause = application, pause
        self.counts = {queue: count for queue, count in counts.items() if count}
        self.again: Counter[str] = Counter()
        self._given_up = False
        self._publishing = OneByOne()

    def publish_ahead(self) -> None:
        """Publish what is to wait when the workers start."""
        for queue, count in self.counts.items():
            self._publish(queue, range(int(count * AHEAD)))

    def go_on(self, helper: ThreadPoolExecutor) -> None:
        """Publish the rest beside whatever happens."""
        self._publishing.do(self._publish_rest, helper)

    def give_up(self) -> None:
        """Publish no more."""
        self._given_up = True

    @property
    def published(self) -> bool:
        """Whether the broker has confirmed all of them. Raises what kept it from that."""
        return self._publishing.begun and self._publishing.free

    def missing(self, connection: Connection) -> int:
        """Return how many have had no effect yet."""
        numbers, queue = func.count(app.taken.c.number.distinct()), app.taken.c.queue
        return sum(
            count - connection.execute(select(numbers).where(queue == name)).scalar_one()
            for name, count in self.counts.items()
        )

    def publish_again(self, connection: Connection) -> None:
        """Publish those that have had no effect, which is right when the broker holds nothing."""
        for queue, count in self.counts.items():
            lost = sorted({*range(count)} - times(connection, queue).keys())
            self.again[queue] += len(lost)
            self._publish(queue, lost)

    def counted(
        self, connection: Connection, purged: Mapping[str, int], held: Mapping[str, int]
    ) -> Iterator[Count]:
        """Yield what became of the messages of each queue, given what the broker holds."""
        for queue, count in self.counts.items():
            its = f"{app.PREFIX}.{queue}", f"{DEAD}{queue}"
            yield Count(
                queue=queue,
                published=count,
                times=times(connection, queue),
                once=queue == app.INBOX,
                # What waits for its next attempt is in queues that all have in common.
                purged=sum(n for name, n in purged.items() if name in its or DELAY in name),
                again=self.again[queue],
                dropped=_dropped(connection, queue),
                left={name: held[name] for name in its if held.get(name)},
            )

    def _publish_rest(self) -> None:
        for queue, count in self.counts.items():
            self._publish(queue, range(int(count * AHEAD), count))

    def _publish(self, queue: str, numbers: Sequence[int]) -> None:
        """Publish until all are confirmed; what was under way at a failure may be there twice."""
        for first in range(0, len(numbers), AT_ONCE):
            some = [self._job(queue, number) for number in numbers[first : first + AT_ONCE]]
            while not self._given_up:
                try:
                    self._application.enqueue_many(some)
                    break
                except TransportUnavailable:
                    time.sleep(AGAIN_AFTER)

    def _job(self, queue: str, number: int) -> NewJob:
        task = app.take_once if queue == app.INBOX else app.take
        return task.job(number, self._pause)


@contextmanager
def messages_of(
    url: str, broker_url: str | None, counts: Mapping[str, int], pause: float
) -> Iterator[Messages]:
    """Lend the messages of a run."""
    with closing(Mutirao(url, transports=app.transports_at(broker_url))) as application:
        yield Messages(application, counts, pause)


def times(connection: Connection, queue: str) -> Counter[int]:
    """Return how often each number of a queue had its effect."""
    number, times = app.taken.c.number, func.count().label("times")
    counting = select(number, times).where(app.taken.c.queue == queue).group_by(number)
    return Counter({row.number: row.times for row in connection.execute(counting)})


def _dropped(connection: Connection, queue: str) -> int:
    again = func.coalesce(func.sum(inbox.c.times - 1), 0)
    return int(connection.execute(select(again).where(inbox.c.consumer == queue)).scalar_one())


@dataclass(frozen=True, kw_only=True)
class Count:
    """The effects of the messages 0 to `published` - 1 of a queue.

    Parameters:
        times: how often each number had its effect.
        once: whether the inbox was to drop repetitions.
        purged: the most messages that a purge threw away.
        again: how many had no effect when the broker held nothing, and were published once more.
        dropped: how many repetitions the inbox has dropped.
        left: what the broker still holds of them at the end, dead ones included, by its queue.
    """

    queue: str
    published: int
    times: Mapping[int, int]
    once: bool
    purged: int
    again: int
    dropped: int
    left: Mapping[str, int]

    @property
    def repetitions(self) -> int:
        """How many effects are there beside the first one of each."""
        return sum(self.times.values()) - len(self.times)

    def flaws(self) -> Iterator[str]:
        """Yield what is not as promised."""
        numbers = set(range(self.published))
        if missing := sorted(numbers - self.times.keys()):
            yield f"{len(missing)} messages of {self.queue} have no effect: {missing[:10]}"
        if strange := sorted(self.times.keys() - numbers):
            yield f"{len(strange)} messages of {self.queue} were never published: {strange[:10]}"
        several = sorted(number for number, times in self.times.items() if times > 1)
        if self.once and several:
            yield f"{len(several)} messages of {self.queue} had their effect again: {several[:10]}"
        if self.again > self.purged:
            yield (
                f"{self.again} messages of {self.queue} were lost, and a purge threw"
                f" {self.purged} away"
            )
        for name, messages in self.left.items():
            yield f"{messages} messages of {self.queue} are left in {name}"
