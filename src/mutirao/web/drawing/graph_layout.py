"""A graph as boxes and lines: each step is to the right of all that it comes after.

Steps of one column are ordered by the places of the steps that they come after, so that few lines
cross. A step after steps that are not shown, or after itself in a row written by hand, is drawn,
too.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mutirao.model.jobs.records import StepRecord

WIDE, HIGH, GAP_X, GAP_Y = 168, 40, 56, 14
MOST_TEXT = 21  # characters that a box has room for


class Box(NamedTuple):
    """A step, and the upper left corner of its box."""

    step: StepRecord
    x: int
    y: int

    @property
    def title(self) -> str:
        """Return as much of the task's name as there is room for."""
        name = self.step.task
        return name if len(name) <= MOST_TEXT else name[: MOST_TEXT - 1] + "…"


class Line(NamedTuple):
    """From the right of one box to the left of another."""

    x1: int
    y1: int
    x2: int
    y2: int

    @property
    def middle(self) -> int:
        """Return where it turns."""
        return (self.x1 + self.x2) // 2


class Drawing(NamedTuple):
    """A graph as it is drawn."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]


def laid_out(steps: Sequence[StepRecord]) -> Drawing:
    """Return where each step stands."""
    known = {step.job: step for step in steps}
    columns: dict[int, list[StepRecord]] = defaultdict(list)
    depths = _depths(known)
    for step in steps:
        columns[depths[step.job]].append(step)
    boxes: dict[int, Box] = {}
    for depth, column in sorted(columns.items()):
        column.sort(key=lambda step: (_height(step, boxes), step.job))
        for row, step in enumerate(column):
            boxes[step.job] = Box(step, depth * (WIDE + GAP_X), row * (HIGH + GAP_Y))
    lines = tuple(
        _line(boxes[before], box)
        for box in boxes.values()
        for before in box.step.after
        if before in boxes and before != box.step.job
    )
    most = max((len(column) for column in columns.values()), default=0)
    return Drawing(
        max(0, len(columns) * (WIDE + GAP_X) - GAP_X),
        max(0, most * (HIGH + GAP_Y) - GAP_Y),
        tuple(boxes.values()),
        lines,
    )


def _depths(known: Mapping[int, StepRecord]) -> dict[int, int]:
    """Return the column of each: one more than that of the last of those before it."""
    depths = dict.fromkeys(known, 0)
    for _ in known:
        before = dict(depths)
        for id, step in known.items():
            found = [depths[each] for each in step.after if each in known and each != id]
            depths[id] = min(max(found, default=-1) + 1, len(known) - 1)
        if depths == before:
            break
    filled = {depth: place for place, depth in enumerate(sorted({*depths.values()}))}
    return {id: filled[depth] for id, depth in depths.items()}


def _height(step: StepRecord, boxes: Mapping[int, Box]) -> float:
    before = [boxes[each].y for each in step.after if each in boxes]
    return sum(before) / len(before) if before else 0.0


def _line(before: Box, after: Box) -> Line:
    return Line(before.x + WIDE, before.y + HIGH // 2, after.x, after.y + HIGH // 2)
