"""The inbox of an application: which messages its consumers have handled."""

from collections.abc import Callable
from typing import Any

from mutirao.errors import InvalidJob, InvalidMessageId
from mutirao.ports import Store
from mutirao.tasks.validation import check_text

MAX_CONSUMER_NAME, MAX_MESSAGE_ID = 200, 255


class MessageInbox:
    """Remembers messages in the transaction of one connection or session; see `Inboxes.inbox`."""

    def __init__(self, store: Callable[[], Store], conn: object) -> None:
        self._store, self._conn = store, conn

    def remember(self, consumer: str, message: str | int) -> bool:
        """Remember that a consumer handles a message; return whether it is new.

        If it is not, its effects were committed before: leave them out. Both are part of the
        transaction, so a message whose effects were rolled back is new again. If another
        transaction has the same message at this moment, this waits until that has ended.

        Parameters:
            consumer: the name of the code that has these effects, 1 to 200 characters. Each
                consumer remembers for itself.
            message: the message's id, 1 to 255 characters or a number, such as `job.id`. It has
                to be the same at every repetition.

        Raises:
            InvalidMessageId: the name or the id cannot be stored.
            UnsupportedConnection: the connection is none of the accepted kinds, or asynchronous.
        """
        return self._store().remember(*_checked(consumer, message), self._conn)

    async def aremember(self, consumer: str, message: str | int) -> bool:
        """Remember from a coroutine, through an asynchronous connection; see `remember`.

        Parameters:
            consumer: the name of the code that has these effects, 1 to 200 characters.
            message: the message's id, 1 to 255 characters or a number.

        Raises:
            InvalidMessageId: the name or the id cannot be stored.
            UnsupportedConnection: the connection is none of the accepted kinds, or synchronous.
        """
        return await self._store().aremember(*_checked(consumer, message), self._conn)


class Inboxes:
    """The part of an application that remembers messages."""

    store: Store

    def inbox(self, conn: object) -> MessageInbox:
        """Return the inbox in the transaction of a connection or session.

        `conn` is the result of `job.transaction()`, or any connection or session that a job can be
        enqueued through. Nothing is committed or flushed.
        """
        return MessageInbox(lambda: self.store, conn)


def _checked(consumer: str, message: str | int) -> tuple[str, str]:
    is_number = isinstance(message, int) and not isinstance(message, bool)
    id: Any = str(message) if is_number else message
    try:
        check_text("name of the consumer", consumer, MAX_CONSUMER_NAME)
        check_text("id of the message", id, MAX_MESSAGE_ID)
    except InvalidJob as wrong:
        raise InvalidMessageId(str(wrong)) from None
    return consumer, id
