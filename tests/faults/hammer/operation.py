"""What an operation is: who does it, how often, and whether it makes more jobs wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random

from tests.faults.hammer.hand import Hand


@dataclass(frozen=True)
class Operation:
    """Something that is done again and again.

    Parameters:
        who: the user that does it.
        act: does it once.
        weight: how often, beside the others.
        grows: it adds jobs that no key holds down.
    """

    who: str
    act: Callable[[Hand], Awaitable[None]]
    weight: int
    grows: bool = False

    @property
    def name(self) -> str:
        """What people call it."""
        return str(getattr(self.act, "__name__", self.act)).replace("_", " ")


def chosen(operations: Sequence[Operation], dice: Random, crowded: bool) -> Operation:
    """Return what is done next; where it is crowded, nothing that makes it more so."""
    possible = [each for each in operations if not (crowded and each.grows)]
    return dice.choices(possible, [each.weight for each in possible])[0]
