"""Steps as one transaction, in as few round trips as can be.

What answers nothing waits until something is asked, or the COMMIT, and travels with that, where a
connection of ours takes several statements at once. The server ends with the first that fails, so
none is done after it; its error is then that of what it travelled with.
"""

from functools import partial

from mutirao.sql.drivers.steps import (
    Asking,
    Autocommits,
    Bracket,
    Execute,
    R,
    Request,
    Row,
    Rows,
    answered,
    command,
)

MOST_WAITING = 64_000  # characters; what is larger is said at once


def together(bracket: Bracket, steps: Asking[R]) -> Asking[R]:
    """Return steps as one transaction of this bracket; in one that is open, as they are.

    For steps that do not begin or end transactions themselves.
    """
    [(autocommits, *joins)] = yield Autocommits()
    if joins:
        return (yield from _joined(bracket, steps))
    return (yield from bracket.around(steps) if autocommits else steps)


def _joined(bracket: Bracket, steps: Asking[R]) -> Asking[R]:
    waiting = [command(bracket.begin)]
    try:
        found = yield from answered(steps, partial(_say, waiting))
        yield from _all(waiting, command(bracket.keep))
    except BaseException as error:
        yield from bracket.undo(error)
        raise
    return found


def _say(waiting: list[Execute], request: Request) -> Asking[Rows]:
    """Let a request wait, or say it with what waits; return its rows."""
    if isinstance(request, Autocommits):
        return [(False,)]
    if not isinstance(request, Execute):
        raise TypeError(f"no statement that may travel with others: {request!r}")
    if _is_large(request):
        if waiting:
            yield from _all(waiting, waiting.pop())
        return (yield request)
    if not request.answers:
        waiting.append(request)
        return []
    return (yield from _all(waiting, request))


def _all(waiting: list[Execute], last: Execute) -> Asking[Rows]:
    first, *others = [*waiting, last]
    waiting.clear()
    return (yield first._replace(then=tuple(others)))


def _is_large(request: Execute) -> bool:
    rows: tuple[Row, ...] = request.params if request.many else (request.params,)
    return sum(len(each) for row in rows for each in row if isinstance(each, str)) > MOST_WAITING
