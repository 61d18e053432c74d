"""The workers, who starts them again, and what happens to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import pytest

import mutirao.engine
import mutirao.sql.dialects.sqlite
from mutirao import Graph, Job, Mutirao
from mutirao.client.graphs import GraphHandle
from mutirao.engine.claiming import producer
from mutirao.engine.dispatch import executor
from mutirao.engine.liveness.heartbeat import Heartbeat
from mutirao.engine.settings import WorkerSettings
from mutirao.engine.workers.app_declarations import AppDeclarations
from mutirao.engine.workers.database import Worker
from mutirao.model.jobs.job import NewJob, Wake
from tests.faults.simulation.faults import Handle, Weather
from tests.faults.simulation.jobs import Noted, Story, application
from tests.faults.simulation.store import FleetStore
from tests.faults.simulation.world import Loop, Process, World, here

SETTINGS = WorkerSettings(
    heartbeat=1.0, expiry=3.0, poll=1.0, grace=2.0, concurrency=4, exit_when_stuck=4.0
)
RESTART = (0.1, 2.0)  # seconds until a process that ended is started again


class Notices:
    """Notifications, which may be lost, doubled or late; one for each worker."""

    def __init__(self, world: World, weather: Weather) -> None:
        self._world, self._weather = world, weather
        self._waiting: list[tuple[Loop, asyncio.Queue[Wake]]] = []

    async def listen(self) -> AsyncIterator[Wake]:
        """As `ports.Notifier.listen`."""
        loop = here()
        heard = asyncio.Queue[Wake]()
        self._waiting.append((loop, heard))
        try:
            yield Wake()
            while True:
                yield await heard.get()
        finally:
            self._waiting.remove((loop, heard))

    def notify(self, wake: Wake) -> None:
        """Tell all that listen, as a rule."""
        for loop, heard in list(self._waiting):
            if not loop.process.alive:
                continue
            luck = self._world.random.random()
            if luck < self._weather.share:
                continue
            times = 2 if luck < 2 * self._weather.share else 1
            late = self._world.random.uniform(0, 2) if luck < 3 * self._weather.share else 0.0
            for _ in range(times):
                self._world.after(late, partial(_put, loop, heard, wake))


def _put(loop: Loop, heard: asyncio.Queue[Wake], wake: Wake) -> None:
    if loop.process.alive:
        loop.call_soon(heard.put_nowait, wake)


class Fleet:
    """Some workers on one store."""

    def __init__(self, world: World, size: int) -> None:
        self.world, self.size = world, size
        self.story = Story(world)
        self.store = FleetStore(world.moment)
        self.weather = Weather()
        self.notices = Notices(world, self.weather)
        self.notifier: Notices | None = self.notices  # None: workers only poll
        self.app: Mutirao = application(self.store, self.story, self._kill_named)
        self.workers: dict[str, tuple[Process, Worker]] = {}
        self.failures: list[str] = []
        self._started = 0
        self._over = False

    def start(self) -> None:
        """Start all workers."""
        for _ in range(self.size):
            self.start_one()

    def start_one(self) -> None:
        """Start a worker, as a process manager does."""
        if self._over:
            return
        self._started += 1
        process = self.world.spawn(f"p{self._started}")
        process.run(self._serve(process), lambda error: self._ended(process, error))

    def enqueue(self, jobs: list[NewJob]) -> list[int]:
        """Commit some jobs, and notify."""
        ids = self.store.enqueue(jobs)
        for id, job in zip(ids, jobs, strict=True):
            self.story.note(f"is enqueued: {job.task} {job.args}", id)
        for lane in sorted({job.lane for job in jobs}):
            self.notices.notify(self._wake(lane))
        return ids

    def _wake(self, lane: str) -> Wake:
        """Return a wake as PostgreSQL sends it: one worker, three after it; some may be gone."""
        known = [*(worker.id for _, worker in self.workers.values()), 0]
        self.world.random.shuffle(known)
        return Wake(lane, 0, self.world.moment(), tuple(known[:1]), tuple(known[1:4]))

    def enqueue_graph(self, graph: Graph) -> GraphHandle:
        """Commit a graph, and notify."""
        handle = self.app.enqueue_graph(graph)
        for job in handle.jobs:
            self.story.note(f"is enqueued as a step: {job.task}", job.id)
        self.notices.notify(self._wake("default"))
        return handle

    def noted(self, job: Job) -> AbstractContextManager[None]:
        """Return what a handler is in."""
        return Noted(self.story, job, here().process.name)

    def kill(self, process: Process) -> None:
        """End a process at once."""
        if process.alive:
            self.story.note(f"{process.name} is killed")
            self._reap(process)

    def freeze(self, process: Process, seconds: float) -> None:
        """Suspend a process."""
        self.story.note(f"{process.name} is frozen for {seconds:.1f} s")
        process.frozen_until = self.world.now + seconds

    def terminate(self, process: Process) -> None:
        """Send a process a signal to end."""
        self.story.note(f"{process.name} is asked to end")
        if process.name in self.workers:
            worker = self.workers[process.name][1]
            process.main.call_soon(lambda: process.main.create_task(worker.stop()))

    def hurry(self, process: Process) -> None:
        """Send it the signal once more."""
        if process.alive and process.name in self.workers:
            self.story.note(f"{process.name} is asked again to end")
            process.main.call_soon(self.workers[process.name][1].end_grace)

    def living(self) -> list[Process]:
        """Return the processes that have not ended."""
        return list(self.world.processes)

    def _kill_named(self, name: str) -> None:
        process = next(each for each in self.world.processes if each.name == name)
        self.world.at(self.world.now, lambda: self.kill(process))

    async def _serve(self, process: Process) -> None:
        handle: Any = Handle(
            self.store, self.weather, process, self.notices.notify, SETTINGS.call_limit
        )
        app = self.app
        code = AppDeclarations(app.tasks, (), app.schedules.declared, app.limits.declared, "0")
        worker = Worker(handle, self.notifier, code, SETTINGS)
        worker.on_blocked = lambda: self._kill_named(process.name)
        await worker.start()
        self.workers[process.name] = process, worker
        self.story.note(f"{process.name} is worker {worker.id}")
        await worker.ended.wait()

    def _ended(self, process: Process, error: BaseException | None) -> None:
        if not process.alive:
            return
        worker = self.workers.get(process.name)
        why = error or (worker[1].failure if worker else None)
        self.story.note(f"{process.name} ends: {why!r}")
        if why is not None:
            self.failures.append(type(why).__name__)
        self.world.at(self.world.now, lambda: self._reap(process))

    def _reap(self, process: Process) -> None:
        if process.alive:
            self.world.bury(process)
            self.workers.pop(process.name, None)
            self.story.forget(process.name)
            self.world.after(self.world.random.uniform(*RESTART), self.start_one)


def patched(world: World) -> pytest.MonkeyPatch:
    """Let the engine live in the world: its clock is the world's, its threads are loops."""
    patch = pytest.MonkeyPatch()
    for module in _modules(mutirao.engine):
        if hasattr(module, "monotonic"):
            patch.setattr(module, "monotonic", lambda: world.now)
    patch.setattr(producer, "datetime", _clock(lambda: world.moment() + _off()))
    patch.setattr(executor, "datetime", _clock(world.moment))  # what expires needs the right time
    for module in _modules(mutirao.sql.dialects.sqlite):
        if hasattr(module, "datetime"):
            patch.setattr(module, "datetime", _clock(world.moment))
    patch.setattr(Heartbeat, "start", _beat_in_loop)
    return patch


def _beat_in_loop(heartbeat: Heartbeat) -> None:
    """Run the heartbeat in the second loop of its process, instead of in a thread."""
    heart = here().process.heart

    def ended(task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            heartbeat._ended.set_result(None)
        else:
            heartbeat._ended.set_exception(error)

    heart.create_task(heartbeat._beat_until_stopped()).add_done_callback(ended)


def _modules(package: ModuleType) -> list[ModuleType]:
    names = (each.name for each in walk_packages(package.__path__, f"{package.__name__}."))
    return [*map(import_module, names)]


def _off() -> timedelta:
    """Return by how much the clock of the process is wrong whose code runs."""
    return timedelta(seconds=here().process.clock_is_off)


def _clock(moment: Callable[[], datetime]) -> type[datetime]:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return moment().astimezone(tz or UTC)

    return Clock
