"""What is to happen: the options of a run, and the course of troubles that a seed stands for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from random import Random

from tests.faults.kit.databases import Database, Driver


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The options of a run. All lengths of time are seconds.

    Parameters:
        database: `mysql` is a MariaDB, `real-mysql` a MySQL.
        driver: of the workers on PostgreSQL.
        carried: RabbitMQ carries jobs, and is troubled, too.
        seed: which order of troubles, and which parameters of each.
        seconds: no trouble begins later than so long after the first.
        rounds: how often each trouble comes; 0 for as often as there is time.
        troubles: their names; none for all that this database and this machine have.
        workers: how many places there are for one.
        rate: jobs enqueued a second.
        heartbeat, expiry, poll, grace: of the workers.
        shortest: what a trouble lasts at least.
        longest: what it lasts at most.
        margin: what a recovery may take beyond expiry and poll.
        calm: between a recovery and the next trouble.
        late: in a calm no job waits for longer than this, and poll, while slots are free.
    """

    database: Database = "postgresql"
    driver: Driver = "psycopg"
    carried: bool = False
    seed: int = 1
    seconds: float = 1_800.0
    rounds: int = 0
    troubles: tuple[str, ...] = ()
    workers: int = 3
    rate: float = 50.0
    heartbeat: float = 2.0
    expiry: float = 8.0
    poll: float = 2.0
    grace: float = 30.0
    shortest: float = 5.0
    longest: float = 40.0
    margin: float = 5.0  # so 15 s in all
    calm: float = 7.0
    late: float = 5.0

    @property
    def limit(self) -> float:
        """Seconds within which everything has to be well again after a trouble."""
        return self.expiry + self.poll + self.margin


class Lasts(Enum):
    """How long a trouble goes on."""

    AT_ONCE = auto()  # it is over as soon as it has come
    A_WHILE = auto()  # as the plan says
    PAST_EXPIRY = auto()  # until the worker it meets is taken for gone


@dataclass(frozen=True)
class Event:
    """One trouble of a course.

    Parameters:
        number: its place in the course, from 0.
        turn: how often this trouble has come before.
        chosen: what the trouble draws its parameters from.
    """

    number: int
    name: str
    turn: int
    chosen: Random

    def seconds(self, lasts: Lasts, plan: Plan) -> float:
        """Return how long this one lasts."""
        share = Random(f"{plan.seed} {self.number} seconds").random()
        if lasts is Lasts.AT_ONCE:
            return 0.0
        if lasts is Lasts.PAST_EXPIRY:
            return plan.expiry * (1.5 + share)
        return plan.shortest + share * (plan.longest - plan.shortest)


def course(seed: int, names: Sequence[str], rounds: int = 0) -> Iterator[Event]:
    """Yield troubles in a random order that the seed decides, each once a round; 0: for ever.

    What is drawn depends on the seed and the place in the course only, never on what happens.
    """
    order, turns, number = Random(seed), Counter[str](), 0
    done = 0
    while not rounds or done < rounds:
        for name in order.sample(sorted(names), k=len(names)):
            yield Event(number, name, turns[name], Random(f"{seed} {number}"))
            turns[name] += 1
            number += 1
        done += 1
