"""Everything a store must do, in one class; and the part of it that a driver decides."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from mutirao.ports import Store
from mutirao.testing.conformance.changing import ChangeContract
from mutirao.testing.conformance.changing_limits import ChangingLimitsContract
from mutirao.testing.conformance.claiming import ClaimingContract
from mutirao.testing.conformance.commands import CancelContract, RunNowContract
from mutirao.testing.conformance.concurrency import ConcurrencyContract
from mutirao.testing.conformance.enqueueing import EnqueueingContract
from mutirao.testing.conformance.fairness import FairnessContract
from mutirao.testing.conformance.finding import FindContract
from mutirao.testing.conformance.graphs import GraphsContract
from mutirao.testing.conformance.housekeeping import LeaseContract, UpkeepContract
from mutirao.testing.conformance.lanes import LanesContract
from mutirao.testing.conformance.limited_graphs import LimitedGraphsContract
from mutirao.testing.conformance.limits import LimitsContract
from mutirao.testing.conformance.liveness import RescueContract, WorkersContract
from mutirao.testing.conformance.losing import LosingContract
from mutirao.testing.conformance.pausing import PausingContract
from mutirao.testing.conformance.pruning import PruningContract
from mutirao.testing.conformance.rates import RatesContract
from mutirao.testing.conformance.records import CountsContract, RecordsContract
from mutirao.testing.conformance.redriving import RedriveContract
from mutirao.testing.conformance.repeated import RepeatedContract
from mutirao.testing.conformance.results import ResultsContract
from mutirao.testing.conformance.schedules import SchedulesContract
from mutirao.testing.conformance.settling import SettlingContract
from mutirao.testing.conformance.staleness import ReleaseContract, StalenessContract
from mutirao.testing.conformance.supersede import SupersedeContract
from mutirao.testing.conformance.ticks import TicksContract
from mutirao.testing.conformance.transactions import TransactionContract
from mutirao.testing.conformance.uniqueness import UniquenessContract
from mutirao.testing.conformance.versions import NewestNextContract, VersionsContract


@pytest.mark.asyncio
class DriverContract(
    EnqueueingContract,
    ClaimingContract,
    SettlingContract,
    LosingContract,
    LeaseContract,
    RecordsContract,
    FindContract,
    CountsContract,
    CancelContract,
    TransactionContract,
    SchedulesContract,
    TicksContract,
    PausingContract,
    LimitsContract,
    GraphsContract,
    ResultsContract,
):
    """What a driver decides: how values are bound and read, and whose transaction a call joins.

    For a further driver of a database on which another one passes the whole of `StoreContract`:
    the SQL is the same there.

    A backend gives the fixture `store`: an empty store. It may give `other_store` too, a second
    handle on the same data; otherwise that is `store.clone()`. One that lacks a synchronous or an
    asynchronous form says so in `faces` and `handlers`, and shows elsewhere what it does instead.
    """

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test in the forms that the backend has."""
        for name, forms in (("face", self.faces), ("handler", self.handlers)):
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, forms)

    @pytest_asyncio.fixture
    async def other_store(self, store: Store) -> AsyncIterator[Store]:
        """A second handle on the same data."""
        clone = store.clone()
        yield clone
        await clone.close()


class StoreContract(
    DriverContract,
    ConcurrencyContract,
    StalenessContract,
    WorkersContract,
    LanesContract,
    ReleaseContract,
    RescueContract,
    PruningContract,
    RunNowContract,
    ChangeContract,
    RedriveContract,
    UniquenessContract,
    VersionsContract,
    NewestNextContract,
    ChangingLimitsContract,
    RatesContract,
    FairnessContract,
    SupersedeContract,
    RepeatedContract,
    LimitedGraphsContract,
    UpkeepContract,
):
    """Every sentence of `mutirao.ports.Store`, as tests: a backend's first driver passes it."""
