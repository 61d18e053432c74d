"""Names that SQS accepts: of queues, and of groups of messages."""

import re
from hashlib import sha256

LONGEST_QUEUE, LONGEST_GROUP = 80, 128  # characters
DEAD = "-dead"
FIFO = ".fifo"  # SQS knows its ordered queues by their names
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")
_UNFIT_IN_GROUP = re.compile(r"[^!-~]")


def queue_name(pattern: str, queue: str, *, dead: bool = False, fifo: bool = False) -> str:
    """Return the name at SQS of one of Mutirão's queues, or of the one that keeps its dead.

    `pattern` has "{queue}" in the place of the queue's name, if that is part of it; it may end in
    ".fifo" if `fifo` is true. What SQS does not accept in a name is replaced, and a digest of the
    name makes the result unique.
    """
    end = (DEAD if dead else "") + (FIFO if fifo else "")
    named = pattern.removesuffix(FIFO if fifo else "").replace("{queue}", queue)
    fit = _UNFIT.sub("_", named)
    most = LONGEST_QUEUE - len(DEAD + FIFO)
    if fit != named or len(fit) > most:
        digest = sha256(named.encode()).hexdigest()[:8]
        fit = f"{fit[: most - 9]}-{digest}"
    return fit + end


def group_name(group: str) -> str:
    """Return a group as a MessageGroupId; one that does not fit is replaced by its digest."""
    if group and len(group) <= LONGEST_GROUP and not _UNFIT_IN_GROUP.search(group):
        return group
    return sha256(group.encode()).hexdigest()
