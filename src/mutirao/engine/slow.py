"""How many lanes a worker knows, in the error that a claim took too long."""

from collections.abc import Iterator, Sized
from contextlib import contextmanager

from mutirao.errors import StoreBusy

FEW_LANES = 1_000


@contextmanager
def told(lanes: Sized) -> Iterator[None]:
    """Add the number of lanes to a StoreBusy of the block, where they are many; it goes on."""
    try:
        yield
    except StoreBusy as error:
        if len(lanes) > FEW_LANES:
            error.args = (f"{error}; jobs wait in {len(lanes):,} lanes: see `mutirao doctor`",)
        raise
