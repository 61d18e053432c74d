"""The answer to a scrape: the text of a registry, in the form that is asked for."""

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from mutirao.telemetry.prometheus.http_port import PortReply


def scraped(registry: CollectorRegistry, accept: str) -> PortReply:
    """Return what a registry says, as Prometheus's text, or as OpenMetrics if that is accepted."""
    encode, content_type = choose_encoder(accept)
    return PortReply(200, content_type, encode(registry))
