"""Records handled messages in the transaction of their effects."""

from dataclasses import dataclass

from mutirao.sql.drivers.steps import Execute, Steps


@dataclass(frozen=True, slots=True)
class InboxStatements:
    """A dialect's statements about a message of a consumer; both have these two parameters.

    `write` counts it: the first time a row is inserted, for which a second transaction waits until
    the first one has ended. `count`, where `write` returns nothing, reads how often it was counted.
    """

    write: str
    count: str | None = None


def remember(words: InboxStatements, consumer: str, message: str) -> Steps:
    """Count a message, and return how often it was counted, as the only element.

    Not "look, then insert": two transactions would both find nothing. Nor by the number of rows
    that an INSERT reports: not every driver does, and some report those that were found.
    """
    which = (consumer, message)
    rows = yield Execute(words.write, which, answers=words.count is None)
    if words.count is not None:
        rows = yield Execute(words.count, which)
    return [rows[0][0]]
