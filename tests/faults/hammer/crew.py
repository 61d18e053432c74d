"""The worker processes: started, watched, stopped; and what they said of their database."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.kit.workers import STOPPED, start_worker

GRACE = 20.0  # seconds that workers have to end at the end
_TROUBLE = re.compile(r"deadlock|serializ|not to be had|locked|somebody else writes", re.IGNORECASE)
_VARIES = re.compile(r"\d+(?:\.\d+)?|'[^']*'")


class Crew:
    """Workers on the database at `url`; what they say goes to files in `logs`.

    `module` of this package has their application.
    """

    def __init__(self, url: str, logs: Path, module: str = "app") -> None:
        self._target = f"{__package__}.{module}:app"
        self._environment = {"HAMMER_DATABASE": url}
        self._logs = logs
        self._workers: list[subprocess.Popen[bytes]] = []
        self._started = 0
        self.problems: list[str] = []

    def start(self) -> None:
        """Start one more worker."""
        self._started += 1
        log = self._logs / f"hammer-{self._started}.log"
        log.unlink(missing_ok=True)  # of an earlier run
        settings = {"heartbeat": 2.0, "expiry": 10.0, "poll": 0.5, "grace": GRACE}
        self._workers.append(start_worker(self._target, log, self._environment, **settings))

    def look(self) -> None:
        """Note each worker that has ended by itself, and start another in its place."""
        for worker in self._workers[:]:
            if worker.poll() is not None:
                self._workers.remove(worker)
                self.problems.append(
                    f"worker {worker.pid} ended by itself with {worker.returncode}"
                )
                self.start()

    def stop(self) -> None:
        """Stop all workers in order; one that does not end well is a problem."""
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            try:
                status = worker.wait(2 * GRACE)
            except subprocess.TimeoutExpired:
                status = None
            if status not in STOPPED:
                self.problems.append(f"worker {worker.pid} ended with {status} when stopped")

    def abandon(self) -> None:
        """Kill what is left."""
        for worker in self._workers:
            worker.kill()
            worker.wait()

    def troubles(self) -> Counter[str]:
        """Return how often workers said what of locks, without what differs each time."""
        found: Counter[str] = Counter()
        for number in range(1, self._started + 1):
            log = self._logs / f"hammer-{number}.log"
            for line in log.read_text(errors="replace").splitlines():
                message = _message(line)
                if _TROUBLE.search(message):
                    found[_VARIES.sub("…", message)[:200]] += 1
        return found


@contextmanager
def crew(url: str, logs: Path, size: int, module: str = "app") -> Iterator[Crew]:
    """Lend `size` workers at work; whatever happens, none is left."""
    workers = Crew(url, logs, module)
    try:
        for _ in range(size):
            workers.start()
        yield workers
    finally:
        workers.abandon()


def _message(line: str) -> str:
    try:
        return str(json.loads(line)["message"])
    except (ValueError, KeyError, TypeError):
        return line
