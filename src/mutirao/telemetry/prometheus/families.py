"""Series of numbers, and the families of metrics that are made of them for Prometheus.

Plain numbers in dictionaries, which the event loop of a worker alone changes, and which a scrape
reads: a thousand attempts are added up in about a millisecond, and no lock is taken for one. The
library writes the text.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

Labels = tuple[str, ...]
# Seconds: of attempts and waits, from a handler that does nothing to one that takes an hour.
LONG = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
SHORT = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)  # of statements
SIZES = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # jobs of a claim
OTHERS = "(others)"  # the label of all that have no series of their own, as there are too many


class Named(NamedTuple):
    """The name of a family, its description, and its labels."""

    name: str
    says: str
    labels: Labels = ()


class Distribution:
    """How many values lie below each bound, and their sum."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Add a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def buckets(self) -> tuple[list[tuple[str, float]], float]:
        """Return (bound, how many are not above it), and the sum."""
        counts, total, below = list(self._counts), self._sum, 0
        found = []
        for bound, count in zip([*map(_bound, self._bounds), "+Inf"], counts, strict=True):
            below += count
            found.append((bound, float(below)))
        return found, total


class SeriesNames:
    """The names that have series of their own: a limited number, the first ones.

    Names of queues may be anything, such as ids. A series for each would overload the Prometheus
    that scrapes it.
    """

    def __init__(self, most: int) -> None:
        self._most, self._known = most, dict[Labels, Labels]()

    def label(self, names: Labels) -> Labels:
        """Return the labels for an object with these names."""
        found = self._known.get(names)
        if found is not None:
            return found
        if len(self._known) < self._most:
            return self._known.setdefault(names, tuple(map(written, names)))
        return (OTHERS,) * len(names)


def written(name: str) -> str:
    """Return a name in a form that text can hold: a row may contain half a character."""
    return name.encode(errors="backslashreplace").decode()


def counter(named: Named, values: Iterable[tuple[Labels, float]]) -> Metric:
    """Return a family of numbers that only grow."""
    family = CounterMetricFamily(named.name, named.says, labels=named.labels)
    return _filled(family, values)


def gauge(named: Named, values: Iterable[tuple[Labels, float]]) -> Metric:
    """Return a family of momentary numbers."""
    return _filled(GaugeMetricFamily(named.name, named.says, labels=named.labels), values)


def histogram(named: Named, values: Iterable[tuple[Labels, Distribution]]) -> Metric:
    """Return a family of distributions."""
    family = HistogramMetricFamily(named.name, named.says, labels=named.labels)
    for labels, each in values:
        buckets, total = each.buckets()
        family.add_metric(labels, buckets, total)
    return family


def _filled(
    family: CounterMetricFamily | GaugeMetricFamily, values: Iterable[tuple[Labels, float]]
) -> Metric:
    for labels, value in values:
        family.add_metric(labels, value)
    return family


def _bound(value: float) -> str:
    return repr(float(value))


def alone(value: float | None) -> Iterator[tuple[Labels, float]]:
    """Yield the one value of a family without labels, if there is one."""
    if value is not None:
        yield (), value
