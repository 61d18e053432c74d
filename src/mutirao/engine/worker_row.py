"""A worker as its store knows it: its description, and the id of its row."""

from mutirao.model.jobs.job import NewWorker
from mutirao.ports import Store


class WorkerRow:
    """The row of one worker.

    Attributes:
        store: the store with the row.
        facts: the description of the worker in the row.
        id: 0 before it is registered; another one after the worker was considered gone.
    """

    __slots__ = ("facts", "id", "store")

    def __init__(self, store: Store, facts: NewWorker, id: int = 0) -> None:
        self.store, self.facts, self.id = store, facts, id
