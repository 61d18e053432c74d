"""The order of messages within their groups, in queues that keep one.

SQS hands out several messages of a group at once. They run one after another, and a group stops at
the first failure: the rest is given back, and is received again behind it.
"""

from collections import deque
from collections.abc import Iterable

from mutirao.transports.sqs.leases import Lease


class Groups:
    """The held messages of each group. One without a group has its turn at once."""

    def __init__(self) -> None:
        self._groups: dict[str, deque[Lease]] = {}

    def arrive(self, leases: Iterable[Lease]) -> list[Lease]:
        """Take received messages, in their order; return those that may be worked on now."""
        turns = []
        for each in leases:
            if each.group is None:
                turns.append(each)
                continue
            line = self._groups.setdefault(each.group, deque())
            line.append(each)
            if len(line) == 1:
                turns.append(each)
        return turns

    def over(self, lease: Lease) -> Lease | None:
        """Take out one that is done with for good; return the one whose turn it is then."""
        line = self._groups.get(lease.group) if lease.group is not None else None
        if line is None or lease not in line:
            return None
        had_its_turn = line[0] is lease
        line.remove(lease)
        if not line:
            del self._groups[lease.group or ""]
        return line[0] if line and had_its_turn else None

    def stop(self, lease: Lease) -> list[Lease]:
        """Take out one that is to be delivered again, with all behind it; return those."""
        line = self._groups.get(lease.group) if lease.group is not None else None
        if line is None or lease not in line:
            return []
        behind = list(line)[line.index(lease) + 1 :]
        for each in (lease, *behind):
            line.remove(each)
        if not line:
            del self._groups[lease.group or ""]
        return behind
