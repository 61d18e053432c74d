"""Consumes the schedules that a broker keeps: each delivery is the token of one schedule.

Each schedule is a token, a message in a queue of its own, which is handed to one worker at a time.
That worker waits until it is due, runs the phase, puts the token of the next one into the queue,
and consumes again as the last in line. So phases never overlap, and workers take turns. A lost
token is made again; `model.schedules.token` decides between two.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from math import inf
from time import monotonic
from typing import Any
from uuid import uuid4

from mutirao.aio import end_tasks, wait_for
from mutirao.engine.brokers.next_schedule_token import Loop, end_timer, forget, message_of, settled
from mutirao.engine.brokers.redelivered import CUT_LATELY
from mutirao.errors import DeliveryLost, TransportError, TransportMismatch
from mutirao.log import log
from mutirao.model.brokers.message import Bury, Delivery, Message, Settling
from mutirao.model.schedules import token as steps
from mutirao.model.schedules.schedule import Schedule
from mutirao.model.schedules.token import Token
from mutirao.ports.arrivals import Arrivals
from mutirao.ports.tokens import HeldToken, KeepsSchedules, Tokens
from mutirao.ports.transport import OnLost

LOOK_EVERY = 5.0  # seconds between looks for lost tokens, by one worker of all
CARE_EVERY = 0.5  # seconds
PATIENCE = 2.0  # seconds for which a phase that is due waits for a free slot here
HELD_FOR = 300.0  # seconds after which a held token is written again; brokers limit that, to 30 min
COMES_BACK = 1.0  # seconds
# Seconds for which a first token waits: the schedule's own may be on its way from a worker that
# ends; it took 0.17 s on a machine with six busy processes for each core.
FIRST_AFTER = 1.0

Change = Callable[[Token, datetime], Token]


class ScheduleSource:
    """The schedules that a broker keeps, as something to receive from."""

    longest_delay = longest_again = inf

    def __init__(self, transport: KeepsSchedules, schedules: Sequence[Schedule]) -> None:
        self._transport = transport
        self._schedules = {each.name: each for each in schedules}
        self._name = uuid4().hex
        self._times = count(1)
        self._was_cut = False

    async def publish(self, messages: Sequence[Message]) -> list[TransportError | None]:
        """Publish jobs that follow a death; see `Transport.publish`."""
        return await self._transport.publish(messages)

    @asynccontextmanager
    async def consumer(
        self, queue: str, prefetch: int, on_lost: OnLost, *, grace: float = inf
    ) -> AsyncIterator["Ticking"]:
        """Consume the phases of all schedules; see `Transport.consumer`."""
        async with self._transport.tokens(list(self._schedules)) as tokens:
            me = f"{self._name}/{next(self._times)}"
            ticking = Ticking(tokens, self._schedules, on_lost, me, cut=self._was_cut)
            try:
                async with ticking.working():
                    yield ticking
            finally:
                self._was_cut = ticking.broken


class Ticking:
    """The phases of schedules as deliveries to one worker. A `Consumer`.

    Parameters:
        me: its name as the holder of a token: the source, a slash, and a serial number.
        cut: whether its predecessor lost its connection.
    """

    def __init__(
        self,
        tokens: Tokens,
        schedules: Mapping[str, Schedule],
        on_lost: OnLost,
        me: str,
        *,
        cut: bool,
    ) -> None:
        self._tokens, self._on_lost, self._me = tokens, on_lost, me
        self._cut_lately_until = monotonic() + CUT_LATELY if cut else 0.0
        self._loops = {name: Loop(each) for name, each in schedules.items()}
        self._ready: Arrivals[Delivery] = Arrivals()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def broken(self) -> bool:
        """Whether it has lost its phases, for example with its connection."""
        return self._ready.broken is not None

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Take and step tokens until the block is left."""
        self._spawn(self._take())
        self._spawn(self._care())
        try:
            yield
        finally:
            for loop in self._loops.values():
                end_timer(loop)
            await end_tasks(*self._tasks)

    @property
    def paused(self) -> TransportError | None:
        """Return None: errors break it; see `Consumer.paused`."""
        return None

    async def receive(self, most: int) -> list[Delivery]:
        """Wait for phases that are due; see `Consumer.receive`."""
        found = await self._ready.take(most)
        for each in found:
            self._loops[each.tag].handed_at = None
        return found

    async def settle(self, settlings: Sequence[Settling]) -> list[TransportError | None]:
        """Put the following tokens; see `Consumer.settle`."""
        return await asyncio.gather(*map(self._settle, settlings))

    async def resize(self, prefetch: int) -> None:
        """Do nothing: a schedule has one phase at a time."""

    async def stop(self) -> None:
        """Leave waiting phases to other workers; see `Consumer.stop`.

        A running phase keeps its turn until it has ended: the next worker in line would find no
        token, make one, and begin.
        """
        if self._ready.ended or self._ready.broken is not None:
            return
        self._ready.ended = True
        try:
            for name, loop in self._loops.items():
                async with loop.lock:
                    if loop.delivery is None:
                        await self._tokens.pass_turn(name)
                        await self._tokens.give_back(loop.tags)
                        forget(loop)
        except TransportError as error:
            self._break(error)
        self._ready.notify()

    async def _take(self) -> None:
        while True:
            await self._held(await self._tokens.receive())

    async def _held(self, held: HeldToken) -> None:
        """Take a token; of two, keep the one with the higher number and drop the other."""
        loop = self._loops[held.schedule]
        ends = self._ready.ended and loop.delivery is None
        if ends or held.turn != self._tokens.turn(held.schedule):
            await self._tokens.give_back([held.tag])
            return
        try:
            token = Token.of(held.body)
        except ValueError as error:
            log.error("a message in the queue of schedule %s is dropped: %s", held.schedule, error)
            await self._tokens.drop([held.tag])
            return
        if token.asks is not None:
            await self._tokens.drop([held.tag])
            if loop.token is not None:
                await self._tokens.answer(token.asks, loop.token.body())
            return
        if loop.token is not None and (token.starts or token.serial <= loop.token.serial):
            await self._tokens.drop([held.tag])
            self._start_if(token, loop)
            return
        replaced, before, loop.tags = loop.token, loop.tags, [held.tag]
        loop.token, loop.since = token, monotonic()
        loop.serial = max(loop.serial, token.serial)
        loop.came.set()
        await self._tokens.drop(before)
        if loop.delivery is None:
            end_timer(loop)
            self._go_on(loop, token)
        if replaced is not None:
            self._start_if(replaced, loop)

    def _start_if(self, order: Token, loop: Loop) -> None:
        """Begin a new loop of a stopped schedule, if a token is an order to start."""
        if order.starts and loop.token is not None and loop.token.stopped is not None:
            self._step(loop, loop.token, lambda old, now: steps.started(old, loop.schedule, now))

    def _go_on(self, loop: Loop, token: Token) -> None:
        """Take the step that a token asks for, after it was taken."""
        schedule, now = loop.schedule, datetime.now(UTC)
        if token.serial == 0:  # or an order to start, and the schedule's own token is lost
            self._later(loop, token, FIRST_AFTER, lambda _, now: steps.seeded(schedule, now))
        elif token.holder == self._me:
            self._hand_out(loop, token)
        elif token.holder is not None:
            self._again(loop, token, token.holder)
        elif (changed := steps.replanned(token, schedule, now)) != token:
            self._step(loop, token, lambda *_: changed)
        elif token.stopped is None:
            self._wait(loop, token, token.due - now.timestamp())

    def _wait(self, loop: Loop, token: Token, seconds: float) -> None:
        """Put a token that names this worker, in some seconds; its return begins the phase."""
        self._later(loop, token, seconds, lambda held, _: steps.begun(held, self._me))

    def _again(self, loop: Loop, token: Token, holder: str) -> None:
        """Run a phase again that a worker began: it counts as lost only if that worker has ended.

        A worker that lost its connection lives: this one, or all of them after a broker's restart.
        """
        if holder.partition("/")[0] == self._me.partition("/")[0]:
            token = replace(token, holder=None, lost=0)
        elif monotonic() < self._cut_lately_until:
            token = replace(token, holder=None)
        else:
            log.warning("schedule %s: a worker vanished during phase %s; it runs again",
                        loop.schedule.name, token.phase)  # fmt: skip
        loop.token = token
        self._wait(loop, token, 0.0)

    def _later(self, loop: Loop, token: Token, seconds: float, change: Change) -> None:
        def due() -> None:
            self._step(loop, token, change)

        loop.timer = asyncio.get_running_loop().call_later(max(0.0, seconds), due)

    def _hand_out(self, loop: Loop, token: Token) -> None:
        message = message_of(token, loop.schedule)
        delivery = Delivery(message, message.args.encode(), None, loop.schedule.name)
        loop.delivery, loop.handed_at = delivery, monotonic()
        self._ready.put(delivery)

    async def _settle(self, settling: Settling) -> TransportError | None:
        loop, now = self._loops[settling.delivery.tag], datetime.now(UTC)
        if self._ready.broken is not None or loop.delivery is not settling.delivery:
            return DeliveryLost(f"this phase of schedule {loop.schedule.name} is not ours any more")
        try:
            if isinstance(settling, Bury) and settling.delivery.message is not None:
                message = settling.delivery.message
                await self._tokens.bury(loop.schedule.name, message, settling.cause)
            await self._pass_on(loop, lambda token: settled(token, settling, loop.schedule, now))
        except TransportMismatch as error:  # the queue is gone, and only consumers are informed
            self._break(error)
            return error
        except TransportError as error:
            return error
        return None

    async def _pass_on(self, loop: Loop, change: Callable[[Token], Token]) -> None:
        """Put the next token while another worker is first in line, and consume again behind it."""
        name = loop.schedule.name
        async with loop.lock:
            if loop.token is None:
                return
            await self._caught_up(loop)
            await self._tokens.pass_turn(name)
            following = replace(change(loop.token), serial=loop.serial + 1)
            await self._tokens.put(name, following.body())
            if following.stopped is not None:
                log.warning("schedule %s has stopped: %s", name, following.stopped)
            tags, loop.delivery = loop.tags, None
            forget(loop)
            try:
                await self._tokens.drop(tags)
                if not self._ready.ended:
                    await self._tokens.line_up(name)
            except TransportError as error:  # the next token is there
                self._break(error)

    async def _caught_up(self, loop: Loop) -> None:
        """Wait until the last step has come back: the next in line would take it for ours."""
        end = monotonic() + COMES_BACK
        while loop.token is not None and loop.token.serial < loop.serial and monotonic() < end:
            loop.came.clear()
            await wait_for(loop.came, end - monotonic())

    def _step(self, loop: Loop, token: Token, change: Change) -> None:
        self._spawn(self._put(loop, token, change))

    async def _put(self, loop: Loop, token: Token, change: Change) -> None:
        """Put a step of a token that stays here: the token before is dropped when it comes back.

        If another token has replaced this one meanwhile, there is no step.
        """
        async with loop.lock:
            if loop.token is not token or self._ready.ended:
                return
            changed = change(token, datetime.now(UTC))
            loop.serial = max(loop.serial, token.serial) + 1
            await self._tokens.put(loop.schedule.name, replace(changed, serial=loop.serial).body())

    async def _care(self) -> None:
        """Look for lost tokens, for tokens held for long, and for phases without a slot."""
        look_at = 0.0
        while not self._ready.ended:
            now = monotonic()
            looks, look_at = now >= look_at, look_at if now < look_at else now + LOOK_EVERY
            for loop in self._loops.values():
                if loop.token is None and looks:
                    await self._seed(loop)
                elif loop.token is not None and now - loop.since > HELD_FOR:
                    loop.since = now
                    await self._put(loop, loop.token, lambda token, _: token)
                elif loop.handed_at is not None and now - loop.handed_at > PATIENCE:
                    await self._leave_to_others(loop)
            await asyncio.sleep(CARE_EVERY)

    async def _seed(self, loop: Loop) -> None:
        """Put the first token of a schedule that may have none; a worker that has one drops it.

        No count shows the worker that holds the token. Of all consumers one does this at a time, on
        average.
        """
        if random.random() * loop.consumers >= 1:
            return
        there = await self._tokens.look(loop.schedule.name)
        loop.consumers = max(1, there.consumers)
        if not there.consumers:
            await self._line_up_again(loop)
        if not there.waiting and loop.token is None:
            first = steps.seeded(loop.schedule, datetime.now(UTC))
            await self._tokens.put(loop.schedule.name, first.body())

    async def _line_up_again(self, loop: Loop) -> None:
        """Consume again if the broker knows no consumer: RabbitMQ 3.10 may forget consumers.

        It does not report that, see `RabbitConsumer`. A worker that passes its turn consumes again
        by the time that the lock is free.
        """
        name = loop.schedule.name
        async with loop.lock:
            if not self._ready.ended and not (await self._tokens.look(name)).consumers:
                await self._tokens.pass_turn(name)
                await self._tokens.line_up(name)

    async def _leave_to_others(self, loop: Loop) -> None:
        """Leave a phase to the next worker in line, because there is no slot here."""
        if loop.delivery is not None and loop.delivery in self._ready:
            self._ready.remove(loop.delivery)
            loop.handed_at = None
            await self._pass_on(loop, lambda token: replace(token, holder=None))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except TransportError as error:
            self._break(error)
        except Exception as error:  # noqa: BLE001 (`receive` raises it, which ends the worker)
            self._break(error)

    def _break(self, error: Exception) -> None:
        """Give up all phases: the next worker in line has them."""
        if self._ready.broken is not None:
            return
        self._ready.broken = error
        lost = [each.delivery for each in self._loops.values() if each.delivery is not None]
        for loop in self._loops.values():
            end_timer(loop)
            loop.delivery = None
            forget(loop)
        self._ready.clear()
        self._ready.notify()
        if lost:
            self._on_lost(lost)
