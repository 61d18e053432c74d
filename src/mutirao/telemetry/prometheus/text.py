"""The answer to a scrape: the text of a registry, in the requested format."""

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from mutirao.telemetry.prometheus.http_port import PortReply


def scraped(registry: CollectorRegistry, accept: str) -> PortReply:
    """Return the text of a registry, for Prometheus, or as OpenMetrics if that is accepted."""
    try:
        encode, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # the caller may have written anything there
        encode, content_type = choose_encoder("")
    return PortReply(200, content_type, encode(registry))
