"""Mutirão: background jobs that live in the SQL database an application already has.

A name is loaded when it is first asked for: `mutirao --help` needs none, and a child process few.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from mutirao import errors as errors

if TYPE_CHECKING:
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

if not TYPE_CHECKING:
    _NAMES = {
        "app": "Mutirao",
        "client.graphs": "GraphHandle",
        "errors": "DuplicateJob JobCancelled JobDied ResultMissing ResultTimeout",
        "model.graphs.graph": "PREVIOUS Graph OnDead chain group step",
        "model.jobs.job": "Job JobState NewJob OutcomeKind",
        "model.jobs.outcome": "Outcome",
        "model.jobs.records": "DeadJob GraphRecord GraphState JobFilter JobRecord",
        "model.jobs.retry": "Cancel Dead Retry RetryPolicy Snooze",
        "model.jobs.work": "Work",
        "model.keys.supersede": "Redundancy Supersede",
        "model.keys.uniqueness": "OnConflict",
        "model.limits.limits": "Limit LimitRecord",
        "model.schedules.schedule": "ScheduleRecord ScheduleState",
        "model.topics.topics": "Event",
        "tasks.around.factories": "PROVIDED",
        "tasks.blueprint": "Tasks",
        "tasks.handle": "Handle",
        "tasks.task": "Task",
        "tasks.topics.subscribers": "Subscriber",
        "tasks.topics.topics": "Topic",
    }
    _HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = found
        return found

    def __dir__():
        return sorted({*globals(), *__all__})
