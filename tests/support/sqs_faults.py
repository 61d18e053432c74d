"""An SQS in this process, with behaviour of the real one that moto lacks, and faults by order.

It has the methods of boto3's client that we use. Time is injected. Of the real one it has: receipt
handles that grow stale, visibility that ends, 12 hours counted from the receipt, groups that are
locked while one of them is in flight, and answers that fail for single entries.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

TWELVE_HOURS = 43_200
PACE = 0.005  # seconds of a long poll between two looks

Answer = dict[str, Any]


def refusal(operation: str, code: str, text: str = "") -> ClientError:
    """Return the error that boto3 raises for an answer of SQS."""
    return ClientError({"Error": {"Code": code, "Message": text or code}}, operation)


@dataclass
class Kept:
    """A message at the broker. Times are those of the injected clock."""

    id: str
    body: str
    attributes: Answer
    group: str | None
    visible_at: float
    sent_at: float
    handle: str = ""
    receives: int = 0
    received_at: float = 0.0


@dataclass
class FakeQueue:
    """A queue at the broker."""

    name: str
    attributes: dict[str, str]
    messages: list[Kept] = field(default_factory=list)
    deduplicated: set[str] = field(default_factory=set)

    @property
    def fifo(self) -> bool:
        """True if it keeps the order of groups."""
        return self.name.endswith(".fifo")


class FakeSqs:
    """The broker, and a client of it.

    Attributes:
        requests: how often each operation was asked for.
        waits: the seconds of each long poll that was asked for.
        away: whether every request fails as if the network was down, also those under way.
        lost_deletes: so many deletes are answered with success and not done.
        duplicates: so many messages are handed out again though they are in flight.
        disorder: whether standard queues hand out the newest first.
        refused: the codes with which receiving from queues is refused, by queue.
        refusals: how often that has happened.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, long_poll: float = 0.02
    ) -> None:
        """Set the clock, and the seconds of a long poll, whatever was asked for."""
        self.clock, self._long_poll = clock, long_poll
        self.queues: dict[str, FakeQueue] = {}
        self.requests: Counter[str] = Counter()
        self.waits: list[int] = []
        self.away, self.disorder = False, False
        self.refused: dict[str, str] = {}
        self.lost_deletes = self.duplicates = self.refusals = 0
        self._faults: dict[str, deque[Callable[[], None]]] = defaultdict(deque)
        self._entry_faults: dict[str, deque[tuple[str, str, bool, int]]] = defaultdict(deque)
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()

    def refuse(self, operation: str, code: str, text: str = "", times: int = 1) -> None:
        """Refuse the next requests of an operation as a whole."""

        self.fail(operation, refusal(operation, code, text), times)

    def fail(self, operation: str, error: Exception, times: int = 1) -> None:
        """Let the next requests of an operation raise something."""

        def fail() -> None:
            raise error

        self._faults[operation] += [fail] * times

    def refuse_entries(
        self, operation: str, code: str, *, text: str = "", sender: bool = False, most: int = 1,
        times: int = 1,
    ) -> None:  # fmt: skip
        """Let the first `most` entries of the next batches fail."""
        self._entry_faults[operation] += [(code, text or code, sender, most)] * times

    def mend(self, operation: str) -> None:
        """Forget what was ordered for an operation."""
        self._faults[operation].clear()
        self._entry_faults[operation].clear()

    def get_queue_url(self, QueueName: str) -> Answer:  # noqa: N803
        """Return where a queue is."""
        self._begin("get_queue_url")
        return {"QueueUrl": self._queue("get_queue_url", QueueName).name}

    def create_queue(self, QueueName: str, Attributes: dict[str, str]) -> Answer:  # noqa: N803
        """Make a queue."""
        self._begin("create_queue")
        self.queues.setdefault(QueueName, FakeQueue(QueueName, Attributes))
        return {"QueueUrl": QueueName}

    def get_queue_attributes(self, QueueUrl: str, AttributeNames: list[str]) -> Answer:  # noqa: N803
        """Return what a queue is like."""
        self._begin("get_queue_attributes")
        queue = self._queue("get_queue_attributes", QueueUrl)
        usual = {
            "QueueArn": f"arn:aws:sqs:nowhere:1:{queue.name}",
            "MaximumMessageSize": "1048576",
            "ApproximateNumberOfMessages": str(len(self.waiting(queue.name))),
        }
        return {"Attributes": {**usual, **queue.attributes}}

    def send_message_batch(self, QueueUrl: str, Entries: list[Answer]) -> Answer:  # noqa: N803
        """Keep messages."""
        self._begin("send_message_batch")
        queue = self._queue("send_message_batch", QueueUrl)
        if sum(map(_size, Entries)) > 1 << 20:
            raise refusal("SendMessageBatch", "AWS.SimpleQueueService.BatchRequestTooLong")

        def send(entry: Answer) -> None:
            deduplication = entry.get("MessageDeduplicationId")
            if queue.fifo and deduplication in queue.deduplicated:
                return
            queue.deduplicated.add(deduplication or "")
            now = self.clock()
            queue.messages.append(
                Kept(
                    f"sqs-{next(self._numbers)}", entry["MessageBody"],
                    entry.get("MessageAttributes", {}), entry.get("MessageGroupId"),
                    now + entry.get("DelaySeconds", 0), now,
                )
            )  # fmt: skip

        return self._batch("send_message_batch", Entries, send)

    def receive_message(
        self, QueueUrl: str, MaxNumberOfMessages: int, WaitTimeSeconds: int,  # noqa: N803
        VisibilityTimeout: int, **_: Any,  # noqa: N803
    ) -> Answer:  # fmt: skip
        """Hand out messages, waiting for some."""
        self._begin("receive_message")
        self.waits.append(WaitTimeSeconds)
        if QueueUrl in self.refused:
            self.refusals += 1
            raise refusal("receive_message", self.refused[QueueUrl])
        end = time.monotonic() + (self._long_poll if WaitTimeSeconds else 0)
        while True:
            with self._lock:
                self._check_available("receive_message")
                queue = self._queue("receive_message", QueueUrl)
                chosen = self._chosen(queue)[:MaxNumberOfMessages]
                found = [self._hand_out(each, VisibilityTimeout) for each in chosen]
            if found or time.monotonic() >= end:
                return {"Messages": found} if found else {}
            time.sleep(PACE)

    def delete_message_batch(self, QueueUrl: str, Entries: list[Answer]) -> Answer:  # noqa: N803
        """Delete messages; a stale handle of a standard queue is answered with success."""
        self._begin("delete_message_batch")
        queue = self._queue("delete_message_batch", QueueUrl)

        def delete(entry: Answer) -> None:
            if self.lost_deletes:
                self.lost_deletes -= 1
                return
            kept = self._of_handle(queue, entry["ReceiptHandle"])
            if kept is not None:
                queue.messages.remove(kept)
            elif queue.fifo:
                raise refusal("", "InvalidParameterValue", "The receipt handle has expired")

        return self._batch("delete_message_batch", Entries, delete)

    def change_message_visibility_batch(
        self, QueueUrl: str, Entries: list[Answer]  # noqa: N803
    ) -> Answer:  # fmt: skip
        """Change when messages become visible."""
        self._begin("change_message_visibility_batch")
        queue = self._queue("change_message_visibility_batch", QueueUrl)

        def change(entry: Answer) -> None:
            kept, seconds = (
                self._of_handle(queue, entry["ReceiptHandle"]),
                entry["VisibilityTimeout"],
            )
            if kept is None:
                raise refusal("", "MessageNotInflight")
            if self.clock() + seconds - kept.received_at > TWELVE_HOURS:
                text = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]"
                raise refusal("", "InvalidParameterValue", text)
            kept.visible_at = self.clock() + seconds
            if not seconds:
                kept.handle = ""

        return self._batch("change_message_visibility_batch", Entries, change)

    def close(self) -> None:
        """Do nothing."""

    def waiting(self, name: str) -> list[str]:
        """Return the bodies of what is kept and visible now."""
        now = self.clock()
        return [each.body for each in self.queues[name].messages if each.visible_at <= now]

    def steal(self, name: str) -> None:
        """Deliver all that is in flight to another consumer: the handles given before are stale."""
        with self._lock:
            for each in self.queues[name].messages:
                each.handle, each.receives = "somebody else's", each.receives + 1
                each.visible_at = self.clock() + 30

    def _begin(self, operation: str) -> None:
        with self._lock:
            self.requests[operation] += 1
            self._check_available(operation)
            if self._faults[operation]:
                self._faults[operation].popleft()()

    def _check_available(self, operation: str) -> None:
        if self.away:
            raise refusal(operation, "ServiceUnavailable", "nobody is there")

    def _queue(self, operation: str, name: str) -> FakeQueue:
        if name not in self.queues:
            raise refusal(operation, "AWS.SimpleQueueService.NonExistentQueue")
        return self.queues[name]

    def _batch(self, operation: str, entries: list[Answer], do: Callable[[Answer], None]) -> Answer:
        answer: Answer = {"Successful": [], "Failed": []}
        assert 0 < len(entries) <= 10
        with self._lock:
            faults = self._entry_faults[operation]
            code, text, sender, most = faults.popleft() if faults else ("", "", False, 0)
            for n, entry in enumerate(entries):
                failed = (code, text, sender) if n < most else _attempted(do, entry)
                if failed is None:
                    answer["Successful"].append({"Id": entry["Id"]})
                else:
                    named = dict(zip(("Code", "Message", "SenderFault"), failed, strict=True))
                    answer["Failed"].append({"Id": entry["Id"], **named})
        return answer

    def _chosen(self, queue: FakeQueue) -> list[Kept]:
        return list(self._in_order(queue)) if queue.fifo else self._in_any_order(queue)

    def _in_order(self, queue: FakeQueue) -> Iterator[Kept]:
        now, locked = self.clock(), set[str | None]()
        for each in queue.messages:
            if each.visible_at > now:
                locked.add(each.group)
            elif each.group not in locked:
                yield each

    def _in_any_order(self, queue: FakeQueue) -> list[Kept]:
        now = self.clock()
        again = [each for each in queue.messages if each.handle and each.visible_at > now]
        again = again[: self.duplicates]
        self.duplicates -= len(again)
        found = [each for each in queue.messages if each.visible_at <= now]
        return again + (found[::-1] if self.disorder else found)

    def _hand_out(self, each: Kept, visibility: int) -> Answer:
        now = self.clock()
        each.handle, each.received_at = f"handle-{next(self._numbers)}", now
        each.receives, each.visible_at = each.receives + 1, now + visibility
        attributes = {
            "ApproximateReceiveCount": str(each.receives),
            "SentTimestamp": str(int(each.sent_at * 1000)),
        }
        if each.group is not None:
            attributes["MessageGroupId"] = each.group
        return {
            "MessageId": each.id, "ReceiptHandle": each.handle, "Body": each.body,
            "Attributes": attributes, "MessageAttributes": each.attributes,
        }  # fmt: skip

    def _of_handle(self, queue: FakeQueue, handle: str) -> Kept | None:
        now = self.clock()
        fitting = (each for each in queue.messages if each.handle == handle)
        return next((each for each in fitting if each.visible_at > now), None)


def _size(entry: Answer) -> int:
    named = (
        name + value["DataType"] + value["StringValue"]
        for name, value in entry.get("MessageAttributes", {}).items()
    )
    return len("".join((entry["MessageBody"], *named)).encode())


def _attempted(do: Callable[[Answer], None], entry: Answer) -> tuple[str, str, bool] | None:
    try:
        do(entry)
    except ClientError as error:
        details = error.response["Error"]
        return details["Code"], details["Message"], True
    return None
