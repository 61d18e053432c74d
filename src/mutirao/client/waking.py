"""The part of an application that wakes workers, through its hub."""

from mutirao.model.jobs.job import MAX_QUEUE_NAME, Wake
from mutirao.ports import Announcer
from mutirao.tasks.validation import check_text


class Waking:
    """The part of an application that announces jobs which other programs have written."""

    _hub: Announcer | None

    def wake(self, *queues: str) -> None:
        """Notify the hub that jobs may be due, so that idle workers look for them.

        For programs that write jobs through a connection whose commit is not observed. Call it
        after the commit. Never waits, and does nothing without a hub: workers poll.

        Parameters:
            queues: the queues of the jobs; none: any.

        Raises:
            InvalidJob: a queue's name is no text that a queue may have.
        """
        for queue in queues:
            check_text("queue name", queue, MAX_QUEUE_NAME)
        if self._hub is not None:
            for each in queues or (None,):
                self._hub.announce(Wake(each))
