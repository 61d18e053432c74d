"""What handlers of several machines do alike: they fail now and then."""

from __future__ import annotations

import random


class Stumbled(Exception):
    """An attempt fails, as attempts do."""


def stumble(share: float = 0.02) -> None:
    """Fail in so many of all cases."""
    if random.random() < share:
        raise Stumbled
