"""What befalls a server and a broker in the course of a run, one thing after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from tests.faults.chaos.aside import OneByOne
from tests.faults.kit.broker import Broker
from tests.support.servers import PrivateServer

CRASH, PURGE, CUT = "crashes of the server", "purges of all queues", "cuts of the network"


class Blow(NamedTuple):
    """Something that is done to a server once, and takes a while."""

    name: str
    deal: Callable[[], None]


class Blows:
    """Blows that are spread over a run. `dealt`: how many of which were begun."""

    def __init__(self, blows: Sequence[Blow]) -> None:
        self._blows, self._aside = blows, OneByOne()
        self.dealt: Counter[str] = Counter()

    @property
    def free(self) -> bool:
        """Whether none is being dealt. Raises what went wrong with the last one."""
        return self._aside.free

    @property
    def over(self) -> bool:
        """Whether all were dealt and have passed. Raises what went wrong with one."""
        return self.free and self.dealt.total() == len(self._blows)

    def deal_when_due(self, share: float, helper: ThreadPoolExecutor) -> None:
        """Deal the next one when its part of the work is done; others go on meanwhile."""
        number, parts = self.dealt.total(), len(self._blows) + 1
        if self.free and number + 1 < parts and share >= (number + 1) / parts:
            self._aside.do(self._blows[number].deal, helper)
            self.dealt[self._blows[number].name] += 1

    def wait(self) -> None:
        """Wait until the last one has passed. Raises what went wrong with it."""
        self._aside.wait()


def of_server(server: PrivateServer | None, crashes: int) -> list[Blow]:
    """Return the crashes of a database's server."""
    return [Blow(CRASH, server.crash)] * crashes if server is not None else []


def of_broker(
    broker: Broker, *, crashes: int, purges: int, cuts: int, cut_for: float
) -> list[Blow]:
    """Return what befalls a broker: a crash, the purges, the cuts, and the other crashes."""
    crash, purge = Blow(CRASH, broker.crash), Blow(PURGE, broker.purge)
    cut = Blow(CUT, partial(broker.cut, cut_for))
    return [*[crash] * min(1, crashes), *[purge] * purges, *[cut] * cuts, *[crash] * (crashes - 1)]
