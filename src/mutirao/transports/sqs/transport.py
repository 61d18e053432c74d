"""The transport for Amazon SQS: publishes, consumes, declares and compares queues."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import cached_property, partial
from math import ceil, inf
from typing import Any, TypeVar

import msgspec

from mutirao.errors import (
    ConfigurationError,
    MessageTooLarge,
    TransportError,
    TransportRefused,
)
from mutirao.model.brokers.message import DeadMessage, Difference, Message, Mode
from mutirao.model.display import without_password
from mutirao.ports.transport import OnLost
from mutirao.transports.environment import check_mode, with_environment
from mutirao.transports.sqs.bodies import LARGEST, body_of
from mutirao.transports.sqs.burying import Found, back, walk, wanted
from mutirao.transports.sqs.calls import (
    LONGEST_DELAY,
    LONGEST_VISIBILITY,
    Entry,
    SqsCalls,
    SqsQueue,
)
from mutirao.transports.sqs.consumer import SqsConsumer
from mutirao.transports.sqs.failures import of_queue, unless_missing
from mutirao.transports.sqs.large import LargeBodies
from mutirao.transports.sqs.leases import CAP_MARGIN, USUAL_TIMING, LeaseHeartbeat, Timing
from mutirao.transports.sqs.names import group_name, queue_name
from mutirao.transports.sqs.options import LEAST_RECEIVES, SqsOptions, clients, s3_client, whole
from mutirao.transports.sqs.settling import LastWords

T = TypeVar("T")
SENDERS = 8  # concurrent requests, besides those that receive
ROOM_FOR_CAUSE = 5_000  # bytes of a message that are left for why it is dead
TENANT = "tenant"  # the header with whose job it is


class SQS:
    """Queues at Amazon SQS.

    An option that is None comes from MUTIRAO_SQS_NAME and so on, which are read when a queue is
    first used; without these it has the default of docs/sqs.md.

    Parameters:
        name: the name of a queue at SQS, with "{queue}" for Mutirão's name of it. A name without
            that, such as that of an existing queue, is for one queue only.
        mode: "alone" if the message is the job; "carried" if it is a doorbell for one in a store.
        fifo: keep the order within each `ordering_key`, which is a job's group or else its tenant;
            the names end in ".fifo" then.
        visibility: seconds after which a message of a killed worker is visible to others; whole
            ones, from 2.
        wait: seconds of a long poll, and so the longest that stopping waits for an answer; fewer
            where a worker's grace period is shorter.
        max_runtime: seconds after which a message is held no longer, whatever its handler does;
            None: a little below the 12 hours that SQS allows.
        max_receives: hand-outs after which SQS itself puts a message to the dead; from 5.
        tenant_groups: name the tenant of each message to SQS, which then serves tenants fairly.
        bucket: of S3, for arguments that are too large for a message; None: they are refused.
        region, endpoint_url: as boto3 has them; None: as its configuration says.
        session: a session of boto3 with other credentials than its usual ones.
        clients: makes the two clients, for short calls and for long polls; for tests.
        timing: the clock, what waits, and whether there is a heartbeat; for tests.
    """

    source = None
    longest_again = float(LONGEST_VISIBILITY - CAP_MARGIN)

    def __init__(
        self,
        name: str | None = None,
        *,
        mode: Mode = "alone",
        fifo: bool | None = None,
        visibility: int | None = None,
        wait: int | None = None,
        max_runtime: float | None = None,
        max_receives: int | None = None,
        tenant_groups: bool | None = None,
        bucket: str | None = None,
        region: str | None = None,
        endpoint_url: str | None = None,
        session: Any = None,
        clients: Callable[[], tuple[Any, Any]] | None = None,
        timing: Timing = USUAL_TIMING,
    ) -> None:
        check_mode(mode)
        given: dict[str, Any] = {
            "name": name, "fifo": fifo, "visibility": visibility, "wait": wait,
            "max_runtime": max_runtime, "max_receives": max_receives,
            "tenant_groups": tenant_groups, "bucket": bucket, "region": region,
            "endpoint_url": endpoint_url,
        }  # fmt: skip
        self._given = {each: value for each, value in given.items() if value is not None}
        SqsOptions(**self._given)  # which checks them
        self.mode: Mode = mode
        self._session, self._clients, self._timing = session, clients, timing
        self._lock = threading.Lock()
        self._parts: _Parts | None = None
        self._consumers, self._pid = 0, os.getpid()
        self._only: str | None = None

    @cached_property
    def _options(self) -> SqsOptions:
        return whole(with_environment("SQS", SqsOptions, self._given))

    @property
    def rewrites(self) -> bool:
        """Whether a returned message keeps its new notes: not in a queue that keeps an order."""
        return not self._options.fifo

    @property
    def longest_delay(self) -> float:
        """The maximum seconds of a message's delay; where order is kept, none may have one."""
        return 0.0 if self._options.fifo else float(LONGEST_DELAY)

    @property
    def name(self) -> str:
        """The broker's name for people."""
        where = (
            ""
            if self._options.endpoint_url is None
            else f" at {without_password(self._options.endpoint_url)}"
        )
        return f"SQS ({self._options.name}){where}"

    async def publish(self, messages: Sequence[Message]) -> list[TransportError | None]:
        """Publish messages; see `Transport.publish`."""
        results: list[TransportError | None] = [None] * len(messages)
        by_queue: dict[str, list[tuple[int, Message]]] = {}
        for n, each in enumerate(messages):
            by_queue.setdefault(each.queue, []).append((n, each))
        sent = await asyncio.gather(
            *(self._call(self._send, queue, [each for _, each in some])
              for queue, some in by_queue.items())
        )  # fmt: skip
        for some, found in zip(by_queue.values(), sent, strict=True):
            for (n, _), result in zip(some, found, strict=True):
                results[n] = result
        return results

    @asynccontextmanager
    async def consumer(
        self, queue: str, prefetch: int, on_lost: OnLost, *, grace: float = inf
    ) -> AsyncIterator[SqsConsumer]:
        """Consume a queue until the block is left; see `Transport.consumer`."""
        there = await self._call(self._queue, queue)
        parts = self._open()
        consumer = SqsConsumer(
            there,
            prefetch,
            on_lost,
            parts.heartbeat,
            parts.settler,
            self._call,
            self._options,
            grace,
        )
        self._consumers += 1
        try:
            await consumer.begin()
            yield consumer
        finally:
            try:
                await asyncio.shield(asyncio.ensure_future(consumer.leave()))
            finally:
                self._consumers -= 1

    async def declare(self, queues: Sequence[str]) -> list[str]:
        """Make queues; see `Transport.declare`."""
        made: list[str] = []
        for each in queues:
            made += await self._call(self._declare, each)
        return made

    async def compare(self, queues: Sequence[str]) -> list[Difference]:
        """Return what is missing or otherwise; see `Transport.compare`."""
        found: list[Difference] = []
        for each in queues:
            found += await self._call(self._compare, each)
        return found

    async def waiting(self, queue: str) -> int:
        """Return how many messages wait, about a minute ago; see `Transport.waiting`."""
        return await self._call(lambda: self._open().calls.waiting(self._queue(queue).url))

    async def dead_count(self, queue: str) -> int:
        """Return how many dead messages there are, about a minute ago; see `Transport`."""
        return await self._call(
            lambda: self._open().calls.waiting(self._queue(queue, dead=True).url)
        )

    async def dead(self, queue: str, most: int) -> list[DeadMessage]:
        """Return dead messages; see `Transport.dead`."""
        found: list[Found] = []

        def see(each: Found) -> bool:
            found.append(each)
            return len(found) < most

        await self._call(self._walk, queue, see)
        return [each.dead for each in sorted(found, key=lambda each: each.sent_at)]

    async def return_dead(self, queue: str, ids: Sequence[str] | None) -> int:
        """Send dead messages back; see `Transport.return_dead`."""
        return await self._call(self._take_dead, queue, ids, True)

    async def drop_dead(self, queue: str, ids: Sequence[str] | None) -> int:
        """Delete dead messages; see `Transport.drop_dead`."""
        return await self._call(self._take_dead, queue, ids, False)

    async def aclose(self) -> None:
        """Close the connections, unless something is consumed elsewhere in the process."""
        with self._lock:
            self._forget_if_forked()
            if self._consumers or self._parts is None:
                return
            parts, self._parts = self._parts, None
        await asyncio.to_thread(parts.close)

    def _send(self, name: str, messages: Sequence[Message]) -> list[TransportError | None]:
        """Send what may pass; return for each why it is not sent, or None."""
        try:
            queue = self._queue(name)
        except TransportError as error:
            return [error] * len(messages)
        results: list[TransportError | None] = []
        entries: list[tuple[int, Entry]] = []
        for n, each in enumerate(messages):
            try:
                entries.append((n, self._entry(each, queue)))
                results.append(None)
            except TransportError as error:
                results.append(error)
        sent = self._open().calls.send(queue, [entry for _, entry in entries])
        for (n, _), failure in zip(entries, sent, strict=True):
            if failure is not None:
                results[n] = failure.error(f"message {messages[n].id}")
        return results

    def _entry(self, message: Message, queue: SqsQueue, wait: float = 0.0) -> Entry:
        if message.delay > self.longest_delay:
            raise TransportRefused(
                f"message {message.id} is to wait {message.delay:g} s; SQS holds one for at most"
                f" {self.longest_delay:g} s here: enqueue it into the store, from which it is"
                " carried when it is due"
            )
        entry = Entry(body_of(message, wait=wait), ceil(message.delay), *self._group(message))
        most = queue.largest - ROOM_FOR_CAUSE
        if (size := entry.size()) <= most:
            return entry
        large = self._open().large
        if large is None:
            raise MessageTooLarge(
                f"message {message.id} has {size:,} bytes; this queue takes {most:,}: give"
                " the transport a bucket of S3, or keep what is large elsewhere and pass its key"
            )
        large.put(message.id, message.args.encode())
        return entry._replace(body=body_of(message, large=True, wait=wait))

    def _group(self, message: Message) -> tuple[str | None, str | None]:
        """Return the group and the deduplication id of a message, as far as it has them."""
        tenant = message.headers.get(TENANT) if self._options.tenant_groups else None
        if self._options.fifo:
            group = message.ordering_key or (message.id if tenant is None else str(tenant))
            return group_name(group), group_name(f"{message.id}:{message.run}:{message.attempt}")
        return (None if tenant is None else group_name(str(tenant))), None

    def _queue(self, name: str, *, dead: bool = False) -> SqsQueue:
        """Return a queue as it is at SQS; asked once."""
        parts = self._open()
        known = parts.queues.get((name, dead))
        if known is None:
            there = self._named(name, dead=dead)
            url = of_queue(name, lambda: parts.calls.url(there))
            attributes = parts.calls.attributes(url)
            known = SqsQueue(url, name, int(attributes.get("MaximumMessageSize", LARGEST)))
            parts.queues[name, dead] = known
        return known

    def _named(self, name: str, *, dead: bool = False) -> str:
        self._only = self._only or name
        pattern = self._options.name
        if "{queue}" not in pattern and self._only != name:
            raise ConfigurationError(
                f"SQS({pattern!r}) serves {self._only!r}, and is asked for {name!r} too; put"
                ' "{queue}" where the queue\'s name shall stand, or give each queue one of its own'
            )
        return queue_name(pattern, name, dead=dead, fifo=self._options.fifo)

    def _declare(self, name: str) -> list[str]:
        calls = self._open().calls
        kept = {"FifoQueue": "true"} if self._options.fifo else {}
        dead, there = self._named(name, dead=True), self._named(name)
        kept_dead = {**kept, "MessageRetentionPeriod": "1209600"}
        dead_url = unless_missing(lambda: calls.url(dead)) or calls.create(dead, kept_dead)
        url = unless_missing(lambda: calls.url(there))
        if url is None:
            target = calls.attributes(dead_url)["QueueArn"]
            policy = {"deadLetterTargetArn": target, "maxReceiveCount": self._options.max_receives}
            calls.create(there, {
                **kept, "RedrivePolicy": msgspec.json.encode(policy).decode(),
                "VisibilityTimeout": str(self._options.visibility),
            })  # fmt: skip
        return [dead, there]

    def _compare(self, name: str) -> list[Difference]:
        calls, large = self._open().calls, self._open().large
        found = []
        if large is not None and large.missing():
            found.append(Difference(f"bucket {self._options.bucket!r} of S3", "a bucket", None))
        for dead in (False, True):
            there = self._named(name, dead=dead)
            what = f"queue {name!r} ({there} at SQS)"
            url = unless_missing(partial(calls.url, there))
            if url is None:
                found.append(Difference(what, "a queue", None))
            elif not dead:
                found += self._redrives(what, calls.attributes(url))
        return found

    def _redrives(self, what: str, attributes: Mapping[str, Any]) -> list[Difference]:
        """Return a difference if there is no redrive policy, or its count is too small."""
        policy = msgspec.json.decode(attributes.get("RedrivePolicy", "{}"))
        most = int(policy.get("maxReceiveCount", 0))
        if most >= LEAST_RECEIVES:
            return []
        found = f"one after {most}" if policy else "none"
        return [
            Difference(
                what,
                f"a redrive policy after {self._options.max_receives} hand-outs",
                found,
                fixed=False,
            )
        ]

    def _walk(self, name: str, see: Callable[[Found], bool]) -> None:
        walk(self._open().calls, self._queue(name, dead=True), name, see)

    def _take_dead(self, name: str, ids: Sequence[str] | None, sends_back: bool) -> int:
        calls, large = self._open().calls, self._open().large
        dead = self._queue(name, dead=True)
        taken = 0

        def see(each: Found) -> bool:
            nonlocal taken
            if wanted(each, ids):
                if sends_back:
                    self._send_back(name, each)
                _raise_first(calls.delete(dead, [each.handle]), each)
                if each.large and large and not sends_back:
                    large.drop([each.large])
                taken += 1
            return True

        self._walk(name, see)
        return taken

    def _send_back(self, name: str, each: Found) -> None:
        entry = back(each, None, None)
        if self._options.fifo:
            entry = back(each, each.group, group_name(each.handle))
        _raise_first(self._open().calls.send(self._queue(name), [entry]), each)

    def _open(self) -> "_Parts":
        with self._lock:
            self._forget_if_forked()
            if self._parts is None:
                self._parts = _Parts(self)
            return self._parts

    def _forget_if_forked(self) -> None:
        """Use neither the threads of the parent, which are not here, nor its connections."""
        if self._pid != os.getpid():
            self._parts, self._consumers, self._pid = None, 0, os.getpid()

    async def _call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a plain function in one of the transport's threads."""
        pool = self._open().pool
        return await asyncio.get_running_loop().run_in_executor(pool, partial(function, *args))


class _Parts:
    """The clients and threads of an open transport."""

    def __init__(self, transport: SQS) -> None:
        options, timing = transport._options, transport._timing
        made = transport._clients or partial(clients, transport._session, options)
        self.calls = SqsCalls(*made())
        self.large = None
        if options.bucket:
            self.large = LargeBodies(s3_client(transport._session, options), options.bucket)
        self.heartbeat = LeaseHeartbeat(self.calls, options.visibility, options.max_runtime, timing)
        self.settler = LastWords(
            self.calls, self.heartbeat, lambda queue: transport._queue(queue.name, dead=True),
            transport._entry, timing, self.large, fifo=options.fifo,
        )  # fmt: skip
        self.pool = ThreadPoolExecutor(SENDERS, thread_name_prefix="mutirao-sqs-call")
        self.queues: dict[tuple[str, bool], SqsQueue] = {}

    def close(self) -> None:
        """End the threads, and close the connections."""
        self.heartbeat.stop()
        self.pool.shutdown()
        self.calls.close()
        if self.large is not None:
            self.large.close()


def _raise_first(failures: Sequence[Any], each: Found) -> None:
    for failure in failures:
        if failure is not None:
            raise failure.error(f"message {each.dead.id}")
