"""The general rules, over the SQL of a dialect: lock, ask, write."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from mutirao.model.jobs.outcome import Settlement
from mutirao.model.keys.supersede import Supersede
from mutirao.model.keys.uniqueness import KeyName
from mutirao.sql.drivers.steps import Query
from mutirao.sql.rules import (
    carried,
    claim as claims,
    hours,
    limit_catch_up,
    limits,
    rescue as rescues,
    settle,
    supersede,
    webhooks,
)
from mutirao.sql.rules.base import Rules
from mutirao.sql.rules.words import Words
from mutirao.sql.schema.types import from_micros

P = ParamSpec("P")
R = TypeVar("R")


def by_words(
    rule: Callable[Concatenate[Words, P], Query[R]],
) -> Callable[Concatenate["LockAskWrite", P], Query[R]]:
    """Return the method that applies a rule with the words of its database."""

    @wraps(rule)
    def apply(self: "LockAskWrite", /, *args: P.args, **kwargs: P.kwargs) -> Query[R]:
        return rule(self.words, *args, **kwargs)

    return apply


class LockAskWrite(Rules):
    """Rules for any database, by its words.

    New rows are not announced: a waiting worker notices them, or polls.
    """

    in_transaction = True

    def __init__(self, words: Words) -> None:
        self.words = words
        self.waits_while_holding = words.hold_now is None

    lanes = by_words(claims.lanes)
    claim = by_words(claims.claim)
    ring = by_words(carried.ring)
    answer = by_words(carried.answer)
    hold = by_words(settle.hold)
    delivered = by_words(webhooks.delivered)
    release = by_words(settle.release)
    lose = by_words(rescues.lose)
    is_anyone_gone = by_words(rescues.is_anyone_gone)
    roll_up = by_words(hours.roll_up)
    count_backlog = by_words(hours.count_backlog)
    left_by_limits = by_words(limit_catch_up.left_out)

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

    def resume(
        self, worker: int, settlements: Sequence[Settlement], now: datetime | None
    ) -> Query[set[int]]:
        """Write outcomes after which the jobs wait again."""
        return settle.resume(self.words, settlements, now)

    def rescue(self, orphans: bool, now: datetime | None) -> Query[list[tuple[int, int]]]:
        """Give back the jobs of expired workers and remove those workers; orphans cost nothing."""
        return rescues.rescue(self.words, now)

    def wake(self) -> Query[None]:
        """Do nothing: idle workers notice a commit, or poll."""
        yield from ()

    def wake_all(self) -> Query[None]:
        """Do nothing: workers notice a commit, or poll."""
        yield from ()

    def notify_ended(self, jobs: Sequence[int]) -> Query[None]:
        """Do nothing: callers poll."""
        yield from ()

    def judge(self, name: KeyName, task: str, rule: Supersede, now: datetime | None) -> Query[None]:
        """Apply a supersede rule to the jobs of a task and a key that SQL enqueued."""
        yield from supersede.hold_key(self.words, name)
        moment = yield from self.words.moment(now)
        yield from supersede.judge(self.words, name, task, rule, from_micros(moment))

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

    def catch_up(self, job: int, now: datetime | None) -> Query[None]:
        """Wait for the transaction that has it, and do what was left."""
        moment = yield from self.words.moment(now)
        yield from limit_catch_up.catch_up(self.words, job, moment)

    def mend_limits(self, now: datetime | None) -> Query[None]:
        """Release blocked jobs for which there is room."""
        if (yield from limits.in_use()):
            moment = yield from self.words.moment(now)
            yield from limits.mend(self.words, moment)
