"""Charts as numbers: columns of attempts over time, and attempts of one job on a line.

Templates draw them as SVG that is stretched to the space there is; all words stand beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil, log10
from typing import NamedTuple

WIDTH, HEIGHT = 600.0, 120.0


class Point(NamedTuple):
    """The attempts that ended in one span of time."""

    at: datetime
    good: int
    bad: int


class Column(NamedTuple):
    """A column: where it stands, and where its two parts begin and how high they are."""

    point: Point
    x: float
    width: float
    good_y: float
    good: float
    bad_y: float
    bad: float


@dataclass(frozen=True, slots=True)
class Chart:
    """Columns, and the number at the top."""

    columns: tuple[Column, ...]
    top: int

    @property
    def good(self) -> int:
        """All that succeeded."""
        return sum(each.point.good for each in self.columns)

    @property
    def bad(self) -> int:
        """All that failed."""
        return sum(each.point.bad for each in self.columns)


def chart(points: Sequence[Point]) -> Chart:
    """Return the columns of these points, in their order; of a part of few a line still shows."""
    top = _round(max((each.good + each.bad for each in points), default=0))
    step = WIDTH / max(len(points), 1)
    columns = []
    for place, point in enumerate(points):
        good, bad = (max(part / top * HEIGHT, 1.5) if part else 0.0 for part in point[1:])
        good = min(good, HEIGHT - bad)
        columns.append(Column(
            point, round(place * step, 2), round(step, 2),
            round(HEIGHT - good, 2), round(good, 2), round(HEIGHT - good - bad, 2), round(bad, 2),
        ))  # fmt: skip
    return Chart(tuple(columns), top)


def _round(most: int) -> int:
    """Return a number that is easy to read, not below the largest."""
    if most <= 4:
        return 4
    size: int = 10 ** int(log10(most))
    return next(whole for step in (1, 2, 2.5, 4, 5, 8, 10) if (whole := ceil(step * size)) >= most)


class Span(NamedTuple):
    """A part of a line: where it begins and how long it is, in percent."""

    start: float
    length: float


def spans(
    parts: Sequence[tuple[datetime, datetime]], first: datetime, last: datetime
) -> tuple[Span, ...]:
    """Return spans of time on a line from `first` to `last`; the shortest are still to be seen."""
    whole = max((last - first).total_seconds(), 1e-3)
    found = []
    for begin, end in parts:
        start = min(max((begin - first).total_seconds() / whole * 100, 0.0), 99.2)
        size = max((end - begin).total_seconds() / whole * 100, 0.8)
        found.append(Span(round(start, 2), round(min(size, 100 - start), 2)))
    return tuple(found)
