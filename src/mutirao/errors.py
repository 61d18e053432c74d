"""Every error Mutirão raises, as one tree: `except MutiraoError` catches them all.

Each message says what was found, what was expected and what to do. Errors that stand for a
wrong value or type also derive from `ValueError`, `TypeError` or `LookupError`, so that code
which knows nothing of Mutirão treats them properly.
"""


class MutiraoError(Exception):
    """The root of the tree."""


class ConfigurationError(MutiraoError):
    """The application or a command was set up wrongly: a URL, an option, a `module:attribute`."""


class MissingDriver(ConfigurationError):
    """The database's driver is not installed; the message names the extra that brings it."""


class InvalidJob(MutiraoError, ValueError):
    """A job that must not be written: an option out of range, a payload too large."""


class InvalidArguments(InvalidJob, TypeError):
    """Arguments that do not fit the handler's signature or its annotated types."""


class DuplicateJob(MutiraoError):
    """A job with this key stands already, and `on_conflict="error"` was asked. `id` is its id."""

    def __init__(self, message: str, id: int) -> None:
        super().__init__(message)
        self.id = id


class InvalidGraph(InvalidJob):
    """A graph that is empty, goes in a circle, or refers to what is not before it."""


class InvalidResult(MutiraoError, ValueError):
    """A result that cannot be kept: too large, or without a form in JSON."""


class InvalidProgress(MutiraoError, ValueError):
    """Progress that is no finite number, or has a note that is no text."""


class InvalidTask(MutiraoError, TypeError):
    """A function that cannot be registered as a task, or a task registered twice."""


class UnsupportedConnection(MutiraoError, TypeError):
    """`conn=` was given something that is none of the accepted connections and sessions."""


class UnknownTask(MutiraoError, LookupError):
    """No task of that name is registered in this application."""


class InvalidFilter(MutiraoError, ValueError):
    """What says which jobs are meant says nothing, or nothing that could be meant."""


class UnknownJob(MutiraoError, LookupError):
    """No job has that id."""


class UnknownGraph(MutiraoError, LookupError):
    """No graph has that id."""


class ResultTimeout(MutiraoError, TimeoutError):
    """The job whose result was waited for has not finished in time; it goes on."""


class JobFailed(MutiraoError):
    """There is no result: the job has finished without one. `id` is the job's."""

    def __init__(self, message: str, id: int) -> None:
        super().__init__(message)
        self.id = id


class JobDied(JobFailed):
    """The job whose result was waited for is dead; the message has its error."""


class JobCancelled(JobFailed):
    """The job whose result was waited for was cancelled."""


class ResultMissing(JobFailed):
    """The job has succeeded, and its result was not kept, or not for so long."""


class InvalidSchedule(MutiraoError, ValueError):
    """A schedule that says no time, contradicts itself, or would never make a job."""


class UnknownSchedule(MutiraoError, LookupError):
    """No schedule has that name."""


class InvalidLimit(MutiraoError, ValueError):
    """A limit that lets nothing run, contradicts itself, or counts by what is no argument."""


class UnknownLimit(MutiraoError, LookupError):
    """No limit has that name, or nothing is paused there."""


class WrongState(MutiraoError):
    """The job exists, but what was asked is not possible in the state it is in."""


class StaleRun(MutiraoError):
    """The job was taken from this attempt (rescued, timed out, cancelled); nothing was written."""


class SettlingFailed(MutiraoError):
    """The outcome of an attempt could not be written, for what was in it."""


class WorkerFailed(MutiraoError):
    """A worker has ended by itself, as one of its loops failed or did not turn any more."""


class WorkerStuck(WorkerFailed):
    """A worker has ended by itself, as all of its slots were lost to handlers that do not end."""


class AttemptTimeout(MutiraoError, TimeoutError):
    """An attempt ran longer than its timeout."""


class StoreError(MutiraoError):
    """The database failed a statement of ours; the message has its words."""


class StoreUnavailable(StoreError):
    """The database cannot be used now, which passes; workers wait and try again."""


class StoreBusy(StoreUnavailable):
    """The database gave up a statement that waited for a lock, or took too long."""


class WorkerGone(StoreUnavailable):
    """The worker was taken for gone and is not registered any more; it registers anew."""


class StoreRefused(StoreError):
    """The database refuses a value of a row; the same statement without that row may pass."""


class StoreGone(StoreError):
    """The database is destroyed, or is not the one it was: waiting does not help."""


class SchemaError(MutiraoError):
    """The database's schema is not the one this version of Mutirão works with."""


class SchemaMissing(SchemaError):
    """The database has no Mutirão tables: run `mutirao migrate`."""


class SchemaTooOld(SchemaError):
    """The tables are older than the code: run `mutirao migrate`."""


class SchemaTooNew(SchemaError):
    """The tables are newer than the code: upgrade the package."""
