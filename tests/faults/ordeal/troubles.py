"""What a trouble is, and those that befall workers on any database.

A trouble is a function that does it up to its `yield`, and ends it after that. What it yields says
what it does, for people. It draws everything that varies from its event.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tests.faults.ordeal.fleet import CLOCK_READ, Fleet
from tests.faults.ordeal.plan import Event, Lasts, Plan

S = TypeVar("S")

HOUR = 3_600.0  # seconds


@dataclass(frozen=True)
class Scene(Generic[S]):
    """What troubles act upon."""

    stage: S
    fleet: Fleet
    plan: Plan


Act = Callable[[Scene[Any], Event], Iterator[str]]


@dataclass(frozen=True)
class Trouble:
    """A named trouble.

    Parameters:
        act: does it on entering, ends it on leaving.
        lasts: how long it goes on in between.
        allowance: seconds that the recovery may take longer, as the documents say.
    """

    name: str
    act: Callable[[Scene[Any], Event], AbstractContextManager[str]]
    lasts: Lasts = Lasts.A_WHILE
    allowance: float = 0.0


class Catalogue(dict[str, Trouble]):
    """Troubles by name."""

    def trouble(
        self, name: str, lasts: Lasts = Lasts.A_WHILE, allowance: float = 0.0
    ) -> Callable[[Act], Act]:
        """Register a function as a trouble."""

        def register(act: Act) -> Act:
            self[name] = Trouble(name, contextmanager(act), lasts, allowance)
            return act

        return register


WORKERS = Catalogue()


@contextmanager
def repeatedly(every: float, act: Callable[[], object]) -> Iterator[None]:
    """Do something at once and every so many seconds, in a thread, until the block ends."""
    over = threading.Event()

    def run() -> None:
        act()
        while not over.wait(every):
            act()

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(run)
        try:
            yield
        finally:
            over.set()
    running.result()


@WORKERS.trouble("nothing", Lasts.AT_ONCE)
def nothing(scene: Scene[Any], event: Event) -> Iterator[str]:
    """Do nothing: what is measured then is the instrument."""
    yield "nothing at all"


@WORKERS.trouble("kill", Lasts.AT_ONCE)
def kill(scene: Scene[Any], event: Event) -> Iterator[str]:
    """End a worker at once."""
    place = event.chosen.randrange(scene.plan.workers)
    scene.fleet.kill(place)
    yield f"SIGKILL of worker {place}"


@WORKERS.trouble("kill-all", Lasts.AT_ONCE)
def kill_all(scene: Scene[Any], event: Event) -> Iterator[str]:
    """End all workers at once, as a power cut does."""
    for place in range(scene.plan.workers):
        scene.fleet.kill(place)
    yield "SIGKILL of all workers"


@WORKERS.trouble("stop", Lasts.AT_ONCE)
def stop(scene: Scene[Any], event: Event) -> Iterator[str]:
    """Tell a worker to stop, as a deployment does."""
    place = event.chosen.randrange(scene.plan.workers)
    scene.fleet.ask_to_stop(place)
    yield f"SIGTERM of worker {place}"


@WORKERS.trouble("freeze", Lasts.PAST_EXPIRY)
def freeze(scene: Scene[Any], event: Event) -> Iterator[str]:
    """Suspend a worker until others have taken its jobs, as a paused machine is."""
    place = event.chosen.randrange(scene.plan.workers)
    scene.fleet.send(place, signal.SIGSTOP)
    try:
        yield f"SIGSTOP of worker {place}"
    finally:
        scene.fleet.send(place, signal.SIGCONT)


@contextmanager
def clocks_set(fleet: Fleet, places: list[int], offset: float) -> Iterator[None]:
    """Put the clocks of some places on, or back; right again afterwards."""
    try:
        for place in places:
            fleet.set_clock(place, offset)
        yield
    finally:
        for place in places:
            fleet.set_clock(place, 0.0)
        time.sleep(CLOCK_READ)
