"""A store whose calls are made by the role that makes them in a company, each by its own login."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from mutirao.model.limits.limits import LimitOrigin
from mutirao.sql.store.jobs import SqlStore
from tests.support.company import Company
from tests.support.parts import PARTS, PartOf

APPLICATION = ("enqueue", "keys", "supersede", "graphs", "inbox", "results")
_CALLS = {
    "enqueue": "application", "aenqueue": "application", "enqueue_graph": "application",
    "aenqueue_graph": "application", "endings": "application", "await_ends": "application",
    "cancel": "operator", "run_now": "operator", "redrive": "operator", "jobs": "operator",
    "job": "operator", "counts": "operator", "workers": "operator", "graphs": "operator",
    "graph": "operator", "unserved_tasks": "operator", "limits.remove": "operator",
    "change": "operator", "schedules.amend": "operator", "schedules.amend_all": "operator",
}  # fmt: skip


class Crew:
    """The handles of an application, a worker and an operator; calls go to the one they are for.

    A worker's handlers enqueue, so that it is an application, too.
    """

    def __init__(self, urls: dict[str, str]) -> None:
        self._urls = urls
        self._stores = {name: SqlStore(url) for name, url in urls.items()}

    def __getattr__(self, name: str) -> Any:
        if name in PARTS:
            return PartOf(self, name)
        if name == "limits.put":
            return self._put_limit
        return attrgetter(name)(self._stores[_CALLS.get(name, "worker")])

    async def _put_limit(self, *args: Any, **options: Any) -> None:
        """Make a limit: those in code are the worker's."""
        who = "worker" if options.get("origin") is LimitOrigin.CODE else "operator"
        await self._stores[who].limits.put(*args, **options)

    def clone(self, *_: Any, **__: Any) -> Crew:
        """Return other handles on the same data."""
        return Crew(self._urls)

    async def close(self) -> None:
        """Close all of them."""
        for store in self._stores.values():
            await store.close()


def hire_crew(company: Company) -> dict[str, str]:
    """Give a company what a crew consists of; return the URL of each."""
    roles = {
        "application": APPLICATION,
        "worker": ("worker", *APPLICATION),
        "operator": ("operator",),
    }
    return {name: company.hire(f"company_of_{name}", *held) for name, held in roles.items()}
