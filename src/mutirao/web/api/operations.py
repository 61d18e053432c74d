"""All operations of the API, in the order of its document."""

from itertools import chain

from mutirao.web.api import (
    bulk,
    enqueue,
    error_figures,
    jobs,
    limits,
    queues,
    schedules,
    workers,
)
from mutirao.web.api.operation import Operation

OPERATIONS: tuple[Operation, ...] = (
    *chain.from_iterable(
        each.OPERATIONS
        for each in (jobs, error_figures, enqueue, bulk, queues, schedules, limits, workers)
    ),
)
