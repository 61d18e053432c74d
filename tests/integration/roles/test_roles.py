"""Each role can do what it is for with the privileges printed for it, and needs every one."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest

from mutirao.errors import SchemaMissing, StoreUnavailable
from mutirao.sql import migrations
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import due
from tests.integration.roles import applications, operators, workers
from tests.integration.roles.duties import DUTIES, Duty, duties_of
from tests.integration.roles.trial import Trial, of_its_own
from tests.support.company import MIGRATOR, Company
from tests.support.postgresql import PostgresServer

WHERE = (applications, operators, workers)  # where duties are, which are known once imported


@pytest.fixture(scope="module")
def company(postgres: PostgresServer) -> Iterator[Company]:
    """A company whose tables a migrator has made."""
    with postgres.database() as name:
        made = Company(postgres, name)
        made.found()
        yield made


@pytest.mark.repeats("operator", "worker", decided="tests/conformance/test_roles.py")
@pytest.mark.parametrize("role", DUTIES)
async def test_enough_and_nothing_to_spare(company: Company, role: str) -> None:
    """With its privileges a role does everything; without any one of them something fails.

    The error says what is missing, and how to learn what is to be granted.
    """
    async with Trial(company, role).opened() as trial:
        missing = {str(duty): await trial.lacks(duty) for duty in duties_of(role)}
        assert not any(missing.values()), f"grants.py lacks for {role}: {missing}"
        errors = {each: await trial.without(each) for each in of_its_own(role)}
    spare = [str(privilege) for privilege, error in errors.items() if error is None]
    assert spare == [], f"grants.py has too much for {role}, or this has no duty"
    for privilege, error in errors.items():
        assert f" {privilege.name}; grant it what `mutirao schema --grants`" in str(error)


async def test_together(company: Company) -> None:
    """An application that does several of these things at once needs no more than for each."""
    async with Trial(company, "keys", "supersede").opened() as trial:
        assert await trial.lacks(Duty(applications.by_turns_with_a_key)) == []


def test_through_a_caller_s_connection(company: Company) -> None:
    """There, too, the error is ours; the transaction is the caller's to roll back."""
    store = SqlStore(company.hire("company_enqueue", "enqueue"))
    with (
        psycopg.connect(company.hire("company_reader", "reader").replace("+psycopg", "")) as conn,
        pytest.raises(StoreUnavailable, match="table mutirao_job; grant it what `mutirao schema"),
    ):
        store.enqueue([due()], conn)


async def test_where_nothing_is_open_to_everybody(company: Company) -> None:
    """What PUBLIC may do, unless somebody has taken that from it, is printed as comments."""
    trial, duty = Trial(company, "enqueue"), Duty(applications.enqueues)
    with company.closed_to_public():
        async with trial.opened():
            with pytest.raises(SchemaMissing):
                await trial.lacks(duty)
            for statement in re.findall(r"^-- Where .*?: (GRANT .*)$", trial.printed, re.MULTILINE):
                company.administer(statement)
            assert await trial.lacks(duty) == []


def test_a_migrator_without_its_privilege(postgres: PostgresServer) -> None:
    """It makes nothing, and the error says why and what to do."""
    with postgres.database() as name:
        company = Company(postgres, name)
        with company.closed_to_public():
            why = "permission denied for schema public; grant it what `mutirao schema --grants`"
            with pytest.raises(StoreUnavailable, match=re.escape(why)):
                migrations.upgrade(company.url(MIGRATOR))
