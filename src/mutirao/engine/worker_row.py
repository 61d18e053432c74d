"""A worker as its store knows it: its facts, and the id of its row."""

from mutirao.model.jobs.job import NewWorker
from mutirao.ports import Store


class WorkerRow:
    """The row of one worker.

    Attributes:
        store: where the row is.
        facts: what it says of the worker.
        id: 0 before it is registered; another one after the worker was considered gone.
    """

    __slots__ = ("facts", "id", "store")

    def __init__(self, store: Store, facts: NewWorker, id: int = 0) -> None:
        self.store, self.facts, self.id = store, facts, id
