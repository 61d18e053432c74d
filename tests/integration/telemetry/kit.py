"""What the tests of metrics share: samples by name and labels, and an HTTP request."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families


class Told(NamedTuple):
    """An HTTP answer."""

    status: int
    content_type: str
    text: str


def asked(url: str) -> Told:
    """Ask for a URL; return the answer, whatever its status."""
    try:
        with urllib.request.urlopen(url, timeout=60) as reply:  # noqa: S310 (our own)
            found = reply.status, reply.headers["Content-Type"], reply.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            found = refused.code, refused.headers["Content-Type"], refused.read().decode()
    return Told(*found)


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Return the samples of a text, by the name and the values of its labels, in their order."""
    return {
        (each.name, *(each.labels[label] for label in sorted(each.labels))): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }
