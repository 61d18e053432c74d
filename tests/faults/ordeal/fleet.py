"""The worker processes, kept running as a process manager keeps them, and disturbed one by one."""

from __future__ import annotations

import signal
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import monotonic, time

from tests.faults.kit.workers import STOPPED, UNREACHABLE, record_of, start_worker
from tests.faults.ordeal.app import QUEUES, queue_at
from tests.faults.ordeal.findings import Findings
from tests.faults.ordeal.plan import Plan
from tests.faults.ordeal.stacks import ASKED_BY
from tests.support.binaries import find_faketime

RESTART = 1.0  # seconds until another process takes the place of one that has ended
LATE = 10.0  # seconds beyond its grace that a worker may take to end
DOORBELL_GRACE = 5.0  # seconds after which a doorbell is lost that nobody has answered
CLOCK_READ = 1.0  # seconds within which a process notices that its clock was set


@dataclass(frozen=True)
class Ending:
    """How a process ended. `asked` is what it was asked for: "kill", "stop", or nothing.

    `took` is the seconds from the moment it was asked, or said that it had failed, to its end.
    """

    place: int
    status: int
    asked: str
    trouble: str
    took: float | None
    said: str


class Place:
    """Where one worker process runs; another one takes its place when it has ended."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.log = Path()
        self.log_from = 0  # where the process began to write
        self.started = 0.0  # monotonic
        self.next_start = 0.0  # monotonic
        self.asked = ""
        self.asked_at = 0.0  # monotonic


class Fleet:
    """As many places as the plan says. Methods may be called from any thread.

    Parameters:
        url, broker: the database and the broker, as workers reach them; the latter "" if none is.
        directory: where notes, clocks and logs go.
        clocks: the places whose clocks can be set.
    """

    def __init__(
        self, plan: Plan, url: str, broker: str, directory: Path, logs: Path, findings: Findings
    ) -> None:
        self._plan, self._url, self._broker, self._findings = plan, url, broker, findings
        self._logs = logs
        self.notes, self._clocks = directory / "notes", directory / "clocks"
        self.notes.mkdir()
        self._clocks.mkdir()
        self._lock = threading.RLock()
        self._places = [Place(number) for number in range(plan.workers)]
        self._set_clocks: set[int] = set()
        self._open = False
        self.endings: list[Ending] = []

    # Running.

    def start(self) -> None:
        """Have a process at each place, from now on."""
        self._open = True
        self.supervise()

    def supervise(self) -> None:
        """Note which processes have ended, and start others in their places."""
        with self._lock:
            for place in self._places:
                self._look_at(place)

    def stop(self) -> None:
        """Stop all workers in order, and wait until they have ended."""
        with self._lock:
            self._open = False
            for place in self._places:
                self._ask(place, "stop", signal.SIGTERM)
        deadline = monotonic() + self._plan.grace + 2 * LATE
        while self.running() and monotonic() < deadline:
            for process in self.running().values():
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.1)
            self.supervise()
        self.supervise()

    def abandon(self) -> None:
        """Kill what is left."""
        self._open = False
        for process in self.running().values():
            process.kill()
            process.wait()
        for place in self._places:
            self._clean_up_after(place)

    def running(self) -> dict[int, subprocess.Popen[bytes]]:
        """Return the process at each place where one runs."""
        with self._lock:
            found = {place.number: place.process for place in self._places}
        return {n: process for n, process in found.items() if process and process.poll() is None}

    def places(self) -> range:
        """Return the numbers of all places."""
        return range(len(self._places))

    def ages(self) -> dict[int, float]:
        """Return the seconds for which the process at each place has run."""
        with self._lock:
            running = [place for place in self._places if place.process is not None]
            return {place.number: monotonic() - place.started for place in running}

    # Disturbing.

    def send(self, number: int, what: signal.Signals) -> None:
        """Send a signal to the process at a place, if one runs there."""
        with self._lock:
            process = self._places[number].process
            if process is not None:
                process.send_signal(what)

    def kill(self, number: int) -> None:
        """End the process at a place at once."""
        with self._lock:
            self._ask(self._places[number], "kill", signal.SIGKILL)

    def ask_where(self, number: int) -> None:
        """Have the process at a place, which is about to be killed, log all its stacks."""
        with self._lock:
            self._ask(self._places[number], "kill", ASKED_BY)

    def ask_to_stop(self, number: int) -> None:
        """Tell the process at a place to stop in order."""
        with self._lock:
            self._ask(self._places[number], "stop", signal.SIGTERM)

    def set_clock(self, number: int, offset: float) -> None:
        """Put the clock of a place on by some seconds, or back."""
        clock = self._clocks / str(number)
        (new := clock.with_suffix(".new")).write_text(f"{offset:+.3f}\n")
        new.replace(clock)

    def can_set_clocks(self, numbers: set[int]) -> None:
        """Give the processes at these places clocks that can be set; before they start."""
        find_faketime()
        self._set_clocks = numbers
        for number in numbers:
            self.set_clock(number, 0.0)

    def last_words(self, number: int) -> str:
        """Return the last warning or worse of the process at a place."""
        return _last_record(self._places[number]).get("message", "nothing")

    def find_undead(self) -> None:
        """Tell of processes that said they had failed, and have not ended in time."""
        most = self._plan.grace + LATE
        for number, process in self.running().items():
            ago = _since(_last_record(self._places[number], "CRITICAL"))
            if ago is not None and ago > most:
                self._findings.add(
                    f"worker {number} (pid {process.pid}) said {ago:.0f} s ago that it had failed,"
                    f" and has not ended; its grace is {self._plan.grace:g} s"
                )

    # How it is done.

    def _look_at(self, place: Place) -> None:
        process = place.process
        if process is not None and process.poll() is not None:
            self._ended(place, process.returncode)
        elif process is not None and place.asked == "stop":
            self._hurry_on(place, process)
        elif process is None and self._open and monotonic() >= place.next_start:
            self._start(place)

    def _hurry_on(self, place: Place, process: subprocess.Popen[bytes]) -> None:
        if monotonic() - place.asked_at > self._plan.grace + LATE:
            self._findings.add(
                f"worker {place.number} (pid {process.pid}) did not end within its grace of"
                f" {self._plan.grace:g} s and {LATE:g} s more; killed"
            )
            process.kill()

    def _clean_up_after(self, place: Place) -> None:
        """Remove what libfaketime leaves of a process that was killed."""
        if place.number in self._set_clocks and place.process is not None:
            for name in ("faketime_shm_{}", "sem.faketime_sem_{}"):
                Path("/dev/shm", name.format(place.process.pid)).unlink(missing_ok=True)  # noqa: S108

    def _ask(self, place: Place, what: str, number: signal.Signals) -> None:
        if place.process is not None and place.process.poll() is None:
            place.asked, place.asked_at = what, monotonic()
            place.process.send_signal(number)

    def _start(self, place: Place) -> None:
        plan = self._plan
        place.log = self._logs / f"worker-{place.number}.log"
        place.log.touch()
        place.log_from = place.log.stat().st_size
        place.process = start_worker(
            f"{__package__}.app:app",
            place.log,
            self._environment(place.number),
            queues=",".join((*QUEUES, queue_at(place.number))),
            heartbeat=plan.heartbeat,
            expiry=plan.expiry,
            poll=plan.poll,
            grace=plan.grace,
            doorbell_grace=DOORBELL_GRACE,
        )
        place.started, place.asked = monotonic(), ""

    def _environment(self, number: int) -> dict[str, str]:
        clock = {
            "LD_PRELOAD": str(find_faketime()),
            "FAKETIME_TIMESTAMP_FILE": str(self._clocks / str(number)),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_CACHE_DURATION": str(int(CLOCK_READ)),
            # Otherwise version 0.9.10 lets threads spin that wait for the interpreter's lock: the
            # heartbeat's took 11 % of a processor instead of half a per cent.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        }
        return {
            "ORDEAL_DATABASE": self._url,
            "ORDEAL_BROKER": self._broker,
            "ORDEAL_PLACE": str(number),
            "ORDEAL_NOTES": str(self.notes),
        } | (clock if number in self._set_clocks else {})

    def _ended(self, place: Place, status: int) -> None:
        asked, trouble = place.asked, self._findings.trouble
        record = {} if asked else _last_record(place, "CRITICAL")
        took = monotonic() - place.asked_at if asked else _since(record)
        said = str(record.get("message", ""))
        self.endings.append(Ending(place.number, status, asked, trouble, took, said))
        self._clean_up_after(place)
        place.process, place.next_start = None, monotonic() + RESTART
        fine = {"": (UNREACHABLE,), "kill": (-signal.SIGKILL, -ASKED_BY, *STOPPED), "stop": STOPPED}
        if status not in fine[asked] and not (asked == "stop" and status == -signal.SIGKILL):
            told = f" when asked to {asked}" if asked else f" by itself, and said last: {said}"
            self._findings.add(
                f"worker {place.number} ended with {status}{told}",
                about=("ended", place.number, status, trouble),
            )


def _last_record(place: Place, level: str | None = None) -> dict[str, str]:
    """Return the last record of a place's process, of some level or of any, if there is one."""
    with place.log.open("rb") as log:
        log.seek(place.log_from)
        lines = log.read().decode(errors="replace").splitlines()
    for line in reversed(lines[-2_000:]):
        record = record_of(line)
        if record is not None and level in (None, record.get("level")):
            return record
    return {}


def _since(record: dict[str, str]) -> float | None:
    if "time" not in record:
        return None
    return time() - datetime.fromisoformat(record["time"]).timestamp()
