"""The database that a job stands in, as its handler knows it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mutirao.errors import WrongState

if TYPE_CHECKING:
    from mutirao.model.job import Job, Transaction


def no_tenants(job: "Job") -> "Transaction[Any, Any]":
    """Refuse the connection of a tenant where nothing opens one."""
    raise WrongState(
        f"job {job.id} ({job.task}) asked for a tenant's connection, and nothing says where its"
        " database is: register a function with @app.tenant_database; handlers in other processes"
        " (process=True) have none"
    )


@dataclass(frozen=True, slots=True)
class Home:
    """A database.

    Parameters:
        database: its URL, without a password; empty if the store has none.
        tenant: opens a transaction in the database of a job's tenant.
    """

    database: str = ""
    tenant: "Callable[[Job], Transaction[Any, Any]]" = no_tenants


NOWHERE = Home()
