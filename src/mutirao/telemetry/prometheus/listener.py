"""The port of one worker: its metrics and its probes, from before its start to its end."""

from functools import partial

from mutirao.log import log
from mutirao.ports.measurements import MeasuredWorker, WorkerCondition
from mutirao.telemetry.prometheus.http_port import Answer, HttpServer, probes
from mutirao.telemetry.prometheus.text import scraped
from mutirao.telemetry.prometheus.worker_metrics import WorkerMetrics

GONE = WorkerCondition(live=False, ready=False, reason="it has ended")


class WorkerPort(WorkerMetrics):
    """The metrics of a worker, served at a port of their own.

    Parameters:
        host: the address to listen at.
        port: 0: any that is free, which the log says.
    """

    def __init__(self, host: str, port: int) -> None:
        super().__init__()
        metrics: Answer = partial(scraped, self.registry())
        answers = {"/metrics": metrics, **probes(self._condition)}
        self._server = HttpServer(host, port, answers, "metrics_port")

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._server.url

    def begin(self, worker: MeasuredWorker) -> None:
        """Listen, and read this worker. Raises ConfigurationError if the port is taken."""
        super().begin(worker)
        self._server.start()
        log.info("metrics at %s/metrics", self._server.url)

    def end(self, worker: MeasuredWorker) -> None:
        """Listen no more."""
        self._server.stop()
        super().end(worker)

    def _condition(self) -> WorkerCondition:
        return GONE if self._worker is None else self._worker.condition()
