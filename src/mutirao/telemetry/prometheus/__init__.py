"""Metrics in Prometheus's text: what a worker did, and what the store holds.

Two sources. A worker counts what it does, and is scraped at a port of its own. What the store holds
is the same the caller: it is read once for a fleet, and never by each worker.
"""

from mutirao.errors import MissingDriver

try:
    import prometheus_client as prometheus_client
except ModuleNotFoundError as missing:
    raise MissingDriver(
        f"metrics need {missing.name}, which is not installed: run"
        " pip install 'mutirao[prometheus]'"
    ) from missing
