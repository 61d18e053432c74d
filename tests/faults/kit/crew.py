"""The worker processes of a machine: started, killed, frozen, replaced and stopped."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from tests.faults.kit.workers import STOPPED, UNREACHABLE, record_of, start_worker

C = TypeVar("C", bound="Crew")


class Crew:
    """Workers of one application. `problems` tells of those that did not end as they should.

    Parameters:
        target: the application, as `module:attribute`.
        environment: variables of the workers.
        logs: the directory of what they say, in a file each.
        settings: options of `mutirao worker`; `grace` and `expiry` must be among them.
        unreachable: they may find no database when they start, and end for that; then another one
            is started.
    """

    def __init__(
        self,
        target: str,
        environment: Mapping[str, str],
        logs: Path,
        settings: Mapping[str, float],
        *,
        unreachable: bool = False,
    ) -> None:
        self._target, self._environment, self._logs = target, environment, logs
        self._settings = settings
        self._excused = (UNREACHABLE,) if unreachable else ()
        self._workers: list[subprocess.Popen[bytes]] = []  # the oldest one first
        self._frozen: tuple[subprocess.Popen[bytes], float] | None = None  # and until when
        self._files: list[Path] = []
        self.kills = 0
        self.freezes = 0
        self.problems: list[str] = []

    def start(self) -> None:
        """Start one more worker."""
        log = self._logs / f"worker-{len(self._files) + 1}.log"
        log.unlink(missing_ok=True)  # of an earlier run
        self._files.append(log)
        self._workers.append(start_worker(self._target, log, self._environment, **self._settings))

    def replace_ended(self) -> None:
        """Start another worker for each that has ended by itself, which is a problem."""
        for worker in self._workers[:]:
            if worker.poll() is not None:
                self._workers.remove(worker)
                self.start()
                if worker.returncode not in self._excused:
                    self._complain(worker, "by itself")

    def kill_oldest(self) -> None:
        """End a worker at once, the one that has surely begun to work, and start another."""
        worker = self._workers.pop(0)
        worker.kill()
        worker.wait()
        self.kills += 1
        self.start()

    def freeze_one(self) -> None:
        """Suspend a worker until others have taken its jobs, as a paused machine would be."""
        self.thaw(now=float("inf"))
        worker = self._workers[len(self._workers) // 2]
        worker.send_signal(signal.SIGSTOP)
        self._frozen = worker, monotonic() + 1.5 * self._settings["expiry"]
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
                worker.wait(2 * self._settings["grace"])
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
            # Excused: it had started while the server was away, and nobody replaced it yet.
            if worker.returncode not in (*STOPPED, *self._excused):
                self._complain(worker, "when stopped")
        self._workers.clear()

    def abandon(self) -> None:
        """Kill what is left."""
        for worker in self._workers:
            worker.kill()
            worker.wait()

    def said(self) -> Iterator[dict[str, Any]]:
        """Yield what the workers have said; what is no record has its line as its `message`."""
        for log in self._files:
            whole = log.read_text(errors="replace").rpartition("\n")[0]  # SIGKILL may cut one off
            for line in whole.splitlines():
                yield record_of(line) or {"message": line}

    def _complain(self, worker: subprocess.Popen[bytes], when: str) -> None:
        self.problems.append(f"worker {worker.pid} ended {when} with {worker.returncode}")


@contextmanager
def at_work(crew: C, size: int) -> Iterator[C]:
    """Have so many workers work in the block; whatever happens, none is left after it."""
    try:
        for _ in range(size):
            crew.start()
        yield crew
    finally:
        crew.abandon()
