"""What a stored count of lost workers says."""

from __future__ import annotations

import pytest

from mutirao.model.jobs.lost_workers import NOTE, Losses, noted, read


@pytest.mark.parametrize(
    ("stored", "workers", "unbegun"),
    [
        (0, 0, 0),
        (1, 1, 0),  # it may have begun
        (11, 1, 10),
        (noted(1), 1, 0),  # and was given back
        (noted(1) + 1, 2, 0),
        (noted(1) + 5, 2, 4),
        (noted(9) + 1, 10, 0),
    ],
)
def test_what_it_says(stored: int, workers: int, unbegun: int) -> None:
    """Of ends after a noted start each counts, of others the first."""
    assert read(stored) == Losses(workers, unbegun)


def test_it_fits() -> None:
    """A small integer holds it; and a worker of an older version takes it for none."""
    assert -(2**15) < noted(10) < 0
    assert NOTE > 100
