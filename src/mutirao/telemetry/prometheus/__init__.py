"""Metrics in Prometheus's text format: those of a worker, and those of the store.

There are two sources. A worker counts what it does, and is scraped at a port of its own. The state
of the store is the same for every worker: it is read once for a fleet, and never by each worker.
"""

from mutirao.errors import MissingDriver

try:
    import prometheus_client as prometheus_client
except ModuleNotFoundError as missing:
    raise MissingDriver(
        f"metrics need {missing.name}, which is not installed: run"
        " pip install 'mutirao[prometheus]'"
    ) from missing
