"""The suites that every backend passes: subclass one, and give it the fixtures it names.

    class TestMyStore(StoreContract):
        @pytest_asyncio.fixture
        async def store(self) -> AsyncIterator[Store]:
            store = MyStore(...)   # of an empty database
            yield store
            await store.close()

They need pytest and pytest-asyncio, which the package itself does not require.
"""

import pytest

for _suite in ("carried", "claiming", "commands", "concurrency", "enqueueing", "events", "fairness",
               "federation", "graphs", "housekeeping", "inbox", "kit", "lanes", "limited_graphs",
               "limits", "liveness", "losing", "many", "notifier", "pruning", "rates", "records",
               "redriving", "repeated", "results", "schedules", "settling", "staleness",
               "supersede", "ticks", "transactions", "transport", "uniqueness",
               "versions"):  # fmt: skip
    pytest.register_assert_rewrite(f"{__name__}.{_suite}")

from mutirao_conformance.driver import DriverContract  # noqa: E402
from mutirao_conformance.events import EventsContract  # noqa: E402
from mutirao_conformance.notifier import NotifierContract  # noqa: E402
from mutirao_conformance.store import StoreContract  # noqa: E402
from mutirao_conformance.transport import TransportContract  # noqa: E402

__all__ = [
    "DriverContract",
    "EventsContract",
    "NotifierContract",
    "StoreContract",
    "TransportContract",
]
