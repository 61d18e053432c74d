"""How many lanes a worker knows, in the error that a claim took too long."""

from collections.abc import Sized

from mutirao.errors import StoreBusy

FEW_LANES = 1_000


class told:  # noqa: N801 (used like `contextlib.suppress`)
    """Add the number of lanes to a StoreBusy of the block, where they are many; it goes on.

    May be entered again, and is no generator: an idle worker enters it between a wake-up and its
    claim.
    """

    __slots__ = ("_lanes",)

    def __init__(self, lanes: Sized) -> None:
        self._lanes = lanes

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        """Change the error of the block, if it is one."""
        if isinstance(error, StoreBusy) and len(self._lanes) > FEW_LANES:
            number = len(self._lanes)
            error.args = (f"{error}; jobs wait in {number:,} lanes: see `mutirao doctor`",)
