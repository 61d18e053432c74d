"""One chaos run: jobs are enqueued, workers set to work and disturbed, and the tables audited."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine, NullPool, create_engine
from sqlalchemy.exc import OperationalError

from mutirao import Mutirao
from mutirao.model.jobs.job import OutcomeKind
from mutirao.sql import migrations
from mutirao.sql.schema.tables import live
from tests.faults.chaos import app, blows, messages, told
from tests.faults.chaos.aside import OneByOne
from tests.faults.chaos.audit import audit
from tests.faults.chaos.blows import Blows
from tests.faults.chaos.crew import ChaosCrew
from tests.faults.chaos.messages import Messages
from tests.faults.kit.broker import Broker, broker_on
from tests.faults.kit.crew import at_work
from tests.faults.kit.databases import Database, server_of
from tests.faults.kit.program import Say
from tests.faults.kit.reading import count_of
from tests.faults.kit.timer import Stillness, Timer
from tests.support.rabbitmq import RabbitServer
from tests.support.servers import PrivateServer

QUIET = 3.0  # seconds without an effect, after which a broker may have nothing left
SOME_WORK = 50  # effects


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to happen. All times are seconds.

    Parameters:
        database: `mysql` is a MariaDB, `real-mysql` a MySQL.
        jobs: how many, those that are enqueued by others included.
        pause: the most that a job waits before it writes.
        workers: how many run at a time.
        kill_every: between two kills; 0 for none.
        freeze_every: between two workers suspended for longer than their expiry; 0 for none.
        restarts: crashes of the server, spread over the run: the broker's where there is one.
        publications: how often something is published.
        subscriptions: how many are told of each publication.
        carried: RabbitMQ carries the jobs, and is what is troubled.
        inbox: messages by broker alone whose handler asks the inbox.
        alone: messages by broker alone whose handler does not ask it.
        purges: how often all queues of a broker are purged.
        cuts: how often its network is cut.
        cut_for: how long each cut lasts.
        deadline: when to give up.
    """

    database: Database = "postgresql"
    jobs: int = 20_000
    workers: int = 4
    pause: float = 0.02
    kill_every: float = 2.0
    freeze_every: float = 5.0
    restarts: int = 2
    deadline: float = 300.0
    publications: int = 0
    subscriptions: int = 20
    carried: bool = False
    inbox: int = 0
    alone: int = 0
    purges: int = 1
    cuts: int = 1
    cut_for: float = 10.0

    @property
    def effects(self) -> int:
        """How many rows there are to be."""
        return self.jobs + self.publications * self.subscriptions + self.inbox + self.alone

    @property
    def has_broker(self) -> bool:
        """Whether there is a broker; then that is what is troubled, not the database."""
        return self.carried or self.inbox > 0 or self.alone > 0

    def __post_init__(self) -> None:
        if self.database == "sqlite" and self.restarts and not self.has_broker:
            raise ValueError(f"SQLite has no server to crash; give restarts=0, not {self.restarts}")


@dataclass(frozen=True, kw_only=True)
class Report:
    """What happened, and what is not as promised; nothing if the promise held."""

    problems: list[str]
    seconds: float
    jobs: int
    kills: int
    freezes: int
    dealt: Counter[str]
    outcomes: Counter[OutcomeKind]
    stale: int
    counts: list[messages.Count]

    def lines(self) -> Iterator[str]:
        """Yield the figures, one a line."""
        yield f"{self.seconds:10.1f} seconds, {self.jobs / self.seconds:,.0f} jobs a second"
        yield f"{self.kills:10,} workers killed and replaced"
        yield f"{self.freezes:10,} workers suspended for longer than their expiry"
        for blow, times in self.dealt.items():
            yield f"{times:10,} {blow}"
        for outcome in OutcomeKind:
            yield f"{self.outcomes[outcome]:10,} attempts {outcome}"
        yield f"{self.stale:10,} stale runs rejected"
        for count in self.counts:
            yield f"{count.published:10,} messages of {count.queue}, by broker alone"
            yield f"{count.purged:10,} at most thrown away by a purge, {count.again:,} sent again"
            yield f"{count.dropped:10,} repetitions dropped by the inbox"
            yield f"{count.repetitions:10,} effects that were repeated"


def run(
    plan: Plan, say: Say, logs: Path | None = None, rabbit: RabbitServer | None = None
) -> Report:
    """Carry out a plan.

    `say` is called with lines that tell how far it is. What the workers say goes to files in the
    directory `logs`, or is thrown away at the end. `rabbit`: the node to use where there is to be a
    broker; None: one is started.
    """
    with tempfile.TemporaryDirectory(prefix="mutirao-chaos-") as name, ExitStack() as stack:
        url, server = stack.enter_context(_database(plan, name))
        broker = _broker(plan, rabbit, stack)
        broker_url = None if broker is None else broker.url
        engine = create_engine(url, poolclass=NullPool)
        _prepare(engine, url, plan)
        counts = {app.INBOX: plan.inbox, app.ALONE: plan.alone}
        sent = stack.enter_context(messages.messages_of(url, broker_url, counts, plan.pause))
        sent.publish_ahead()
        say(f"{plan.effects:,} effects, {plan.workers} workers, {plan.database}")
        with at_work(ChaosCrew(url, logs or Path(name), broker_url), plan.workers) as workers:
            chaos = Chaos(plan, engine, workers, _blows(plan, server, broker), broker, sent, say)
            chaos.endure()
            workers.stop()
        with engine.connect() as connection:
            findings = audit(connection, plan.jobs)
            untold = [*told.audit(connection, plan.publications, plan.subscriptions)]
            purged = {} if broker is None else broker.purged
            counted = [*sent.counted(connection, purged, chaos.held)]
        flaws = [flaw for count in counted for flaw in count.flaws()]
        if broker is not None:
            for name in app.QUEUES:
                flaws += [f"a message of {name} died of {why}" for why in broker.dead(name)]
        return Report(
            problems=[*findings.problems, *untold, *flaws, *workers.problems],
            seconds=chaos.seconds,
            jobs=plan.effects,
            kills=workers.kills,
            freezes=workers.freezes,
            dealt=chaos.blows.dealt,
            outcomes=findings.outcomes,
            stale=len(workers.rejected()),
            counts=counted,
        )


class Chaos:
    """What disturbs the workers until no job is left, or the deadline has passed."""

    def __init__(
        self,
        plan: Plan,
        engine: Engine,
        workers: ChaosCrew,
        blows: Blows,
        broker: Broker | None,
        sent: Messages,
        say: Say,
    ) -> None:
        self._plan, self._engine, self._workers, self.blows = plan, engine, workers, blows
        self._broker, self._sent, self._say = broker, sent, say
        self._rows, self._unfinished = 0, plan.effects
        self._rows_at_kill = 0
        self._still = Stillness(QUIET)
        self._asking = OneByOne()
        self.held: Mapping[str, int] = {}  # by the broker, when it was asked last, by queue
        self.seconds = 0.0

    def endure(self) -> None:
        """Disturb them; return when all jobs are finished."""
        plan, workers = self._plan, self._workers
        kill, freeze, tell = (Timer(each) for each in (plan.kill_every, plan.freeze_every, 2.0))
        started = time.monotonic()
        with ThreadPoolExecutor(3) as helper:
            self._sent.go_on(helper)
            while not self._is_done() and self.seconds < plan.deadline:
                time.sleep(0.1)
                self.seconds = time.monotonic() - started
                self._look()
                self.blows.deal_when_due(self._rows / plan.effects, helper)
                workers.replace_ended()
                if self._some_work_was_done() and kill.rang():
                    self._rows_at_kill = self._rows
                    workers.kill_oldest()
                if freeze.rang():
                    workers.freeze_one()
                workers.thaw(now=time.monotonic())
                self._publish_what_was_purged(helper)
                if tell.rang():
                    self._print_state()
            self._sent.give_up()
        self.blows.wait()
        self._asking.wait()

    def _some_work_was_done(self) -> bool:
        """Tell whether it was, since the last kill: a slow machine starts workers slowly."""
        return self._rows - self._rows_at_kill >= min(SOME_WORK, self._plan.effects // 20)

    def _look(self) -> None:
        try:
            with self._engine.connect() as connection:
                rows = sum(count_of(connection, each) for each in (app.rows, app.told, app.taken))
                missing = self._sent.missing(connection)
                self._rows, self._unfinished = rows, count_of(connection, live) + missing
        except OperationalError:
            return  # the server is away, as it shall be: what was counted last still stands

    def _is_done(self) -> bool:
        """Tell whether all has happened, and no repetition waits at the broker."""
        return not self._unfinished and self.blows.over and self._nothing_is_held()

    def _nothing_is_held(self) -> bool:
        """Ask the broker, if there is one, what it holds. Takes a second or two."""
        if self._broker is not None:
            self.held = self._broker.held()
        return not any(self.held.values())

    def _publish_what_was_purged(self, helper: ThreadPoolExecutor) -> None:
        """Once nothing happens any more, and the broker holds nothing: nobody else would."""
        if self._broker is None or not self._broker.purged.total():
            return
        at_rest = self._still.rang(self._rows) and self._sent.published and self.blows.free
        if self._asking.free and at_rest:
            self._asking.do(self._publish_again, helper)

    def _publish_again(self) -> None:
        if self._nothing_is_held():
            with self._engine.connect() as connection:
                self._sent.publish_again(connection)

    def _print_state(self) -> None:
        blows = ", ".join(f"{times} {name}" for name, times in self.blows.dealt.items())
        self._say(
            f"{self.seconds:6.1f} s: {self._rows:,} rows, {self._unfinished:,} jobs unfinished,"
            f" {self._workers.kills} kills{', ' if blows else ''}{blows}"
        )


def _broker(plan: Plan, rabbit: RabbitServer | None, stack: ExitStack) -> Broker | None:
    if not plan.has_broker:
        return None
    server = rabbit if rabbit is not None else stack.enter_context(RabbitServer())
    return stack.enter_context(broker_on(server, app.PREFIX, app.QUEUES))


def _blows(plan: Plan, server: PrivateServer | None, broker: Broker | None) -> Blows:
    if broker is None:
        return Blows(blows.of_server(server, plan.restarts))
    purges, cuts, seconds = plan.purges, plan.cuts, plan.cut_for
    dealt = blows.of_broker(
        broker, crashes=plan.restarts, purges=purges, cuts=cuts, cut_for=seconds
    )
    return Blows(dealt)


def _prepare(engine: Engine, url: str, plan: Plan) -> None:
    migrations.upgrade(url)
    app.metadata.create_all(engine)
    with closing(Mutirao(url)) as application:
        application.enqueue_many(app.first_jobs(plan.jobs, plan.pause))
        told.publish(application, plan.publications, plan.subscriptions, plan.pause)


@contextmanager
def _database(plan: Plan, directory: str) -> Iterator[tuple[str, PrivateServer | None]]:
    """Lend the URL of an empty database, and its server, if it has one."""
    if plan.database == "sqlite":
        yield f"sqlite:///{directory}/chaos.db", None
        return
    with server_of(plan.database) as server:
        yield server.url(server.create_database()), server
