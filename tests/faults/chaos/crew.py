"""The worker processes: started, killed, frozen and replaced."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from tests.faults.kit.workers import STOPPED, UNREACHABLE, start_worker

GRACE = 30.0  # seconds that workers have to end at the end
TOO_LATE = "was taken from this"  # what a worker says when the store rejects a run as stale


class Crew:
    """Workers on the database at `url`; what they say goes to files in `logs`.

    `heartbeat` and `expiry` are seconds. `broker`: the URL of one, None without. `problems`
    tells of workers that ended by themselves: whatever happens to the database and the broker, they
    must not, once they have started.
    """

    def __init__(
        self, url: str, logs: Path, heartbeat: float, expiry: float, broker: str | None
    ) -> None:
        self._settings = {
            "concurrency": 10,
            "heartbeat": heartbeat,
            "expiry": expiry,
            "poll": 0.5,
            "grace": GRACE,
            "doorbell_grace": expiry,
        }
        self._environment = {"CHAOS_DATABASE": url}
        if broker is not None:
            self._environment["CHAOS_BROKER"] = broker
        self._logs, self._expiry = logs, expiry
        self._workers: list[subprocess.Popen[bytes]] = []  # the oldest one first
        self._frozen: tuple[subprocess.Popen[bytes], float] | None = None  # and until when
        self._started = 0
        self.kills = 0
        self.freezes = 0
        self.problems: list[str] = []

    def start(self) -> None:
        """Start one more worker."""
        self._started += 1
        log = self._logs / f"{self._started}.log"
        target = f"{__package__}.app:app"
        worker = start_worker(target, log, self._environment, **self._settings)
        self._workers.append(worker)

    def kill_oldest(self) -> None:
        """End a worker at once, the one that has surely begun to work, and start another."""
        worker = self._workers.pop(0)
        worker.kill()
        worker.wait()
        self.kills += 1
        self.start()

    def replace_ended(self) -> None:
        """Start another worker for each that has ended by itself."""
        for worker in self._workers[:]:
            if worker.poll() is not None:
                self._workers.remove(worker)
                self.start()
                if worker.returncode != UNREACHABLE:
                    self.problems.append(f"worker {worker.pid} ended with {worker.returncode}")

    def freeze_one(self) -> None:
        """Suspend a worker until others have taken its jobs, as a paused machine would be."""
        self.thaw(now=float("inf"))
        worker = self._workers[len(self._workers) // 2]
        worker.send_signal(signal.SIGSTOP)
        self._frozen = worker, monotonic() + 1.5 * self._expiry
        self.freezes += 1

    def thaw(self, *, now: float) -> None:
        """Let the suspended worker go on when its time has come (`now`: monotonic seconds)."""
        if self._frozen is not None and now >= self._frozen[1]:
            self._frozen[0].send_signal(signal.SIGCONT)
            self._frozen = None

    def stop(self) -> None:
        """Stop all workers in order; one that does not end well is a problem."""
        self.thaw(now=float("inf"))
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            try:
                status = worker.wait(2 * GRACE)
            except subprocess.TimeoutExpired:
                worker.kill()
                status = worker.wait()
            # UNREACHABLE: it had started while the server was away, and nobody replaced it yet.
            if status not in (*STOPPED, UNREACHABLE):
                self.problems.append(f"worker {worker.pid} ended with {status} when stopped")
        self._workers.clear()

    def abandon(self) -> None:
        """Kill what is left."""
        for worker in self._workers:
            worker.kill()
            worker.wait()

    def rejected(self) -> set[tuple[int, int]]:
        """Return (job, run) of what workers brought too late, and were refused."""
        logs = (json.loads(line) for line in self._lines())
        return {(log["job"], log["run"]) for log in logs if TOO_LATE in log["message"]}

    def _lines(self) -> Iterator[str]:
        for log in self._logs.glob("*.log"):
            whole = log.read_text().rpartition("\n")[0]  # SIGKILL may cut the last line off
            yield from (line for line in whole.splitlines() if line.startswith("{"))


@contextmanager
def crew(
    url: str, logs: Path, size: int, heartbeat: float, expiry: float, broker: str | None = None
) -> Iterator[Crew]:
    """Lend `size` workers at work; whatever happens, none is left."""
    workers = Crew(url, logs, heartbeat, expiry, broker)
    try:
        for _ in range(size):
            workers.start()
        yield workers
    finally:
        workers.abandon()
