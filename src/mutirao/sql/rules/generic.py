"""The general rules, over the SQL of a dialect: lock, ask, write."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from mutirao.model.brokers.doorbell import Doorbell
from mutirao.model.jobs.job import Claim, Lane, LaneHead
from mutirao.model.jobs.outcome import Settlement
from mutirao.model.keys.supersede import Supersede
from mutirao.model.keys.uniqueness import KeyName
from mutirao.sql.drivers.steps import Query
from mutirao.sql.rules import (
    carried,
    claim,
    hours,
    limit_catch_up,
    limits,
    rescue,
    settle,
    supersede,
    webhooks,
)
from mutirao.sql.rules.base import Rules
from mutirao.sql.rules.words import Words
from mutirao.sql.schema.types import from_micros

if TYPE_CHECKING:
    from mutirao.model.webhooks.webhook_attempts import WebhookAttempt


class LockAskWrite(Rules):
    """Rules for any database, by its words.

    New rows are not announced: a waiting worker notices them, or polls.
    """

    in_transaction = True

    def __init__(self, words: Words) -> None:
        self.words = words
        self.waits_while_holding = words.hold_now is None

    def lanes(self, queues: Collection[str] | None, now: datetime | None) -> Query[list[LaneHead]]:
        """Read the heads of all lanes."""
        return claim.lanes(self.words, queues, now)

    def claim(
        self,
        worker: int,
        lanes: Sequence[Lane],
        limit: int,
        without: Collection[str],
        now: datetime | None,
    ) -> Query[list[Claim]]:
        """Take due jobs."""
        return claim.claim(self.words, worker, lanes, limit, without, now)

    def ring(
        self, lanes: Sequence[Lane], limit: int, now: datetime | None
    ) -> Query[list[Doorbell]]:
        """Ring the doorbells of due jobs."""
        return carried.ring(self.words, lanes, limit, now)

    def answer(
        self, worker: int, rung: Sequence[tuple[int, int]], now: datetime | None
    ) -> Query[list[Claim]]:
        """Take the jobs of doorbells."""
        return carried.answer(self.words, worker, rung, now)

    def finish(
        self,
        settlements: Sequence[Settlement],
        now: datetime | None,
        held: Sequence[int] = (),
        *,
        patient: bool = False,
    ) -> Query[set[int]]:
        """Write final outcomes."""
        if held:
            yield from self.hold(held)
        return (yield from settle.finish(self.words, settlements, now))

    def delivered(
        self,
        attempts: Sequence["WebhookAttempt"],
        done: Sequence[Settlement],
        now: datetime | None,
    ) -> Query[set[int] | None]:
        """Write attempts at webhooks that all went well, and complete jobs."""
        return webhooks.delivered(self.words, attempts, done, now)

    def resume(
        self, worker: int, settlements: Sequence[Settlement], now: datetime | None
    ) -> Query[set[int]]:
        """Write outcomes after which the jobs wait again."""
        return settle.resume(self.words, settlements, now)

    def release(self, jobs: Sequence[tuple[int, int]]) -> Query[set[int]]:
        """Give back jobs that were never started."""
        return settle.release(self.words, jobs)

    def lose(self, jobs: Sequence[tuple[int, int]], now: datetime | None) -> Query[set[int]]:
        """Write down that runs were lost, and let those jobs wait again."""
        return rescue.lose(self.words, jobs, now)

    def is_anyone_gone(self, now: datetime | None) -> Query[bool]:
        """Return whether `rescue` has anything to do; a reader keeps no writer waiting."""
        return rescue.is_anyone_gone(self.words, now)

    def rescue(self, orphans: bool, now: datetime | None) -> Query[list[tuple[int, int]]]:
        """Give back the jobs of expired workers and remove those workers; orphans cost nothing."""
        return rescue.rescue(self.words, now)

    def wake(self) -> Query[None]:
        """Do nothing: workers notice a commit by themselves, or poll."""
        yield from ()

    def wake_all(self) -> Query[None]:
        """Do nothing: workers notice a commit by themselves, or poll."""
        yield from ()

    def notify_ended(self, jobs: Sequence[int]) -> Query[None]:
        """Do nothing: callers notice a commit by themselves, or poll."""
        yield from ()

    def hold(self, jobs: Sequence[int]) -> Query[None]:
        """Lock what the end of these jobs will touch, where rows are locked."""
        return settle.hold(self.words, jobs)

    def judge(self, name: KeyName, task: str, rule: Supersede, now: datetime | None) -> Query[None]:
        """Apply a supersede rule to the jobs of a task and a key that SQL enqueued."""
        yield from supersede.hold_key(self.words, name)
        moment = yield from self.words.moment(now)
        yield from supersede.judge(self.words, name, task, rule, from_micros(moment))

    def roll_up(self, keep: float | None, now: datetime | None) -> Query[bool]:
        """Add up a part."""
        return hours.roll_up(self.words, keep, now)

    def count_backlog(self, most: int, now: datetime | None) -> Query[None]:
        """Count live jobs if they are many."""
        return hours.count_backlog(self.words, most, now)

    def let_go(self, jobs: Sequence[int], now: datetime | None) -> Query[None]:
        """Free the slots of jobs that no longer run."""
        yield from limits.give_back(self.words, jobs, now)

    def open_limit(self, name: str, now: datetime | None) -> Query[bool]:
        """Count the running jobs that a new limit covers."""
        moment = yield from self.words.moment(now)
        found = yield from limits.rules()
        rule = next(rule for rule in found if rule.name == name)
        return (yield from limits.count_running(self.words, rule, moment))

    def close_limit(self, name: str, now: datetime | None) -> Query[bool]:
        """Delete what a limit counted, and release the jobs it blocked."""
        return limits.forget(self.words, name)

    def left_by_limits(self) -> Query[list[int]]:
        """Look for them in the tables."""
        return limit_catch_up.left_out(self.words)

    def catch_up(self, job: int, now: datetime | None) -> Query[None]:
        """Wait for the transaction that has it, and do what was left."""
        moment = yield from self.words.moment(now)
        yield from limit_catch_up.catch_up(self.words, job, moment)

    def mend_limits(self, now: datetime | None) -> Query[None]:
        """Release blocked jobs for which there is room."""
        if (yield from limits.in_use()):
            moment = yield from self.words.moment(now)
            yield from limits.mend(self.words, moment)
