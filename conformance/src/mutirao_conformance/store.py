"""Everything a store must do, in one class; `driver` has the part that depends on a driver."""

from mutirao_conformance.audit import AuditContract
from mutirao_conformance.carried import CarriedContract
from mutirao_conformance.changing import ChangeContract
from mutirao_conformance.changing_limits import ChangingLimitsContract
from mutirao_conformance.claiming import ClaimingContract
from mutirao_conformance.commands import CancelContract, RunNowContract
from mutirao_conformance.concurrency import ConcurrencyContract
from mutirao_conformance.driver import DriverContract
from mutirao_conformance.endpoints import EndpointsContract
from mutirao_conformance.enqueueing import EnqueueingContract
from mutirao_conformance.expiring import ExpiringContract
from mutirao_conformance.fairness import FairnessContract
from mutirao_conformance.federation import FederationContract
from mutirao_conformance.filtering import FilterContract
from mutirao_conformance.finding import FindContract
from mutirao_conformance.graphs import GraphsContract
from mutirao_conformance.held import HeldContract
from mutirao_conformance.housekeeping import LeaseContract, UpkeepContract
from mutirao_conformance.lanes import LanesContract
from mutirao_conformance.limited_graphs import LimitedGraphsContract
from mutirao_conformance.limits import LimitsContract
from mutirao_conformance.liveness import RescueContract, WorkersContract
from mutirao_conformance.losing import LosingContract
from mutirao_conformance.many import ManyContract
from mutirao_conformance.ordering import OrderingContract
from mutirao_conformance.pausing import PausingContract
from mutirao_conformance.pruning import PruningContract
from mutirao_conformance.rates import RatesContract
from mutirao_conformance.reading import FiguresContract, PagingContract, StandingContract
from mutirao_conformance.records import CountsContract, RecordsContract
from mutirao_conformance.redriving import RedriveContract
from mutirao_conformance.repeated import RepeatedContract
from mutirao_conformance.results import ResultsContract
from mutirao_conformance.rows import RowsContract
from mutirao_conformance.schedules import SchedulesContract
from mutirao_conformance.settling import SettlingContract
from mutirao_conformance.staleness import ReleaseContract, StalenessContract
from mutirao_conformance.subscriptions import SubscriptionsContract
from mutirao_conformance.supersede import SupersedeContract
from mutirao_conformance.ticks import TicksContract
from mutirao_conformance.topics import TopicsContract
from mutirao_conformance.uniqueness import UniquenessContract
from mutirao_conformance.versions import NewestNextContract, VersionsContract


class StoreContract(
    DriverContract,
    EnqueueingContract,
    ClaimingContract,
    SettlingContract,
    LosingContract,
    LeaseContract,
    RecordsContract,
    FindContract,
    FilterContract,
    CountsContract,
    PagingContract,
    FiguresContract,
    StandingContract,
    AuditContract,
    CancelContract,
    ExpiringContract,
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
    """What `mutirao.ports.Store` and its parts promise: a backend's first driver passes it.

    A backend gives the fixture `store`, and may give `other_store`, as `DriverContract` says.

    Not here is what a backend shows for itself: `cut`, which takes a call that hangs; and
    `declare_supersede` and `judge`, which are for jobs that its SQL enqueues.
    """
