"""The application of the simulated fleet: handlers of all endings, and what they went through."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from mutirao import Dead, DeadJob, Job, Limit, Mutirao, Retry, Snooze
from mutirao.errors import StaleRun, StoreUnavailable
from mutirao.testing import MemoryStore
from tests.faults.simulation.faults import REFUSED
from tests.faults.simulation.world import World, here

RETRY = Retry.fixed(max_attempts=4, interval=0.5)
MOST = 3  # jobs of the limited task at once


@dataclass
class Story:
    """What was seen of the jobs: each start of a handler, and each end, by process."""

    world: World
    begun: dict[tuple[int, int], float] = field(default_factory=dict)  # of (job, run), when first
    starts: Counter[tuple[int, int]] = field(default_factory=Counter)
    running: dict[tuple[str, int, int], Job] = field(default_factory=dict)
    effects: Counter[int] = field(default_factory=Counter)  # of transactions that were committed
    lines: list[tuple[float, int | None, str]] = field(default_factory=list)
    on_begin: Callable[[Job], None] | None = None

    def note(self, text: str, job: int | None = None) -> None:
        """Note what happened, to one job or to all."""
        self.lines.append((self.world.now, job, text))

    def begin(self, job: Job, process: str) -> None:
        """Note that a handler was called."""
        run = job.id, job.run
        self.begun.setdefault(run, self.world.now)
        self.starts[run] += 1
        self.running[process, *run] = job
        self.note(f"run {job.run}, attempt {job.attempt} begins in {process}", job.id)
        if self.on_begin is not None:
            self.on_begin(job)

    def end(self, job: Job, process: str) -> None:
        """Note that it returned, or raised."""
        self.running.pop((process, job.id, job.run), None)
        self.note(f"run {job.run} ends in {process}", job.id)

    def forget(self, process: str) -> None:
        """Note that a process is gone with all that it ran."""
        for key in [key for key in self.running if key[0] == process]:
            del self.running[key]


def _process() -> str:
    return here().process.name


def application(  # noqa: C901 (one handler after the other)
    store: MemoryStore, story: Story, kill: Callable[[str], None]
) -> Mutirao:
    """Return the application. `kill` ends a process at once, by its name."""
    app = Mutirao(store=store)

    def noted(job: Job) -> Noted:
        return Noted(story, job, _process())

    @app.task(retry=RETRY)
    async def quick(job: Job) -> None:
        with noted(job):
            return

    @app.task(retry=RETRY)
    async def slow(job: Job, seconds: float) -> None:
        with noted(job):
            await asyncio.sleep(seconds)

    @app.task(retry=Retry.never())
    async def once(job: Job, seconds: float) -> None:
        with noted(job):
            await asyncio.sleep(seconds)

    @app.task(retry=RETRY)
    async def fails(job: Job, seconds: float) -> None:
        with noted(job):
            await asyncio.sleep(seconds)
            raise ValueError("as it does")

    @app.task(retry=RETRY)
    async def snoozes(job: Job) -> None:
        with noted(job):
            if job.run < 3:
                raise Snooze(1.0)

    @app.task(retry=RETRY)
    async def dies(job: Job) -> None:
        with noted(job):
            raise Dead("as it does")

    @dies.on_dead
    async def mourn(job: Job, dead: DeadJob) -> None:
        with noted(job):
            return

    @app.task(retry=RETRY, timeout=2.0)
    async def hangs(job: Job) -> None:
        with noted(job):
            await asyncio.Event().wait()

    @app.task(retry=RETRY, timeout=1.0)
    async def ignores(job: Job, seconds: float) -> None:
        """Go on though it is cancelled."""
        with noted(job):
            end = story.world.now + seconds
            while story.world.now < end:
                try:
                    await asyncio.sleep(end - story.world.now)
                except asyncio.CancelledError:
                    continue

    @app.task(retry=RETRY)
    async def commits(job: Job, seconds: float) -> None:
        with noted(job):
            await asyncio.sleep(seconds)
            try:
                async with job.transaction():
                    pass
                story.effects[job.id] += 1
            except StaleRun:
                story.note("its transaction was stale", job.id)
                raise

    @app.task(retry=RETRY)
    async def loses_connection(job: Job) -> None:
        with noted(job):
            if job.run < 4:
                raise StoreUnavailable("cut off")

    @app.task(retry=RETRY)
    async def unwritable(job: Job) -> None:
        with noted(job):
            raise ValueError(REFUSED)

    @app.task(retry=Retry.fixed(max_attempts=1_000, interval=0.5))
    async def kills(job: Job, seconds: float) -> None:
        """End the process, as a fault in C code does."""
        with noted(job):
            await asyncio.sleep(seconds)
            kill(_process())
            await asyncio.Event().wait()

    @app.task(retry=RETRY, limit=Limit(MOST))
    async def limited(job: Job, seconds: float) -> None:
        with noted(job):
            await asyncio.sleep(seconds)

    @app.task(retry=RETRY)
    async def tells(job: Job, seconds: float) -> None:
        with noted(job):
            for n in range(3):
                job.progress(n, of=3, note="\ud800")
                await asyncio.sleep(seconds / 3)

    return app


class Noted(AbstractContextManager[None]):
    """Notes the beginning and the end of a handler."""

    def __init__(self, story: Story, job: Job, process: str) -> None:
        self._story, self._job, self._process = story, job, process

    def __enter__(self) -> None:
        self._story.begin(self._job, self._process)

    def __exit__(self, *_: object) -> None:
        self._story.end(self._job, self._process)
