"""Parts of a store's contract, with each call made by a role that may do no more than it must.

Those in which what one role does is finished by another one. The whole contract passes so, too; it
would take a minute more, and shows nothing that the duties in `tests/integration/roles` do not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mutirao_conformance.changing import ChangeContract
from mutirao_conformance.changing_limits import ChangingLimitsContract
from mutirao_conformance.limited_graphs import LimitedGraphsContract
from mutirao_conformance.redriving import RedriveContract
from mutirao_conformance.results import ResultsContract
from tests.support.company import Company
from tests.support.crew import Crew, hire_crew
from tests.support.postgresql import PostgresServer


@pytest.fixture(scope="module")
def urls(postgres: PostgresServer, shared_database: str) -> dict[str, str]:
    """What the roles of the module's database log in with."""
    company = Company(postgres, shared_database)
    company.take_over()
    return hire_crew(company)


class TestRoles(
    ChangeContract,
    ChangingLimitsContract,
    LimitedGraphsContract,
    RedriveContract,
    ResultsContract,
):
    """An application, a worker and an operator on tables that belong to none of them."""

    @pytest.fixture
    async def store(self, urls: dict[str, str], emptied_postgresql_url: str) -> AsyncIterator[Crew]:
        """Their handles."""
        crew = Crew(urls)
        yield crew
        await crew.close()

    @pytest.fixture
    async def other_store(self, urls: dict[str, str]) -> AsyncIterator[Crew]:
        """Other handles on the same data."""
        crew = Crew(urls)
        yield crew
        await crew.close()
