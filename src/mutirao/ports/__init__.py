"""The protocols between the engine and the outside world, with their contracts.

A backend implements these and passes the suites in `mutirao_conformance`; the engine knows
nothing else about it.
"""

from mutirao.model.jobs.job import Attempt
from mutirao.ports.intake import Intake
from mutirao.ports.notifier import Announcer, ChoosingNotifier, Notifier
from mutirao.ports.records_api import RecordsApi
from mutirao.ports.store import Store
from mutirao.ports.transport import Consumer, Transport

__all__ = [
    "Announcer",
    "Attempt",
    "ChoosingNotifier",
    "Consumer",
    "Intake",
    "Notifier",
    "RecordsApi",
    "Store",
    "Transport",
]
