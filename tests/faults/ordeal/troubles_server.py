"""Troubles of a server of either kind. Those of the way to it are in `network`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from time import monotonic

from tests.faults.ordeal.plan import Event, Lasts
from tests.faults.ordeal.stage_server import Closeable, ServerStage
from tests.faults.ordeal.troubles import HOUR, Catalogue, Scene, clocks_set, repeatedly

SERVERS = Catalogue()
ROWS = 5  # claimed rows that somebody locks
FEW = 2  # connections that are left to a role
LONG_ENOUGH = 15.0  # seconds to take the place of workers' connections

ServerScene = Scene[ServerStage]


@SERVERS.trouble("clock")
def clock(scene: ServerScene, event: Event) -> Iterator[str]:
    """Put one worker's clock far on or back: it is not used for anything."""
    place = clocked_place(scene)
    far = event.chosen.choice((HOUR, 2 * scene.plan.expiry)) * event.chosen.choice((1, -1))
    with clocks_set(scene.fleet, [place], far):
        yield f"the clock of worker {place} jumps by {far:+g} s, and back"


def clocked_place(scene: ServerScene) -> int:
    """Return the place whose clock can be set."""
    return scene.plan.workers - 1


@SERVERS.trouble("crash")
def crash(scene: ServerScene, event: Event) -> Iterator[str]:
    """Let the server crash, and recover."""
    server = scene.stage.server
    server.fall()
    try:
        yield f"{server.at_once.name} of the server"
    finally:
        server.start()


@SERVERS.trouble("read-only")
def read_only(scene: ServerScene, event: Event) -> Iterator[str]:
    """Let workers write nothing."""
    with scene.stage.read_only():
        yield "workers may not write"


@SERVERS.trouble("lock-table")
def lock_table(scene: ServerScene, event: Event) -> Iterator[str]:
    """Lock one table of ours, as a migration does; another one each time."""
    tables = scene.stage.tables()
    table = tables[(scene.plan.seed + event.turn) % len(tables)]
    with scene.stage.table_locked(table):
        yield f"{table} is locked"


@SERVERS.trouble("lock-rows")
def lock_rows(scene: ServerScene, event: Event) -> Iterator[str]:
    """Lock rows of jobs that run."""
    with scene.stage.rows_locked(ROWS) as told:
        yield f"locked: {told}"


@SERVERS.trouble("terminate", Lasts.AT_ONCE)
def terminate_all(scene: ServerScene, event: Event) -> Iterator[str]:
    """End all of the workers' sessions."""
    yield f"{scene.stage.terminate()} sessions are terminated"


@SERVERS.trouble("terminate-some")
def terminate_some(scene: ServerScene, event: Event) -> Iterator[str]:
    """End some of the workers' sessions, again and again."""
    share = event.chosen.uniform(0.1, 0.6)
    stage = scene.stage
    again = partial(_unless_away, stage, partial(stage.terminate, share))
    with repeatedly(event.chosen.uniform(0.2, 2), again):
        yield f"{share:.0%} of the sessions are terminated, again and again"


@SERVERS.trouble("cancel")
def cancel(scene: ServerScene, event: Event) -> Iterator[str]:
    """Cancel whatever the workers' sessions do, again and again."""
    every = event.chosen.uniform(0.02, 0.5)
    with scene.stage.cancelling() as act, repeatedly(every, act):
        yield f"statements are cancelled every {every:.2f} s"


@SERVERS.trouble("crowded")
def crowded(scene: ServerScene, event: Event) -> Iterator[str]:
    """Let others take every connection that the server has."""
    stage, others = scene.stage, list[Closeable]()
    with stage.somebody() as connect:

        def crowd() -> None:
            with suppress(stage.away):  # that was the last one
                while True:
                    others.append(connect())

        try:
            end = monotonic() + LONG_ENOUGH
            while monotonic() < end:  # workers are as quick as we are
                crowd()
                if stage.terminate() <= FEW:
                    break
            with repeatedly(0.2, crowd):
                yield f"others have {len(others)} connections, workers {_count(stage)}"
        finally:
            for other in others:
                other.close()


@SERVERS.trouble("role-limit")
def role_limit(scene: ServerScene, event: Event) -> Iterator[str]:
    """Leave only a few connections to the workers' role."""
    scene.stage.limit(FEW)
    scene.stage.terminate()
    try:
        yield f"the workers' role has {FEW} connections"
    finally:
        scene.stage.limit(None)


@SERVERS.trouble("no-login")
def no_login(scene: ServerScene, event: Event) -> Iterator[str]:
    """Let the workers' role not log in, and end its sessions."""
    scene.stage.let_in(False)
    try:
        yield f"the role may not log in, {scene.stage.terminate()} sessions are terminated"
    finally:
        scene.stage.let_in(True)


def _count(stage: ServerStage) -> int:
    return len(stage.workers_sessions())


def _unless_away(stage: ServerStage, act: Callable[[], object]) -> None:
    with suppress(stage.away):
        act()
