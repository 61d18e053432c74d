"""Mutirão: background jobs that live in the SQL database an application already has."""

from mutirao.app import Mutirao
from mutirao.client.graphs import GraphHandle
from mutirao.errors import DuplicateJob, JobCancelled, JobDied, ResultMissing, ResultTimeout
from mutirao.model.graphs.graph import PREVIOUS, Graph, OnDead, chain, group, step
from mutirao.model.jobs.job import Job, JobState, NewJob, OutcomeKind
from mutirao.model.jobs.outcome import Outcome
from mutirao.model.jobs.records import DeadJob, GraphRecord, GraphState, JobFilter, JobRecord
from mutirao.model.jobs.retry import Cancel, Dead, Retry, RetryPolicy, Snooze
from mutirao.model.jobs.work import Work
from mutirao.model.keys.supersede import Redundancy, Supersede
from mutirao.model.keys.uniqueness import OnConflict
from mutirao.model.limits.limits import Limit, LimitRecord
from mutirao.model.schedules.schedule import ScheduleRecord, ScheduleState
from mutirao.model.topics.topics import Event
from mutirao.tasks.around.factories import PROVIDED
from mutirao.tasks.blueprint import Tasks
from mutirao.tasks.handle import Handle
from mutirao.tasks.task import Task
from mutirao.tasks.topics.subscribers import Subscriber
from mutirao.tasks.topics.topics import Topic

__all__ = [
    "PREVIOUS",
    "PROVIDED",
    "Cancel",
    "Dead",
    "DeadJob",
    "DuplicateJob",
    "Event",
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
    "Subscriber",
    "Supersede",
    "Task",
    "Tasks",
    "Topic",
    "Work",
    "chain",
    "group",
    "step",
]
