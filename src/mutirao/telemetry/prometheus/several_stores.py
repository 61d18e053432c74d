"""The metrics of several databases, for Prometheus: each with its name as a label."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from mutirao.client.other_stores.kept_list import KeptList
from mutirao.ports import Store
from mutirao.telemetry.prometheus.families import written
from mutirao.telemetry.prometheus.http_port import PortReply
from mutirao.telemetry.prometheus.store_metrics import LEAST_AGE, StoreMetrics
from mutirao.telemetry.prometheus.text import scraped

LABEL = "database"


class ListedStore(NamedTuple):
    """One of the databases: its name, which may be shown, its store, and its metrics."""

    name: str
    store: Store
    metrics: StoreMetrics


class SeveralStores:
    """The metrics of the databases that an application lists, in one event loop.

    The list is read at each scrape: new databases are read, and removed ones are closed. While it
    cannot be read, the known ones are.

    Parameters:
        listed: returns the names of the databases, by the argument of `opened`.
        opened: returns a handle on one, used only here, with a time limit.
        queues: those that tasks are in.
        least_age: seconds for which a reading is kept at least.
    """

    def __init__(
        self,
        listed: Callable[[], Awaitable[Mapping[str, str]]],
        opened: Callable[[str], Store],
        queues: Iterable[str],
        least_age: float = LEAST_AGE,
    ) -> None:
        self._list, self._opened = KeptList(listed), opened
        self._queues, self._least_age = frozenset(queues), least_age
        self._members: dict[str, ListedStore] = {}
        self._lock = asyncio.Lock()

    async def scraped(self, accept: str = "") -> PortReply:
        """Return the answer to a scrape."""
        async with self._lock:
            await self._follow()
            members = [*self._members.values()]
        found = await asyncio.gather(*(each.metrics.collected() for each in members))
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Labelled(dict(zip((each.name for each in members), found, strict=True))))
        return scraped(registry, accept)

    async def check(self) -> None:
        """Raise the errors of the list; an unavailable or unmigrated database is only not up."""
        async with self._lock:
            await self._follow()

    async def aclose(self) -> None:
        """Close the connections to all of them."""
        members, self._members = self._members, {}
        for each in members.values():
            await each.store.close()

    async def _follow(self) -> None:
        listed = await self._list.get()
        for key, name in listed.items():
            if key not in self._members:
                store = self._opened(key)
                metrics = StoreMetrics(store, self._queues, self._least_age)
                self._members[key] = ListedStore(name, store, metrics)
        for key in self._members.keys() - listed.keys():
            await self._members.pop(key).store.close()


class _Labelled(Collector):
    """The families of several collectors, each once, whose samples have the database as a label."""

    def __init__(self, collectors: Mapping[str, Collector]) -> None:
        self._collectors = collectors

    def collect(self) -> Iterator[Metric]:
        """Yield all families."""
        families: dict[str, Metric] = {}
        for name, collector in self._collectors.items():
            for family in collector.collect():
                whose = {LABEL: written(name)}
                labelled = [
                    each._replace(labels={**each.labels, **whose}) for each in family.samples
                ]
                family.samples = []
                families.setdefault(family.name, family).samples += labelled
        yield from families.values()
