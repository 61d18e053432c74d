"""The promise, shown: one loop for each feed, whatever happens to workers and queues.

    python examples/periodic_feeds/demo.py AMQP_URL [SECONDS]

Twenty feeds of three periods, on RabbitMQ alone, for SECONDS (20) or a little longer: workers are
killed with SIGKILL, all queues are purged, and version 2 is deployed while version 1 runs. One feed
has closed, which stops its loop; one cannot be read, which puts it aside, until version 2 can read
it. All is under a prefix of its own at the broker, and deleted at the end. Exit status 0: it held.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from signal import SIGSTOP, SIGTERM
from typing import Any
from uuid import uuid4

import aiormq

HERE = Path(__file__).parent / "programs"
WORKERS = 2
KILL_EVERY = 5.0  # seconds
GRACE = 15.0  # seconds within which a loop goes on, whatever happened
DEADLINE = 90.0  # seconds for what is waited for
SAME = 0.001  # seconds
CLOSED, BROKEN = "feed-03", "feed-07"
Line = dict[str, Any]
Span = tuple[float, float]


def main() -> None:
    """Do it all, and count."""
    sys.exit(bool(show(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 20.0)))


def show(url: str, seconds: float, trouble: Callable[[], None] | None = None) -> list[str]:
    """Let them work, print and return which promises were broken.

    `trouble` is called at each kill, and returns when everybody can reach the broker again.
    """
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "log"
        log.touch()
        prepare(log, url)
        demo = Demo(log, trouble)
        try:
            purges = demo.run(seconds)
        finally:
            demo.clean()
        lines = read(log)
    for flaw in (found := flaws(lines, demo.periods, purges)):
        print("BROKEN:", flaw)
    pulls = sum(line["what"] == "ended" for line in lines)
    print(f"{pulls} pulls of {len(demo.periods)} feeds; {len(found)} promises broken")
    return found


def prepare(log: Path, url: str) -> None:
    """Tell this process and its workers where everything is."""
    os.environ |= {
        "FEEDS_LOG": str(log),
        "FEEDS_BROKER": url,
        "FEEDS_PREFIX": f"feeds-{uuid4().hex[:8]}",
        "PYTHONPATH": str(HERE),
    }
    sys.path.insert(0, str(HERE))


class Demo:
    """The workers of two versions, and what befalls them; see `show`."""

    def __init__(self, log: Path, trouble: Callable[[], None] | None) -> None:
        import feeds

        self._feeds, self._log, self._trouble = feeds, log, trouble
        self.periods = {name: feeds.period_of(n) for n, name in enumerate(feeds.names())}
        self._workers: list[subprocess.Popen[bytes]] = []
        self._things: list[str] = []

    def run(self, seconds: float) -> int:
        """Let them work for a while, in trouble; return how often all queues were purged."""
        self._things = self._ask(self._declare)
        self._start(version=1)
        self._until(lambda: len(self._seen("ended", "began")) == len(self.periods))
        self._disturb(seconds / 3)
        self._purge()
        self._until(lambda: self._ask(self._dead))
        print("version 2 is deployed, beside version 1")
        self._start(version=2)
        self._until(lambda: side_by_side(read(self._log)))
        self._stop(WORKERS)
        returned = self._ask(lambda: self._feeds.broker.return_dead(self._feeds.QUEUE, None))
        self._note("returned", BROKEN)
        print(f"{returned} feed that version 1 could not read is returned")
        self._disturb(seconds / 3)
        self._purge()
        since = time.time()
        self._until(lambda: self._seen("ended", since=since) >= self.periods.keys() - {CLOSED})
        self._disturb(seconds / 3)
        self._stop(len(self._workers))
        return 2

    def clean(self) -> None:
        """End the workers, and delete all at the broker."""
        for each in self._workers:
            each.kill()
            each.wait()
        self._ask(self._delete)

    def _start(self, version: int, workers: int = WORKERS) -> None:
        command = [sys.executable, "-m", "mutirao", "worker", "feeds:app", "-q", "feeds"]
        told = os.environ | {"FEEDS_VERSION": str(version)}
        quiet = ["-c", "20", "--log-level", "error", "--log-jobs", "failures"]
        self._workers += [subprocess.Popen([*command, *quiet], env=told) for _ in range(workers)]

    def _stop(self, workers: int) -> None:
        """Stop the oldest workers gracefully: they end what they run."""
        stopped, self._workers = self._workers[:workers], self._workers[workers:]
        for each in stopped:
            each.terminate()
        for each in stopped:
            # One that has only just been started does not know the signal yet.
            assert each.wait(DEADLINE) in (0, -SIGTERM), "a worker did not end by itself"

    def _disturb(self, seconds: float) -> None:
        """Kill a worker now and then, and start another one."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, KILL_EVERY))
            self._kill(self._workers.pop(0))
            version = max(line.get("version", 1) for line in read(self._log))
            self._start(version, 1)
            print(f"a worker of version {version} is killed with SIGKILL")
            if self._trouble is not None:
                began = time.time()
                self._trouble()
                self._note("away", since=began)

    def _kill(self, victim: subprocess.Popen[bytes]) -> None:
        """Kill a worker; write down when it stopped, before others are given its pulls."""
        victim.send_signal(SIGSTOP)
        os.waitid(os.P_PID, victim.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self._note("killed", pid=victim.pid)
        victim.kill()
        victim.wait()

    def _purge(self) -> None:
        """Lose all that waits, but the dead: they wait for people."""

        async def purge(channel: Any, name: str) -> None:
            if "-dead" not in name:
                await channel.queue_purge(name)

        if self._trouble is not None:  # until the workers are back
            since = time.time()
            feeds = self.periods.keys() - {CLOSED, BROKEN}
            self._until(lambda: self._seen("ended", since=since) >= feeds)
        self._until(lambda: self._ask(self._stops_are_held))
        self._ask(lambda: self._each_queue(purge))
        print("all queues are purged")

    async def _stops_are_held(self) -> bool:
        """Return whether a worker holds what has stopped: a stop that is lost begins again."""
        held: list[bool] = []

        async def look(channel: Any, name: str) -> None:
            if name.endswith((CLOSED, BROKEN)):
                told = await channel.queue_declare(name, passive=True)
                # Both are 0 of a queue that a broker which has just started has not opened yet.
                held.append(told.consumer_count > 0 and told.message_count == 0)

        await self._each_queue(look)
        return held == [True, True]

    async def _declare(self) -> list[str]:
        feeds = self._feeds
        made: list[str] = await feeds.broker.declare([feeds.QUEUE])
        made += await feeds.broker.declare_schedules(feeds.names())
        return made

    async def _dead(self) -> bool:
        return len(await self._feeds.broker.dead(self._feeds.QUEUE, 2)) == 1

    async def _delete(self) -> None:
        await self._each_queue(lambda channel, name: channel.queue_delete(name))
        await self._each_queue(lambda channel, name: channel.exchange_delete(name))

    async def _each_queue(self, do: Callable[[Any, str], Awaitable[Any]]) -> None:
        """Do something to all that was declared."""
        async with aiormq.connect(os.environ["FEEDS_BROKER"]) as connection:
            for name in self._things:
                with suppress(aiormq.exceptions.ChannelClosed):  # what is no queue, or no exchange
                    channel = await connection.channel()
                    await do(channel, name)

    def _ask(self, asking: Callable[[], Awaitable[Any]]) -> Any:
        async def ask() -> Any:
            try:
                return await asking()
            finally:
                await self._feeds.broker.aclose()

        return asyncio.run(ask())

    def _seen(self, *whats: str, since: float = 0.0) -> set[str]:
        lines = read(self._log)
        return {each["feed"] for each in lines if each["what"] in whats and each["at"] > since}

    def _note(self, what: str, feed: str = "", pid: int = 0, **told: float) -> None:
        with self._log.open("a") as log:
            line = {"what": what, "feed": feed, "pid": pid, "at": time.time()} | told
            log.write(json.dumps(line) + "\n")

    def _until(self, condition: Callable[[], Any]) -> None:
        end = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < end, "it does not come to an end"
            assert all(each.poll() is None for each in self._workers), "a worker has ended"
            time.sleep(0.2)


def read(log: Path) -> list[Line]:
    """Return what was written down."""
    return [json.loads(line) for line in log.read_text().splitlines()]


def flaws(lines: list[Line], periods: dict[str, float], purges: int) -> list[str]:
    """Return which promises were broken, by what the handlers wrote down."""
    killed = {line["pid"]: line["at"] for line in lines if line["what"] == "killed"}
    away = [(line["since"], line["at"]) for line in lines if line["what"] == "away"]
    end = max(line["at"] for line in lines)
    found = [] if side_by_side(lines) else ["the versions did not run side by side"]
    for feed, period in periods.items():
        its = sorted((each for each in lines if each["feed"] == feed), key=lambda each: each["at"])
        pulls = [*_pulls(its, killed)]
        found += [f"{feed} {flaw}" for flaw in _flaws_of(pulls, killed, away)]
        found += [f"{feed} {flaw}" for flaw in _flaws_of_loop(pulls, period, purges)]
        if feed not in (CLOSED, BROKEN):
            found += [f"{feed} {flaw}" for flaw in _gaps(pulls, period, end, away)]
    began = [line for line in lines if line["what"] == "began"]
    closed = [line for line in began if line["feed"] == CLOSED]
    return [*found, *_flaws_of_stopped(lines, began, len(closed), killed)]


def _pulls(lines: list[Line], killed: dict[int, float]) -> Iterator[Line]:
    """Yield each attempt with its end: its own, or that of its worker."""
    for n, line in enumerate(lines):
        if line["what"] == "began":
            key = line["id"], line["attempt"], line["pid"]
            ends = [each for each in lines[n + 1 :] if _key(each) == key]
            over = ends[0] if ends else {"what": "killed", "at": killed.get(line["pid"])}
            yield line | {"what": over["what"], "over": over["at"]}


def _key(line: Line) -> tuple[Any, ...]:
    return line.get("id"), line.get("attempt"), line["pid"]


def _flaws_of(pulls: list[Line], killed: dict[int, float], away: list[Span]) -> Iterator[str]:
    """Look at overlaps, and at ticks that were done twice."""
    for pull, following in pairwise(pulls):
        if pull["over"] is None:
            yield f"began at {pull['at']:.1f} and has no end"
        elif following["at"] < pull["over"]:
            others = f"{pull['pid']} and {following['pid']}"
            yield f"began at {following['at']:.1f} while the pull before went on, in {others}"
    ended: dict[str, list[Line]] = defaultdict(list)
    for pull in pulls:
        if pull["what"] == "ended":
            ended[pull["tick"]].append(pull)
    for tick, done in ended.items():
        if any(_is_repeated(*pair, pulls, killed, away) for pair in pairwise(done)):
            yield f"was pulled {len(done)} times for the tick {tick}"


def _is_repeated(
    first: Line, again: Line, pulls: list[Line], killed: dict[int, float], away: list[Span]
) -> bool:
    """Return whether a pull was done again that had made the next token.

    Nothing makes its end and the next token one: so a kill between them repeats it, and a broker
    that was away.
    """
    over, at = first["over"], again["at"]
    went_on = any(first["at"] < each["at"] < at and each["tick"] != first["tick"] for each in pulls)
    died = over <= killed.get(first["pid"], 0.0) <= at
    cut_off = any(since < at and over < until for since, until in away)
    return went_on or not (died or cut_off)


def _flaws_of_loop(pulls: list[Line], period: float, purges: int) -> Iterator[str]:
    """Look at whether all ticks are of one loop: a token that was lost may begin another one."""
    ticks = sorted({datetime.fromisoformat(pull["tick"]).timestamp() for pull in pulls})
    shifts = 0
    for tick, following in pairwise(ticks):
        steps = (following - tick) / period
        shifts += abs(steps - round(steps)) * period > SAME
    if shifts > purges + 1:  # one more where somebody started it again
        yield f"has {shifts} ticks that are no whole periods after the one before: two loops?"
    if ticks and len(ticks) > (ticks[-1] - ticks[0]) / period + 2 + purges:
        yield f"has {len(ticks)} ticks in {ticks[-1] - ticks[0]:.1f} s, with a period of {period} s"


def _gaps(pulls: list[Line], period: float, end: float, away: list[Span]) -> Iterator[str]:
    """Look for loops that were lost; what counts is the time in which the broker was there."""
    moments = [pull["at"] for pull in pulls]
    if not moments:
        yield "was never pulled"
    for moment, following in pairwise([*moments, end]):
        gone = sum(max(0, min(following, b) - max(moment, a)) for a, b in away)
        if following - moment - gone > 2 * period + GRACE:
            yield f"was not pulled for {following - moment - gone:.1f} s"


def _flaws_of_stopped(
    lines: list[Line], began: list[Line], closed: int, killed: dict[int, float]
) -> Iterator[str]:
    if closed != 1 + sum(
        line["feed"] == CLOSED and line["pid"] in killed and not _over(line, lines)
        for line in began
    ):
        yield f"{CLOSED} has closed, and was pulled {closed} times"
    [returned] = [line["at"] for line in lines if line["what"] == "returned"]
    of_broken = [line for line in began if line["feed"] == BROKEN]
    before = {line["id"] for line in of_broken if line["at"] < returned}
    if len(before) != 1:
        yield f"{BROKEN} was pulled for {len(before)} ticks before it was returned, instead of one"
    if not any(line["at"] > returned for line in of_broken):
        yield f"{BROKEN} was returned, and does not go on"


def _over(began: Line, lines: list[Line]) -> bool:
    return any(_key(line) == _key(began) and line["what"] != "began" for line in lines)


def side_by_side(lines: list[Line]) -> bool:
    """Return whether version 1 has worked after version 2 had begun to."""
    of = {n: [line["at"] for line in lines if line.get("version") == n] for n in (1, 2)}
    return bool(of[1] and of[2]) and min(of[2]) < max(of[1])


if __name__ == "__main__":
    main()
