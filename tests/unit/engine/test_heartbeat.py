"""A worker's own sign of life, and when it may take others for gone."""

from __future__ import annotations

from typing import Any

import pytest

from mutirao.engine.liveness import heartbeat
from mutirao.engine.liveness.heartbeat import Heartbeat, WorkerView
from mutirao.engine.settings import WorkerSettings
from mutirao.errors import StoreUnavailable
from mutirao.model.jobs.job import Beat, NewWorker

SETTINGS = WorkerSettings(heartbeat=5, expiry=15)
ME = NewWorker(name="w", host="h", pid=1, queues=None, concurrency=1, version="0")


class Clock:
    """A monotonic clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class LoopHealth:
    """A store that answers beats as the test wants."""

    def __init__(self) -> None:
        self.away = False
        self.alive = True
        self.late: list[float] = []
        self.lives: list[float] = []  # seconds
        self.registered: list[NewWorker] = []
        self.released: list[tuple[int, int]] = []

    async def beat(self, worker: int, *, expiry: float, late: float, **_: Any) -> Beat:
        """As `Store.beat`."""
        self.late.append(late)
        self.lives.append(expiry)
        if self.away:
            raise StoreUnavailable("away")
        return Beat(self.alive, ())

    async def register(self, worker: NewWorker, **_: Any) -> int:
        """As `Store.register`."""
        self.registered.append(worker)
        return 8

    async def release(self, jobs: list[tuple[int, int]]) -> set[int]:
        """As `Store.release`."""
        self.released += jobs
        return {id for id, _ in jobs}


class HeartbeatThread:
    """A heartbeat without its thread, beaten by hand."""

    def __init__(self, settings: WorkerSettings = SETTINGS) -> None:
        self.store = LoopHealth()
        self.lives: list[float] = []  # until when
        self.born: list[int] = []
        self.answers: list[Any] = []
        self.unstarted: list[tuple[int, int]] = []
        store: Any = self.store
        self.returns, self.rests = 0, False
        self.blocked: list[float] = []
        body = WorkerView(
            stuck=lambda: 0,
            runs=lambda: True,
            ping=self.answers.append,
            blocked=self.blocked.append,
            unstarted=lambda: self.unstarted,
            rests=lambda: self.rests,
            on_beat=lambda beat, until: self.lives.append(until),
            on_return=self._note_return,
            on_reregistered=self.born.append,
        )
        self._settings = settings
        self._heartbeat = Heartbeat(store, settings, ME, 7, body)

    async def beats_well(self) -> bool:
        """Beat once; return whether it went well, and the next one comes in its time."""
        return await self._heartbeat._beat() == self._settings.heartbeat

    def puts_off(self) -> float:
        """Return the seconds by which it puts off the next beat, when that is due."""
        return self._heartbeat._rest()

    def stir(self) -> None:
        """Tell that the worker has got a job."""
        self._heartbeat.stir()

    def _note_return(self) -> None:
        self.returns += 1

    @property
    def may_judge(self) -> bool:
        """Whether others may be taken for gone."""
        return self._heartbeat.may_judge_others()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """What the heartbeat takes for time."""
    made = Clock()
    monkeypatch.setattr(heartbeat, "monotonic", made)
    return made


async def test_at_once(clock: Clock) -> None:
    """A worker that has just registered may: it may be here to replace the killed one."""
    assert HeartbeatThread().may_judge


async def test_who_is_late_does_not_judge(clock: Clock) -> None:
    """One whose own heart has not beaten for so long knows nothing of others."""
    heart = HeartbeatThread()
    clock.now += 15
    assert not heart.may_judge


async def test_after_the_database_was_away(clock: Clock) -> None:
    """Others get one expiry's time, and all the more if it goes away again."""
    heart = HeartbeatThread()
    heart.store.away = True
    assert not await heart.beats_well()
    assert not heart.may_judge
    heart.store.away = False
    assert await heart.beats_well()
    for _ in range(2):
        clock.now += 5
        assert await heart.beats_well()
        assert not heart.may_judge
    clock.now += 5
    assert await heart.beats_well()
    assert heart.may_judge


async def test_after_nobody_could_write(clock: Clock) -> None:
    """A beat that came through late shows that others may be late as well."""
    heart = HeartbeatThread()
    assert await heart.beats_well()
    clock.now += 14
    assert await heart.beats_well()
    assert not heart.may_judge
    clock.now += 15
    assert await heart.beats_well()
    assert not heart.may_judge
    for _ in range(4):
        clock.now += 4
        assert await heart.beats_well()
    assert heart.may_judge


async def test_what_comes_after_a_stall(clock: Clock) -> None:
    """The worker is told, to look everywhere: nobody has woken it meanwhile."""
    heart = HeartbeatThread()
    heart.store.away = True
    assert not await heart.beats_well()
    assert heart.returns == 0
    heart.store.away = False
    assert await heart.beats_well()
    assert heart.returns == 1
    clock.now += 20
    assert await heart.beats_well()
    assert heart.returns == 2


async def test_a_late_beat(clock: Clock) -> None:
    """The next one tells how late it was, and the later ones less and less of it."""
    heart = HeartbeatThread()
    for seconds in (5, 12, 5):
        clock.now += seconds
        assert await heart.beats_well()
    assert heart.lives[-1] == clock.now + SETTINGS.lifetime
    assert heart.store.late[:2] == [0.0, 0.0]
    assert 6.5 < heart.store.late[2] <= 7.0
    for _ in range(300):
        clock.now += 5
        assert await heart.beats_well()
    assert heart.store.late[-1] < 1.0


@pytest.mark.parametrize("expiry", [10, 15])
async def test_one_that_rests(clock: Clock, expiry: float) -> None:
    """Beats a heartbeat later, which is not late, and lives longer, if the database is there."""
    settings = WorkerSettings(heartbeat=5, expiry=expiry)
    heart = HeartbeatThread(settings)
    heart.rests = True
    for _ in range(3):
        assert await heart.beats_well()
        assert heart.puts_off() == 5
        clock.now += 10
        assert heart.may_judge
    assert heart.store.late == [0.0, 0.0, 0.0]
    assert heart.store.lives == [settings.lifetime + 5] * 3
    assert heart.lives[-1] == clock.now - 10 + settings.lifetime + 5
    assert heart.returns == 0
    heart.store.away = True
    assert not await heart.beats_well()
    assert heart.puts_off() == 0.0


async def test_a_job_for_one_that_rests() -> None:
    """Has it beat at once, once, as one that has a job, even if that has ended meanwhile."""
    heart = HeartbeatThread()
    heart.rests = True
    for _ in range(2):
        assert await heart.beats_well()
        heart.stir()
        assert heart.puts_off() == 0.0
        assert await heart.beats_well()
        heart.stir()
        assert heart.puts_off() == 5
    assert heart.store.lives == [SETTINGS.lifetime + 5, SETTINGS.lifetime] * 2


async def test_taken_for_gone(clock: Clock) -> None:
    """Registers anew, and tells under which id."""
    heart = HeartbeatThread()
    heart.store.alive = False
    assert await heart.beats_well()
    assert (heart.store.registered, heart.born) == ([ME], [8])


async def test_a_loop_that_does_not_answer(clock: Clock) -> None:
    """Is asked at every beat; when it has not answered, the jobs that wait are given back."""
    heart = HeartbeatThread()
    heart.unstarted = [(1, 1), (2, 1)]
    assert await heart.beats_well()
    assert (len(heart.answers), heart.store.released) == (1, [])
    heart.answers[0]()
    assert await heart.beats_well()
    assert (len(heart.answers), heart.store.released) == (2, [])
    assert heart.blocked == []
    assert await heart.beats_well()
    assert (heart.store.released, heart.blocked) == ([(1, 1), (2, 1)], [clock.now])
