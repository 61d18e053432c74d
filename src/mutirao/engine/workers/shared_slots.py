"""The parts that workers of one process share; each worker serves one database."""

from mutirao.engine.calls.processes import Processes
from mutirao.engine.calls.threads import Threads
from mutirao.engine.dispatch.slots import Slots
from mutirao.engine.liveness.heartbeat import HeartbeatThread
from mutirao.engine.settings import WorkerSettings
from mutirao.engine.workers.newer_workers import VersionWatch
from mutirao.log import log


class SharedSlots:
    """The slots, threads and child processes of handlers, the thread of heartbeats, and known other
    versions of the application.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self.threads = Threads(self._on_slot_freed)
        self.processes = Processes(self.threads, settings.defaults)
        self.starts = self.threads.starts, self.processes.starts
        self.slots = Slots(settings.concurrency, self.threads)
        self.heart = HeartbeatThread()
        self.deploys = VersionWatch(settings)

    def close(self) -> None:
        """Let threads and child processes end; the heartbeat thread ends with the last beat."""
        self.threads.close()
        self.processes.close()

    def _on_slot_freed(self) -> None:
        log.info("a stuck handler has returned; its slot is free again")
        self.slots.pump_all()
