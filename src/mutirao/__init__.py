"""Mutirão: background jobs that live in the SQL database an application already has."""

from mutirao.app import Mutirao
from mutirao.errors import DuplicateJob
from mutirao.job import DeadJob, Job, JobState, NewJob, Outcome, OutcomeKind
from mutirao.limit import Limit, LimitRecord
from mutirao.records import JobFilter, JobRecord
from mutirao.retry import Cancel, Dead, Retry, RetryPolicy, Snooze
from mutirao.schedule import ScheduleRecord, ScheduleState
from mutirao.supersede import Redundancy, Supersede
from mutirao.task import Handle, Task
from mutirao.unique import OnConflict

__all__ = [
    "Cancel",
    "Dead",
    "DeadJob",
    "DuplicateJob",
    "Handle",
    "Job",
    "JobFilter",
    "JobRecord",
    "JobState",
    "Limit",
    "LimitRecord",
    "Mutirao",
    "NewJob",
    "OnConflict",
    "Outcome",
    "OutcomeKind",
    "Redundancy",
    "Retry",
    "RetryPolicy",
    "ScheduleRecord",
    "ScheduleState",
    "Snooze",
    "Supersede",
    "Task",
]
