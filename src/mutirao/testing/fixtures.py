"""pytest fixtures. Name them in your top `conftest.py`, with the application they are about:

pytest_plugins = ["mutirao.testing.fixtures"]

@pytest.fixture
def mutirao_app() -> Mutirao:
    return shop.app
"""

from collections.abc import Iterator

import pytest

from mutirao.app import Mutirao
from mutirao.testing.capturing import Captured, capture, inline
from mutirao.testing.memory import MemoryStore


@pytest.fixture
def mutirao_app() -> Mutirao:
    """The application under test; every project overrides this one."""
    raise pytest.UsageError(
        "mutirao.testing.fixtures does not know your application; define a fixture mutirao_app"
        " that returns it"
    )


@pytest.fixture
def captured_jobs(mutirao_app: Mutirao) -> Iterator[Captured]:
    """The jobs that the test enqueues, kept in memory and not run; see `testing.capture`."""
    with capture(mutirao_app) as jobs:
        yield jobs


@pytest.fixture
def inline_jobs(mutirao_app: Mutirao) -> Iterator[Captured]:
    """The jobs that the test enqueues, each run at once; see `testing.inline`."""
    with inline(mutirao_app) as jobs:
        yield jobs


@pytest.fixture
def memory_store() -> MemoryStore:
    """An empty store in memory that accepts any connection."""
    return MemoryStore(accept_any_connection=True)
