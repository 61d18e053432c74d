"""One ordeal: a database, workers, a producer, and troubles one after another."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic

from sqlalchemy import func, select

from mutirao.sql.schema.tables import job, live
from tests.faults.kit.program import Say
from tests.faults.kit.reading import AWAY, Reader
from tests.faults.kit.timer import Timer
from tests.faults.ordeal import recovery
from tests.faults.ordeal.findings import Findings
from tests.faults.ordeal.fleet import Fleet
from tests.faults.ordeal.inspector import Inspector
from tests.faults.ordeal.journal import Journal
from tests.faults.ordeal.network import NETWORK
from tests.faults.ordeal.plan import Event, Plan, course
from tests.faults.ordeal.producer import Producer
from tests.faults.ordeal.report import Passed, Report
from tests.faults.ordeal.stages import Stage, may_mount, staged
from tests.faults.ordeal.troubles import WORKERS, Scene, Trouble
from tests.faults.ordeal.troubles_broker import BROKER
from tests.faults.ordeal.troubles_mysql import MYSQL
from tests.faults.ordeal.troubles_postgresql import POSTGRESQL
from tests.faults.ordeal.troubles_server import SERVERS
from tests.faults.ordeal.troubles_sqlite import SQLITE
from tests.faults.ordeal.vigil import Vigil

ON_POSTGRESQL = {**SERVERS, **POSTGRESQL, **NETWORK}
ON_MYSQL = {**SERVERS, **MYSQL, **NETWORK}
CHECK = 10.0  # seconds between two checks of all promises
SUPERVISE = 0.1  # seconds between two looks at the processes
STACKS = 2.0  # seconds in which a process can say where it is
SLOTS = 20  # of a worker, unless told otherwise
PATIENCE = 2  # so many times the limit a recovery is waited for before workers are killed


def troubles_of(plan: Plan) -> Mapping[str, Trouble]:
    """Return the troubles that this database can have on this machine."""
    of_database = {"postgresql": ON_POSTGRESQL, "sqlite": SQLITE}.get(plan.database, ON_MYSQL)
    found = {**WORKERS, **of_database, **(BROKER if plan.carried else {})}
    return {name: each for name, each in found.items() if name not in left_out(plan)}


def left_out(plan: Plan) -> Mapping[str, str]:
    """Return the troubles that the database could have on another machine, and why not here."""
    if plan.database == "sqlite" and not may_mount():
        return {"full-disk": "this user may not mount a small disk"}
    return {}


def run(plan: Plan, say: Say, logs: Path | None = None) -> Report:
    """Carry out a plan; return what happened.

    `say` is called with lines that tell how far it is. What the workers say goes to files in the
    directory `logs`, or is thrown away at the end.
    """
    known = troubles_of(plan)
    names = plan.troubles or tuple(known)
    if unknown := set(names) - set(known):
        raise ValueError(f"no such troubles here: {unknown}; there are: {', '.join(sorted(known))}")
    with (
        tempfile.TemporaryDirectory(prefix="mutirao-ordeal-") as directory,
        staged(plan, Path(directory), names) as stage,
    ):
        os.chmod(directory, 0o755)  # noqa: S103 (nothing in it is secret)
        plan = replace(plan, troubles=names)
        with closing(Ordeal(plan, stage, Path(directory), logs or Path(directory), say)) as ordeal:
            if "clock" in names:
                everywhere = plan.database == "sqlite"
                first = 0 if everywhere else plan.workers - 1
                ordeal.fleet.can_set_clocks(set(range(first, plan.workers)))
            return ordeal.endure([known[name] for name in names])


class Ordeal:
    """Everything that takes part in a run."""

    def __init__(self, plan: Plan, stage: Stage, directory: Path, logs: Path, say: Say) -> None:
        self._plan, self._stage = plan, stage
        self._started = monotonic()
        self._out = say
        self.findings = Findings(self._say)
        broker = "" if stage.broker is None else stage.broker.url
        self.fleet = Fleet(plan, stage.worker_url, broker, directory, logs, self.findings)
        self._reader = Reader(stage.own_url)
        self._journal = Journal(self.fleet.notes)
        self._producer = Producer(plan, stage.own_url)
        self._inspector = Inspector(
            self._reader,
            self._journal,
            self._producer,
            self.findings,
            trusted=plan.database != "sqlite" or "clock" not in plan.troubles,
        )
        self.close = self._reader.close
        self._threads: list[Future[None]] = []
        self._vigil = Vigil(plan)
        self._report = Report()

    def endure(self, troubles: Sequence[Trouble]) -> Report:
        """Go through the troubles, and return what came of it."""
        plan, by_name = self._plan, {each.name: each for each in troubles}
        self._say(f"seed {plan.seed}, {self._named()}: {', '.join(sorted(by_name))}")
        for name, why in left_out(plan).items():
            self._say(f"{name} is left out: {why}")
        with self._at_work():
            self._recover("start", monotonic(), 0.0)
            began = monotonic()
            for event in course(plan.seed, tuple(by_name), plan.rounds):
                if not plan.rounds and monotonic() - began > plan.seconds:
                    break
                self._meet(by_name[event.name], event)
            self.findings.trouble = "end"
            self._producer.stop()
            self._drain()
            self.fleet.stop()
        self._inspector.look_back()
        return self._finished_report()

    def _say(self, text: str) -> None:
        self._out(f"{monotonic() - self._started:7.1f} s  {text}")

    def _named(self) -> str:
        plan = self._plan
        driver = f" ({plan.driver})" if plan.database == "postgresql" else ""
        carried = ", carried by RabbitMQ" if plan.carried else ""
        return f"{plan.workers} workers on {plan.database}{driver}{carried}, {plan.rate:g} jobs/s"

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        over = threading.Event()
        with ThreadPoolExecutor(2) as threads:
            try:
                self.fleet.start()
                self._producer.start()
                loops = (self._supervise, self._inspect)
                self._threads = [threads.submit(each, over) for each in loops]
                yield
            finally:
                over.set()
                self._producer.stop()
                self.fleet.abandon()
        for thread in self._threads:
            thread.result()

    def _supervise(self, over: threading.Event) -> None:
        while not over.wait(SUPERVISE):
            self.fleet.supervise()

    def _inspect(self, over: threading.Event) -> None:
        timer = Timer(CHECK)
        while not over.wait(SUPERVISE):
            if timer.rang():
                self._inspector.look()

    # Troubles.

    def _meet(self, trouble: Trouble, event: Event) -> None:
        plan = self._plan
        for thread in self._threads:
            if thread.done():
                thread.result()
        seconds = event.seconds(trouble.lasts, plan)
        self.findings.trouble = trouble.name
        began = monotonic()
        with trouble.act(Scene(self._stage, self.fleet, plan), event) as told:
            self._say(f"{event.number}. {trouble.name}: {told}; {seconds:.1f} s")
            time.sleep(seconds)
        ended = monotonic()
        self._journal.read()
        during = self._journal.begun_between(began, ended)
        found = self._recover(trouble.name, ended, trouble.allowance)
        self._report.passed.append(Passed(trouble.name, told, ended - began, during, found))
        self._say(f"{during} jobs began during it; {found} (load {os.getloadavg()[0]:.1f})")
        self._keep_calm()

    def _recover(self, name: str, since: float, allowance: float) -> recovery.Recovery:
        """Wait until all is well. What is not in time is told, and in the end killed."""
        limit = self._plan.limit + allowance
        watch = recovery.Watch(self._reader, self._journal, self.fleet, since)
        if watch.wait(limit):
            return watch.recovery
        self.findings.add(
            f"after {limit:g} s not all is well: {watch.recovery};"
            f" {len(watch.recovery.waiting)} jobs wait: {watch.describe()}"
            f" (load {os.getloadavg()[0]:.1f})",
            about=("unwell", name, since),
        )
        if not watch.wait(PATIENCE * limit):
            self._start_afresh(watch)
        return watch.recovery

    def _start_afresh(self, watch: recovery.Watch) -> None:
        """Kill all workers: what comes next is to meet healthy ones. Logs get their stacks."""
        self.fleet.find_undead()
        for place in self.fleet.places():
            self.fleet.ask_where(place)
        time.sleep(STACKS)
        for place in self.fleet.places():
            self._say(f"worker {place} is killed; it said last: {self.fleet.last_words(place)}")
            self.fleet.kill(place)
        again = recovery.Watch(self._reader, self._journal, self.fleet, monotonic())
        if not again.wait(self._plan.limit):
            self.findings.add(
                f"even new workers do not make all well: {again.recovery};"
                f" {len(again.recovery.waiting)} jobs wait: {again.describe()}"
            )

    def _keep_calm(self) -> None:
        """Let nothing happen for a while; then nobody may be idle while there is work."""
        plan = self._plan
        time.sleep(plan.calm)
        try:
            with self._reader.snapshot() as connection:
                slots = SLOTS * len(self.fleet.running())
                idle = recovery.idle(connection, plan.poll + plan.late, slots)
                unregistered = recovery.unregistered(connection, self.fleet)
        except AWAY as error:
            self.findings.add(f"the database cannot be read in a calm: {error}")
            return
        for text in (*idle, *unregistered):
            self.findings.add(text)
        self._inspector.look()  # what is found later is the next one's
        self._vigil.look(self.fleet, len(self._stage.workers_sessions()))

    # The end.

    def _drain(self) -> None:
        """Wait until all jobs that are there now have ended."""
        with self._reader.snapshot() as connection:
            last = connection.scalar(select(func.max(job.c.id))) or 0
        deadline = monotonic() + PATIENCE * self._plan.limit
        left = select(live.c.id).where(live.c.id <= last).order_by(live.c.id)
        while True:
            with self._reader.snapshot() as connection:
                ids = connection.scalars(left).all()
            if not ids:
                return
            if monotonic() > deadline:
                self.findings.add(f"{len(ids)} jobs have not ended in the end: {ids[:10]}")
                return
            time.sleep(SUPERVISE)

    def _finished_report(self) -> Report:
        report = self._report
        if (broker := self._stage.broker) is not None:
            self._say(f"{broker.purged.total():,} messages of the broker were deleted")
        for problem in self._vigil.problems():
            self.findings.add(problem)
        report.jobs, report.attempts, report.effects = self._inspector.counts()
        report.findings, report.endings = self.findings.all, self.fleet.endings
        report.measures = list(self._vigil.lines())
        report.executions = len(self._journal.all())
        report.looks, report.put_off = self._inspector.looks, self._inspector.put_off
        report.failures = self._producer.failures
        report.seconds = monotonic() - self._started
        return report
