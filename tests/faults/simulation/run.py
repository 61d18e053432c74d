"""One run: a fleet, its jobs, the faults that a seed chooses, and what must hold all the while."""

from __future__ import annotations

import gc
import logging
import random
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from mutirao.model.jobs import lost_workers
from mutirao.model.jobs.expiry import expiring
from mutirao.model.jobs.job import FINAL_OUTCOMES, NewJob
from tests.faults.simulation.features import Features
from tests.faults.simulation.fleet import SETTINGS, Fleet, patched
from tests.faults.simulation.jobs import MOST
from tests.faults.simulation.store import Live
from tests.faults.simulation.world import BEGINNING, World
from tests.support.engine import LOST_RUNS_OF_SUSPECT

TROUBLED = 20.0  # seconds of virtual time in which things go wrong
LAST = TROUBLED + 5  # seconds: when the last job may be enqueued
# After the last trouble a job that is due starts within this: a call that hangs, the longest wait
# between two tries, a worker that vanished and one that has to be started first.
BOUND = SETTINGS.call_limit + SETTINGS.longest_wait + 2 * SETTINGS.expiry + 2 * SETTINGS.poll + 4.0
COMPANY = 2.0  # seconds between jobs that are enqueued beside one which nobody can read
LOOK = 0.5  # seconds between looks
END = 400.0  # seconds: what has not ended by then never will
MOST_TROUBLES = 8
WANTED = 0.9  # seconds: jobs that take longer are wanted for as long as they take
TROUBLES = [
    "_away",
    "_silence",
    "_kill",
    "_freeze",
    "_stop",
    "_lock",
    "_jump",
    "_kill",
    "_freeze",
    "_spoil",
]

KINDS: dict[str, tuple[float, bool]] = {  # how often, and whether it takes a time
    "quick": (6, False),
    "slow": (6, True),
    "once": (6, True),
    "fails": (2, True),
    "snoozes": (2, False),
    "dies": (1, False),
    "hangs": (1, False),
    "ignores": (1, True),
    "commits": (5, True),
    "loses_connection": (1, False),
    "unwritable": (1, False),
    "kills": (0.4, True),
    "limited": (4, True),
    "tells": (2, True),
    "keyed": (4, True),
    "activity": (3, True),
    "turn": (2, False),
    "graph": (1.5, False),
}


@dataclass
class Result:
    """What a run found."""

    seed: int
    problems: list[str] = field(default_factory=list)
    longest: float = 0.0  # virtual seconds from due to start, once the faults had ended
    turns: int = 0
    jobs: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    story: list[tuple[float, int | None, str]] = field(default_factory=list)


class Run:
    """The run of one seed."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self._random = self.world.random
        self.fleet = Fleet(self.world, self._random.choice((2, 2, 3, 3, 4, 6)))
        if self._random.random() < 0.03:
            self.fleet.size = self._random.randint(7, 20)
        self.result = Result(seed)
        self._number = self._random.randint(10, 40)
        self._noted: set[int] = set()
        self._due_since: dict[int, tuple[datetime, float]] = {}  # (its time, first seen at)
        self._troubles = self._random.randint(0, MOST_TROUBLES)
        ticking = self._random.random() < 0.12
        self._features = Features(self.fleet, ticking=ticking, last=LAST)

    def carry_out(self) -> Result:
        """Let it happen; return what was found."""
        self.fleet.start()
        self._plan_jobs()
        self._plan_troubles()
        while self.world.now < END and not self.result.problems:
            self.world.run(self.world.now + LOOK)
            self._look()
            if self.world.now > LAST and not self._unfinished():
                break
        if not self.result.problems:
            self._audit()
        return self._complete()

    def _plan_jobs(self) -> None:
        names, weights = list(KINDS), [often for often, _ in KINDS.values()]
        for _ in range(self._number):
            kind = self._random.choices(names, weights)[0]
            at = self._random.uniform(0, LAST)
            self.world.at(at, partial(self._enqueue, kind))

    def _enqueue(self, kind: str) -> None:
        seconds, features = round(self._random.expovariate(1 / 0.7), 3), self._features
        if kind == "keyed":
            features.enqueue_keyed(seconds)
        elif kind == "activity":
            features.enqueue_activity(seconds)
        elif kind == "turn":
            features.enqueue_turn()
        elif kind == "graph":
            self.result.jobs += features.enqueue_graph() - 1
        else:
            self._enqueue_plain(kind, seconds)
        self.result.jobs += 1

    def _enqueue_plain(self, kind: str, seconds: float) -> None:
        args = f'{{"seconds":{seconds}}}' if KINDS[kind][1] else "{}"
        # Some are not wanted for long: as chance has it already, so that no seed's story changes.
        ends = kind in ("slow", "once") and seconds > WANTED
        until = self.world.moment() + timedelta(seconds=seconds)
        metadata = expiring({}, until) if ends else {}
        self.fleet.enqueue([NewJob(task=kind, args=args, metadata=metadata)])

    def _plan_troubles(self) -> None:
        weather, world = self.fleet.weather, self.world
        weather.share = self._random.choice((0.0, 0.02, 0.1, 0.3))
        if not weather.share and not self._troubles:
            world.at(5.0, self._features.enqueue_crowd)
        for _ in range(self._troubles):
            trouble = getattr(self, self._random.choice(TROUBLES))
            world.at(self._random.uniform(0, TROUBLED), trouble)
        world.at(TROUBLED, self._calm)

    def _calm(self) -> None:
        self.fleet.story.note("the faults end")
        weather = self.fleet.weather
        weather.share, weather.away_until, weather.silent_until = 0.0, 0.0, 0.0
        weather.locked.clear()
        for process in self.fleet.living():
            process.frozen_until = min(process.frozen_until, self.world.now)

    def _away(self) -> None:
        self.fleet.story.note("the database goes away")
        self.fleet.weather.away_until = self.world.now + self._random.uniform(0, 8)

    def _silence(self) -> None:
        self.fleet.story.note("the database falls silent")
        self.fleet.weather.silent_until = self.world.now + self._random.uniform(0, 8)

    def _kill(self) -> None:
        if living := self.fleet.living():
            self.fleet.kill(self._random.choice(living))

    def _freeze(self) -> None:
        if living := self.fleet.living():
            self.fleet.freeze(self._random.choice(living), self._random.uniform(0, 8))

    def _stop(self) -> None:
        if living := self.fleet.living():
            process = self._random.choice(living)
            self.fleet.terminate(process)
            if self._random.random() < 0.5:  # twice
                self.world.after(self._random.uniform(0, 1), partial(self.fleet.hurry, process))

    def _lock(self) -> None:
        if live := [*self._live()]:
            locked = self._random.choice(live)
            self.fleet.story.note("its row is locked", locked)
            self.fleet.weather.locked.add(locked)

    def _spoil(self) -> None:
        """No claim's answer that has this job can be read from now on, whoever claims it."""
        live = self._live()
        if waiting := [id for id, job in live.items() if job.worker is None]:
            spoilt = self._random.choice(waiting)
            self.fleet.story.note("its row is spoilt", spoilt)
            self.fleet.weather.unreadable.add(spoilt)
            self._keep_company(spoilt)

    def _keep_company(self, spoilt: int) -> None:
        """Enqueue others now and then: what cannot be read is buried where others can be."""
        if spoilt in self._live():
            self._enqueue_plain("quick", 0.0)
            self.result.jobs += 1
            self.world.after(COMPANY, partial(self._keep_company, spoilt))

    def _jump(self) -> None:
        if living := self.fleet.living():
            self._random.choice(living).clock_is_off = self._random.uniform(-600, 600)

    # What must hold at any time.

    def _live(self) -> dict[int, Live]:
        return self.fleet.store.live()

    def _unfinished(self) -> bool:
        if self._features.waits_for_ticks():
            return True
        live = {*self._live()}
        return bool(live and live - self._features.stopped())

    def _look(self) -> None:
        self._look_at_lateness()
        self._look_at_limits()
        for problem in self._features.found:
            self._found(*problem)

    def _look_at_lateness(self) -> None:
        """Once the faults have ended, what is due starts soon, whatever has happened before."""
        now, claimed_late = self.world.now, self.fleet.weather.claimed_late
        live = self._live() if now > TROUBLED else {}
        for id, job in live.items():
            due = self._due(id, job)
            late = now - max(due, claimed_late.get(id, 0.0))
            lost = lost_workers.read(job.lost).workers
            may_wait = lost >= LOST_RUNS_OF_SUSPECT or self._waits_in_turn(job.task)
            begun = job.worker is not None and (id, job.run) in self.fleet.story.starts
            if id in self.fleet.weather.unreadable:
                continue
            if not begun and late > BOUND and not may_wait:
                self._found(f"job {id} is due for {late:.1f} s and does not start", id)
        self._note_lateness()

    def _due(self, id: int, job: Live) -> float:
        """Return since when it is due, and does not wait for another one, at the earliest."""
        known, since = self._due_since.get(id, (None, 0.0))
        if known != job.run_at:
            since = max(self.world.now - LOOK, TROUBLED)
            self._due_since[id] = job.run_at, since
        return max((job.run_at - BEGINNING).total_seconds(), since)

    def _note_lateness(self) -> None:
        """Remember how long a job had to wait for its first start after the faults."""
        begun = self.fleet.story.begun.items()
        new = [(id, at) for (id, _), at in begun if at > TROUBLED and id not in self._noted]
        jobs = self.fleet.store.asked() if new else {}
        steps = self._features.steps() if new else set()
        for id, at in new:
            if id not in self._noted:
                self._noted.add(id)
                task, enqueued_at = jobs[id]
                due = (enqueued_at - BEGINNING).total_seconds()
                first = all(began >= at for (job, _), began in begun if job == id)
                if first and id not in steps and not self._waits_in_turn(task):
                    self.result.longest = max(self.result.longest, at - max(due, TROUBLED))

    def _waits_in_turn(self, task: str) -> bool:
        """Whether it waits for a limit, which the others of its kind may need for longer."""
        return task in ("limited", "keyed", "activity")

    def _look_at_limits(self) -> None:
        """Not more handlers at once whose runs are still theirs."""
        running = self.fleet.story.running.items()
        limited = [(id, run) for (_, id, run), job in running if job.task == "limited"]
        live = self._live() if len(limited) > MOST else {}
        held = [
            run
            for id, run in limited
            if id in live and live[id].run == run and live[id].worker is not None
        ]
        if len(held) > MOST:
            self._found(f"{len(held)} limited jobs run at once: {held}")

    # What must hold in the end.

    def _audit(self) -> None:
        self._audit_attempts()
        self._audit_executions()
        self._look_at_slots()
        for problem in [] if self.result.problems else self._features.audit():
            self._found(*problem)
        for complaint in self.world.complaints:
            self._found(f"an event loop complains: {complaint}")

    def _audit_attempts(self) -> None:
        live, attempts = self._live(), self.fleet.store.attempts()
        effects = self.fleet.story.effects
        stopped = self._features.stopped()
        for id in self.fleet.store.asked():
            finals = [outcome for _, outcome in attempts[id] if outcome in FINAL_OUTCOMES]
            if id in live:
                if id not in stopped:
                    self._found(f"job {id} never ended", id)
            elif len(finals) != 1:
                self._found(f"job {id} has {len(finals)} final attempts", id)
            if effects[id] > 1:
                self._found(f"job {id} was committed {effects[id]} times", id)

    def _audit_executions(self) -> None:
        attempts = self.fleet.store.attempts()
        for (id, run), times in self.fleet.story.starts.items():
            if all(ended != run for ended, _ in attempts[id]):
                self._found(f"run {run} of job {id} was begun and left no attempt", id)
            if times > 1:
                self._found(f"run {run} of job {id} was begun {times} times", id)

    def _look_at_slots(self) -> None:
        end = self.world.now + 15.0  # what ignores its cancellation has ended by then
        while self._slots_without_handlers() and self.world.now < end:
            self.world.run(self.world.now + LOOK)
        for problem in self._slots_without_handlers():
            self._found(problem)

    def _slots_without_handlers(self) -> list[str]:
        found = list[str]()
        for name, (_, worker) in self.fleet.workers.items():
            dispatcher = worker._dispatcher
            if dispatcher._running or worker._shared.slots.stuck:
                found.append(f"{name} has slots without handlers: {dispatcher._running}")
            if worker._completer.unsettled:
                found.append(f"{name} has {worker._completer.unsettled} outcomes unwritten")
            if not worker.health().alive:
                found.append(f"{name} is not well: {worker.health().reason}")
        return found

    def _found(self, problem: str, job: int | None = None) -> None:
        self.result.problems.append(problem)
        self.fleet.story.note(f"FOUND: {problem}", job)

    def _complete(self) -> Result:
        result = self.result
        result.turns, result.story = self.world.turns, self.fleet.story.lines
        result.failures = Counter(self.fleet.failures)
        return result


def simulate(seed: int, *, log: bool = False) -> Result:
    """Run one seed. `log`: show what the workers say."""
    with contained(log=log):
        return _lived_through(seed)


def simulate_without_story(seed: int) -> Result:
    """Run one seed, in a process of a pool: Python 3.14 hands it no function of `__main__`."""
    result = simulate(seed)
    result.story = []
    return result


@contextmanager
def contained(*, log: bool = False) -> Iterator[None]:
    """Keep what a world leaves behind from running, and from complaining, in what comes later."""
    logger = logging.getLogger("mutirao")
    before, logger.disabled = logger.disabled, not log
    hook = sys.unraisablehook
    was_frozen = gc.get_freeze_count() > 0
    gc.disable()  # nobody's code is to run when something is collected
    gc.freeze()  # and then only what is of this world is looked at
    try:
        yield
    finally:
        sys.unraisablehook = _ignore
        gc.enable()
        for _ in range(4):  # what is closed leaves more behind
            gc.collect()
        if not was_frozen:
            gc.unfreeze()
        logger.disabled, sys.unraisablehook = before, hook


def _lived_through(seed: int) -> Result:
    random.seed(seed)  # back-offs
    run = Run(seed)
    patch = patched(run.world)
    try:
        return run.carry_out()
    finally:
        logging.getLogger("mutirao").disabled = True
        for process in [*run.world.processes]:
            run.world.bury(process)
        run.fleet.store.discard()
        patch.undo()


def _ignore(_: object) -> None:
    """What is left of a world complains that it was not awaited."""
