"""The protocols between the engine and the outside world, with their contracts.

A backend implements these and passes the suites in `mutirao_conformance`; the engine knows
nothing else about it. A store has seven parts, each of a protocol here.
"""

from mutirao.model.jobs.job import Attempt
from mutirao.ports.audit import AuditApi
from mutirao.ports.endpoints import EndpointsApi
from mutirao.ports.federation import FederationApi
from mutirao.ports.intake import Intake
from mutirao.ports.limits import LimitsApi
from mutirao.ports.notifier import Announcer, ChoosingNotifier, Notifier
from mutirao.ports.reading import ReadingApi
from mutirao.ports.schedules import SchedulesApi
from mutirao.ports.store import Store
from mutirao.ports.subscriptions import SubscriptionsApi
from mutirao.ports.transport import Consumer, Transport

__all__ = [
    "Announcer",
    "Attempt",
    "AuditApi",
    "ChoosingNotifier",
    "Consumer",
    "EndpointsApi",
    "FederationApi",
    "Intake",
    "LimitsApi",
    "Notifier",
    "ReadingApi",
    "SchedulesApi",
    "Store",
    "SubscriptionsApi",
    "Transport",
]
