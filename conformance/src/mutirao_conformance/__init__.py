"""The suites that every backend passes: subclass one, and give it the fixtures it names.

    class TestMyStore(StoreContract):
        @pytest_asyncio.fixture
        async def store(self) -> AsyncIterator[Store]:
            store = MyStore(...)   # of an empty database
            yield store
            await store.close()

They need pytest and pytest-asyncio, which the package itself does not require.
"""

from pkgutil import iter_modules

import pytest

for _suite in iter_modules(__path__):
    pytest.register_assert_rewrite(f"{__name__}.{_suite.name}")

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
