"""Mutirão: background jobs that live in the SQL database an application already has."""

from mutirao.app import Mutirao
from mutirao.errors import DuplicateJob, JobCancelled, JobDied, ResultMissing, ResultTimeout
from mutirao.graph import PREVIOUS, Graph, OnDead, chain, group, step
from mutirao.graphs import GraphHandle
from mutirao.handle import Handle
from mutirao.job import Job, JobState, NewJob, OutcomeKind
from mutirao.limit import Limit, LimitRecord
from mutirao.outcome import Outcome
from mutirao.records import DeadJob, GraphRecord, GraphState, JobFilter, JobRecord
from mutirao.retry import Cancel, Dead, Retry, RetryPolicy, Snooze
from mutirao.schedule import ScheduleRecord, ScheduleState
from mutirao.supersede import Redundancy, Supersede
from mutirao.task import Task
from mutirao.unique import OnConflict

__all__ = [
    "PREVIOUS",
    "Cancel",
    "Dead",
    "DeadJob",
    "DuplicateJob",
    "Graph",
    "GraphHandle",
    "GraphRecord",
    "GraphState",
    "Handle",
    "Job",
    "JobCancelled",
    "JobDied",
    "JobFilter",
    "JobRecord",
    "JobState",
    "Limit",
    "LimitRecord",
    "Mutirao",
    "NewJob",
    "OnConflict",
    "OnDead",
    "Outcome",
    "OutcomeKind",
    "Redundancy",
    "ResultMissing",
    "ResultTimeout",
    "Retry",
    "RetryPolicy",
    "ScheduleRecord",
    "ScheduleState",
    "Snooze",
    "Supersede",
    "Task",
    "chain",
    "group",
    "step",
]
