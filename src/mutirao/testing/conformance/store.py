"""Everything a store must do, in one class; `driver` has the part of it that a driver decides."""

from mutirao.testing.conformance.carried import CarriedContract
from mutirao.testing.conformance.changing import ChangeContract
from mutirao.testing.conformance.changing_limits import ChangingLimitsContract
from mutirao.testing.conformance.claiming import ClaimingContract
from mutirao.testing.conformance.commands import CancelContract, RunNowContract
from mutirao.testing.conformance.concurrency import ConcurrencyContract
from mutirao.testing.conformance.driver import DriverContract
from mutirao.testing.conformance.endpoints import EndpointsContract
from mutirao.testing.conformance.enqueueing import EnqueueingContract
from mutirao.testing.conformance.fairness import FairnessContract
from mutirao.testing.conformance.federation import FederationContract
from mutirao.testing.conformance.finding import FindContract
from mutirao.testing.conformance.graphs import GraphsContract
from mutirao.testing.conformance.held import HeldContract
from mutirao.testing.conformance.housekeeping import LeaseContract, UpkeepContract
from mutirao.testing.conformance.lanes import LanesContract
from mutirao.testing.conformance.limited_graphs import LimitedGraphsContract
from mutirao.testing.conformance.limits import LimitsContract
from mutirao.testing.conformance.liveness import RescueContract, WorkersContract
from mutirao.testing.conformance.losing import LosingContract
from mutirao.testing.conformance.many import ManyContract
from mutirao.testing.conformance.ordering import OrderingContract
from mutirao.testing.conformance.pausing import PausingContract
from mutirao.testing.conformance.pruning import PruningContract
from mutirao.testing.conformance.rates import RatesContract
from mutirao.testing.conformance.records import CountsContract, RecordsContract
from mutirao.testing.conformance.redriving import RedriveContract
from mutirao.testing.conformance.repeated import RepeatedContract
from mutirao.testing.conformance.results import ResultsContract
from mutirao.testing.conformance.rows import RowsContract
from mutirao.testing.conformance.schedules import SchedulesContract
from mutirao.testing.conformance.settling import SettlingContract
from mutirao.testing.conformance.staleness import ReleaseContract, StalenessContract
from mutirao.testing.conformance.subscriptions import SubscriptionsContract
from mutirao.testing.conformance.supersede import SupersedeContract
from mutirao.testing.conformance.ticks import TicksContract
from mutirao.testing.conformance.topics import TopicsContract
from mutirao.testing.conformance.uniqueness import UniquenessContract
from mutirao.testing.conformance.versions import NewestNextContract, VersionsContract


class StoreContract(
    DriverContract,
    EnqueueingContract,
    ClaimingContract,
    SettlingContract,
    LosingContract,
    LeaseContract,
    RecordsContract,
    FindContract,
    CountsContract,
    CancelContract,
    SchedulesContract,
    TicksContract,
    PausingContract,
    LimitsContract,
    GraphsContract,
    ResultsContract,
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
    TopicsContract,
    SubscriptionsContract,
    ManyContract,
    OrderingContract,
    EndpointsContract,
    HeldContract,
    FederationContract,
    CarriedContract,
    RowsContract,
):
    """Every sentence of `mutirao.ports.Store`, as tests: a backend's first driver passes it."""
