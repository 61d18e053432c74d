"""Troubles of an SQLite file and of the machine it is on."""

from __future__ import annotations

import os
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress

from tests.faults.ordeal.plan import Event
from tests.faults.ordeal.stages import SqliteStage
from tests.faults.ordeal.troubles import Catalogue, Scene, clocks_set, repeatedly

SQLITE = Catalogue()
JUMP = 20.0  # seconds that the clock may jump
SMALL = 262_144  # bytes that a file may have; notes stay below

SqliteScene = Scene[SqliteStage]


# Documented: what was written with the other time is judged by this one.
@SQLITE.trouble("clock", allowance=JUMP)
def clock(scene: SqliteScene, event: Event) -> Iterator[str]:
    """Put the clock of the machine on or back, for all workers, and right again."""
    jump = event.chosen.uniform(2, JUMP) * event.chosen.choice((1, -1))
    with clocks_set(scene.fleet, list(range(scene.plan.workers)), jump):
        yield f"the clock of all workers jumps by {jump:+.1f} s, and back"


@SQLITE.trouble("lock-file")
def lock_file(scene: SqliteScene, event: Event) -> Iterator[str]:
    """Hold the write lock, as a long transaction of the application does."""
    how = event.chosen.choice(("IMMEDIATE", "EXCLUSIVE"))
    with closing(sqlite3.connect(scene.stage.path, timeout=30, isolation_level=None)) as holder:
        holder.execute(f"BEGIN {how}")
        try:
            yield f"BEGIN {how} is held"
        finally:
            holder.execute("ROLLBACK")


@SQLITE.trouble("full-disk")
def full_disk(scene: SqliteScene, event: Event) -> Iterator[str]:
    """Fill the disk to the last byte, and whatever becomes free."""
    disk = scene.stage.disk
    assert disk is not None
    ballast = disk / "ballast"

    def fill() -> None:
        with ballast.open("ab", buffering=0) as file, suppress(OSError):
            while free := os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize:
                os.posix_fallocate(file.fileno(), ballast.stat().st_size, free)

    try:
        fill()
        with repeatedly(0.2, fill):
            yield f"the disk is full: {ballast.stat().st_size:,} bytes are somebody else's"
    finally:
        ballast.unlink()


@SQLITE.trouble("file-limit")
def file_limit(scene: SqliteScene, event: Event) -> Iterator[str]:
    """Let workers write no file beyond a small size, as a quota does."""

    def limit(size: int) -> None:
        for process in scene.fleet.running().values():
            with suppress(ProcessLookupError):
                _, most = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, most))

    try:
        with repeatedly(0.2, lambda: limit(SMALL)):
            yield f"no worker may write beyond {SMALL:,} bytes of a file"
    finally:
        limit(resource.RLIM_INFINITY)
