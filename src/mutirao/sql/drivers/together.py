"""Pipelining: statements without results are sent with the next query or the COMMIT.

What answers nothing waits until something is asked, or the COMMIT, and travels with that, where a
connection of ours takes several statements at once; and so does what is asked `soon`, and the
COMMIT with what says that it is the last. The server ends with the first that fails, so none is
done after it; its error is then that of what it travelled with.
"""

from dataclasses import dataclass, field

from mutirao.sql.drivers.steps import (
    WAITS,
    Autocommits,
    Bracket,
    Execute,
    Query,
    R,
    Request,
    Row,
    Rows,
    answered,
    command,
)

MOST_WAITING = 64_000  # characters; what is larger is said at once


def together(bracket: Bracket, steps: Query[R]) -> Query[R]:
    """Return steps as one transaction of this bracket; in one that is open, as they are.

    For steps that do not begin or end transactions themselves.
    """
    [(autocommits, *joins)] = yield Autocommits()
    if joins:
        return (yield from _joined(bracket, steps))
    return (yield from bracket.around(steps) if autocommits else steps)


def _joined(bracket: Bracket, steps: Query[R]) -> Query[R]:
    within = _Transaction(bracket, [command(bracket.begin)])
    try:
        found = yield from answered(steps, within.say)
        if not within.committed:
            yield from within.all(command(bracket.keep))
    except BaseException as error:
        yield from bracket.undo(error)
        raise
    return found


@dataclass(slots=True)
class _Transaction:
    """What waits in a transaction, and whether it is committed."""

    bracket: Bracket
    waiting: list[Execute] = field(default_factory=list)
    committed: bool = False

    def say(self, request: Request) -> Query[Rows]:
        """Let a request wait, or say it with what waits; return its rows."""
        if isinstance(request, Autocommits):
            return [(False,)]
        if not isinstance(request, Execute) or self.committed:
            raise TypeError(f"no statement that may travel with others: {request!r}")
        if _is_large(request):
            if self.waiting:
                yield from self.all(self.waiting.pop())
            return (yield request)
        if not request.answers or request.into is not None:
            self.waiting.append(request)
            return WAITS
        if not request.commits:
            return (yield from self.all(request))
        self.waiting.append(request)
        rows = yield from self.all(command(self.bracket.keep))
        self.committed = True
        return rows

    def all(self, last: Execute) -> Query[Rows]:
        """Say what waits, and then this."""
        first, *others = [*self.waiting, last]
        self.waiting.clear()
        return (yield first._replace(then=tuple(others)))


def _is_large(request: Execute) -> bool:
    rows: tuple[Row, ...] = request.params if request.many else (request.params,)
    return sum(len(each) for row in rows for each in row if isinstance(each, str)) > MOST_WAITING
