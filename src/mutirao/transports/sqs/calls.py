"""The requests to SQS, as plain functions that threads call.

Each takes entries for one request or several and returns the result of each entry: SQS answers a
batch with success even if all of its entries failed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple, TypeVar

from mutirao.errors import TransportError
from mutirao.transports.sqs.bodies import LARGEST
from mutirao.transports.sqs.failures import (
    Meaning,
    Raised,
    explain,
    meaning_of,
    meaning_of_entry,
    transport_error,
)

MOST = 10  # entries of a batch
LONGEST_DELAY, LONGEST_VISIBILITY = 900, 43_200  # seconds

T = TypeVar("T")
Attributes = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SqsQueue:
    """A queue: its URL at SQS, Mutirão's name of it, and the bytes that a message may have."""

    url: str
    name: str
    largest: int = LARGEST


class Entry(NamedTuple):
    """A message to be sent."""

    body: str
    delay: int = 0  # seconds
    group: str | None = None
    deduplication: str | None = None
    attributes: Mapping[str, str] = {}

    def size(self) -> int:
        """Return the bytes that count towards the limits of SQS."""
        named = sum(len(name) + len("String") + len(value.encode()) for name, value in
                    self.attributes.items())  # fmt: skip
        return len(self.body.encode()) + named

    def request(self, id: str) -> dict[str, Any]:
        """Return it as a part of a request."""
        entry: dict[str, Any] = {"Id": id, "MessageBody": self.body}
        if self.delay:
            entry["DelaySeconds"] = self.delay
        if self.group is not None:
            entry["MessageGroupId"] = self.group
        if self.deduplication is not None:
            entry["MessageDeduplicationId"] = self.deduplication
        if self.attributes:
            entry["MessageAttributes"] = {
                name: {"DataType": "String", "StringValue": value}
                for name, value in self.attributes.items()
            }
        return entry


class EntryFailure(NamedTuple):
    """Why SQS did not do what an entry asked for."""

    meaning: Meaning
    said: str

    def error(self, what: str) -> TransportError:
        """Return it as an error of Mutirão; `what` begins its sentence."""
        return transport_error(self.meaning, what, self.said)


class SqsCalls:
    """The requests of one transport.

    Parameters:
        client: a client of boto3 for short calls, as `boto3.client("sqs")` returns it.
        polls: another one, whose time limit is above that of a long poll.
    """

    def __init__(self, client: Any, polls: Any) -> None:
        self._client, self._polls = client, polls

    def url(self, name: str) -> str:
        """Return the URL of a queue of that name at SQS; raises what `Transport` does."""
        with _explained(f"queue {name!r}"):
            return str(self._client.get_queue_url(QueueName=name)["QueueUrl"])

    def attributes(self, url: str) -> Attributes:
        """Return the attributes of a queue; raises what `Transport` does."""
        with _explained(f"queue {url}"):
            asked = self._client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
            attributes: Attributes = asked["Attributes"]
            return attributes

    def waiting(self, url: str) -> int:
        """Return how many messages of a queue are visible, about a minute ago."""
        return int(self.attributes(url)["ApproximateNumberOfMessages"])

    def create(self, name: str, attributes: Mapping[str, str]) -> str:
        """Create a queue, unless it exists with the same attributes; return its URL."""
        with _explained(f"queue {name!r}"):
            made = self._client.create_queue(QueueName=name, Attributes=dict(attributes))
            return str(made["QueueUrl"])

    def receive(
        self, queue: SqsQueue, most: int, wait: int, visibility: int
    ) -> list[dict[str, Any]]:
        """Return what SQS hands out, within `wait` seconds; raises what boto3 raises."""
        answer = self._polls.receive_message(
            QueueUrl=queue.url, MaxNumberOfMessages=min(most, MOST), WaitTimeSeconds=wait,
            VisibilityTimeout=visibility, MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )  # fmt: skip
        found: list[dict[str, Any]] = answer.get("Messages", [])
        return found

    def send(self, queue: SqsQueue, entries: Sequence[Entry]) -> list[EntryFailure | None]:
        """Send messages, in batches by number and size; return the result of each."""

        def send(batch: Sequence[Entry]) -> list[EntryFailure | None]:
            asked = [entry.request(str(n)) for n, entry in enumerate(batch)]
            return _each(
                lambda: self._client.send_message_batch(QueueUrl=queue.url, Entries=asked), batch
            )

        return [each for batch in _by_size(entries) for each in _splitting(send, batch)]

    def delete(self, queue: SqsQueue, handles: Sequence[str]) -> list[EntryFailure | None]:
        """Delete messages for good; return the result of each."""

        def delete(batch: Sequence[str]) -> list[EntryFailure | None]:
            asked = [{"Id": str(n), "ReceiptHandle": handle} for n, handle in enumerate(batch)]
            return _each(
                lambda: self._client.delete_message_batch(QueueUrl=queue.url, Entries=asked), batch
            )

        return [each for batch in _tens(handles) for each in delete(batch)]

    def change(
        self, queue: SqsQueue, asked: Sequence[tuple[str, float]]
    ) -> list[EntryFailure | None]:
        """Make messages visible this many seconds from now, rounded up."""

        def change(batch: Sequence[tuple[str, float]]) -> list[EntryFailure | None]:
            entries = [
                {"Id": str(n), "ReceiptHandle": handle, "VisibilityTimeout": ceil(seconds)}
                for n, (handle, seconds) in enumerate(batch)
            ]
            call = self._client.change_message_visibility_batch
            return _each(lambda: call(QueueUrl=queue.url, Entries=entries), batch)

        return [each for batch in _tens(asked) for each in self._one_by_one(change, batch)]

    def _one_by_one(
        self, change: Callable[[Sequence[T]], list[EntryFailure | None]], batch: Sequence[T]
    ) -> list[EntryFailure | None]:
        """Do not let one entry spoil the others where a whole batch is refused for it."""
        failures = change(batch)
        spoilt = all(each is not None and each.meaning in _OF_ONE for each in failures)
        if spoilt and len(batch) > 1:
            return [failure for each in batch for failure in change([each])]
        return failures

    def close(self) -> None:
        """Close the connections."""
        for client in (self._client, self._polls):
            client.close()


_OF_ONE = (Meaning.LOST, Meaning.CAPPED, Meaning.REFUSED)  # what is logged of one message


class _explained:  # noqa: N801 (stands in a `with`, as a function would)
    """A block in which errors of boto3 become ours."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Raised):
            raise explain(error, self._what) from error


def _each(
    call: Callable[[], Mapping[str, Any]], batch: Sequence[object]
) -> list[EntryFailure | None]:
    """Return the result of each entry; an error of the request is the result of all of them."""
    try:
        answer = call()
    except Raised as error:
        return [EntryFailure(meaning_of(error), str(error))] * len(batch)
    failures: list[EntryFailure | None] = [
        EntryFailure(Meaning.AWAY, "SQS answered, and said nothing of this message")
    ] * len(batch)
    for done in answer.get("Successful", ()):
        failures[int(done["Id"])] = None
    for failed in answer.get("Failed", ()):
        said = f"{failed.get('Code')}: {failed.get('Message', '')}"
        failures[int(failed["Id"])] = EntryFailure(meaning_of_entry(failed), said)
    return failures


def _splitting(
    send: Callable[[Sequence[T]], list[EntryFailure | None]], batch: Sequence[T]
) -> list[EntryFailure | None]:
    """Send a batch, and its halves if SQS finds it too large."""
    failures = send(batch)
    if len(batch) > 1 and all(each and each.meaning is Meaning.SPLIT for each in failures):
        half = len(batch) // 2
        return [*_splitting(send, batch[:half]), *_splitting(send, batch[half:])]
    return [
        each._replace(meaning=Meaning.REFUSED) if each and each.meaning is Meaning.SPLIT else each
        for each in failures
    ]


def _by_size(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        more = entry.size()
        if batch and (len(batch) == MOST or size + more > LARGEST):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += more
    if batch:
        yield batch


def _tens(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), MOST):
        yield items[start : start + MOST]
