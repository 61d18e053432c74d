"""Offers what tests of other rooms need of the engine, so that its files may move.

Its own tests (`tests/unit/engine`), what gives the simulation its clock and its defects, and
programs that tests start import from it as it is; `tests/unit/test_rooms.py` refuses others.
Modules are here where a test sets or reads constants of theirs.
"""

from mutirao.engine.brokers import (
    consumer as broker_consumer,
    doorbells,
    schedule_tokens,
    setup_differences,
)
from mutirao.engine.brokers.relay import duty_of
from mutirao.engine.calls import child_protocol, handler_damage, processes
from mutirao.engine.calls.attempt import Running
from mutirao.engine.calls.handler_damage import NotStarted
from mutirao.engine.calls.processes import ProcessDied, Processes, ProcessFailed
from mutirao.engine.calls.progress import ProgressWriter
from mutirao.engine.calls.threads import Threads
from mutirao.engine.claiming import producer, unanswered_claims, wakeups
from mutirao.engine.claiming.lane_positions import LaneBook
from mutirao.engine.claiming.wakeups import SELDOM, WINDOW_SECONDS, Hearing
from mutirao.engine.dispatch import dispatcher
from mutirao.engine.dispatch.admission import MOST_LOGGED, ServedTasks
from mutirao.engine.dispatch.dispatcher import Dispatcher
from mutirao.engine.dispatch.executor import LOST_RUNS_OF_SUSPECT, MAX_LOST_RUNS, Executor
from mutirao.engine.dispatch.slots import Slots
from mutirao.engine.duties.housekeeping import Housekeeping
from mutirao.engine.duties.schedules import MAX_SCHEDULES_PER_BATCH, Scheduler
from mutirao.engine.loops import Health, LoopHealth
from mutirao.engine.measurement_listeners import Listeners
from mutirao.engine.settling.completer import Completer
from mutirao.engine.worker_row import WorkerRow
from mutirao.engine.workers import broker_queues, database, process
from mutirao.engine.workers.checks import refuse_patched
from mutirao.engine.workers.embedded import EmbeddedWorker
from mutirao.engine.workers.lifecycle import Service
from mutirao.engine.workers.newer_workers import VersionAnnouncer, VersionWatch
from mutirao.engine.workers.process import STOP_MARGIN
from mutirao.engine.workers.several_databases import Fleet

__all__ = [
    "LOST_RUNS_OF_SUSPECT",
    "MAX_LOST_RUNS",
    "MAX_SCHEDULES_PER_BATCH",
    "MOST_LOGGED",
    "SELDOM",
    "STOP_MARGIN",
    "WINDOW_SECONDS",
    "Completer",
    "Dispatcher",
    "EmbeddedWorker",
    "Executor",
    "Fleet",
    "Health",
    "Hearing",
    "Housekeeping",
    "LaneBook",
    "Listeners",
    "LoopHealth",
    "NotStarted",
    "ProcessDied",
    "ProcessFailed",
    "Processes",
    "ProgressWriter",
    "Running",
    "Scheduler",
    "ServedTasks",
    "Service",
    "Slots",
    "Threads",
    "VersionAnnouncer",
    "VersionWatch",
    "WorkerRow",
    "broker_consumer",
    "broker_queues",
    "child_protocol",
    "database",
    "dispatcher",
    "doorbells",
    "duty_of",
    "handler_damage",
    "process",
    "processes",
    "producer",
    "refuse_patched",
    "schedule_tokens",
    "setup_differences",
    "unanswered_claims",
    "wakeups",
]
