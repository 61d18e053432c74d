"""Pipelining: statements without results are sent with the next query or the COMMIT.

This needs a connection of ours that takes several statements at once. A statement without results,
or one that was `pipelined`, is buffered and sent with the next query or the COMMIT; the COMMIT is
sent with a statement that `commits`. The server stops at the first statement that fails, so none
after it is executed; its error is raised by the statement that it was sent with.
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

MOST_WAITING = 64_000  # characters; a larger statement is sent at once


def in_one_transaction(bracket: Bracket, steps: Query[R]) -> Query[R]:
    """Return steps as one transaction of this bracket; unchanged where one is open.

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
    """The buffered statements of a transaction, and whether it is committed."""

    bracket: Bracket
    waiting: list[Execute] = field(default_factory=list)
    committed: bool = False

    def say(self, request: Request) -> Query[Rows]:
        """Buffer a request, or send it with those buffered; return its rows."""
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
        """Send the buffered statements, and then this one."""
        first, *others = [*self.waiting, last]
        self.waiting.clear()
        return (yield first._replace(then=tuple(others)))


def _is_large(request: Execute) -> bool:
    rows: tuple[Row, ...] = request.params if request.many else (request.params,)
    return sum(len(each) for row in rows for each in row if isinstance(each, str)) > MOST_WAITING
