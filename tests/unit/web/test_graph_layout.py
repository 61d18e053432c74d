"""Graphs are laid out: each step right of what it comes after, whatever the rows say."""

from __future__ import annotations

from hypothesis import given, strategies as st

from mutirao.model.jobs.job import JobState
from mutirao.model.jobs.records import StepRecord
from mutirao.web.drawing.graph_layout import GAP_X, HIGH, WIDE, laid_out


def step(job: int, *after: int) -> StepRecord:
    """Return a step."""
    return StepRecord(job=job, task=f"task {job}", stage="a", state=JobState.READY, after=after)


def test_a_diamond() -> None:
    """Two in the middle, one above the other; four lines."""
    drawing = laid_out([step(1), step(2, 1), step(3, 1), step(4, 2, 3)])
    places = {box.step.job: (box.x, box.y) for box in drawing.boxes}
    column = WIDE + GAP_X
    assert places[1] == (0, 0)
    assert places[2][0] == places[3][0] == column
    assert places[2][1] != places[3][1]
    assert places[4] == (2 * column, 0)
    assert len(drawing.lines) == 4
    assert drawing.width == 3 * WIDE + 2 * GAP_X


steps = st.integers(1, 12).flatmap(
    lambda most: st.lists(
        st.lists(st.integers(0, 13), max_size=4), min_size=most, max_size=most
    ).map(lambda after: [step(job, *before) for job, before in enumerate(after, 1)])
)


@given(steps)
def test_any_graph_can_be_drawn(given: list[StepRecord]) -> None:
    """Also one with steps that are not there, or that come after themselves in a circle."""
    drawing = laid_out(given)
    places = {(box.x, box.y) for box in drawing.boxes}
    assert len(places) == len(drawing.boxes) == len(given)
    assert all(box.x + WIDE <= drawing.width and box.y + HIGH <= drawing.height
               for box in drawing.boxes)  # fmt: skip


@given(steps)
def test_what_comes_later_stands_right(given: list[StepRecord]) -> None:
    """Where nothing comes after itself."""
    ordered = [step(each.job, *(job for job in each.after if 0 < job < each.job)) for each in given]
    x = {box.step.job: box.x for box in laid_out(ordered).boxes}
    assert all(x[before] < x[each.job] for each in ordered for before in each.after)
