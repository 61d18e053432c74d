"""The errors that Mutirão raises, as one tree: `except MutiraoError` catches all of them.

Each message says what was found, what was expected and what to do. Errors about a wrong value or
type also derive from `ValueError`, `TypeError` or `LookupError`, so that code which does not know
Mutirão handles them correctly.
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


class InvalidMessageId(MutiraoError, ValueError):
    """A message's id, or the name of its consumer, that cannot be remembered."""


class DuplicateJob(MutiraoError):
    """Another job has this key, and `on_conflict="error"` was given. `id` is the other job's id."""

    def __init__(self, message: str, id: int) -> None:
        super().__init__(message)
        self.id = id


class InvalidGraph(InvalidJob):
    """A graph that is empty, has a cycle, or uses the result of a step that is not before."""


class InvalidResult(MutiraoError, ValueError):
    """A result that cannot be stored: it is too large, or JSON cannot represent it."""


class InvalidProgress(MutiraoError, ValueError):
    """Progress whose numbers are not finite, or whose note is not text."""


class InvalidTask(MutiraoError, TypeError):
    """A function that cannot be registered as a task, or a task registered twice."""


class UnsupportedConnection(MutiraoError, TypeError):
    """An object given as `conn=` that is none of the accepted connections and sessions."""


class UnknownTask(MutiraoError, LookupError):
    """No task of that name is registered in this application."""


class InvalidFilter(MutiraoError, ValueError):
    """A job filter that selects nothing in particular, or that has an invalid value.

    `position`: where in the text of a filter, in characters from 0; None where there is no text.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class UnknownJob(MutiraoError, LookupError):
    """No job has that id."""


class NothingToRedrive(MutiraoError, LookupError):
    """None of the jobs that were named can be enqueued again; the message says why for each."""


class UnknownGraph(MutiraoError, LookupError):
    """No graph has that id."""


class ResultTimeout(MutiraoError, TimeoutError):
    """The job whose result was awaited has not finished in time; the job continues."""


class JobFailed(MutiraoError):
    """The job has finished without a result. `id` is the job's id."""

    def __init__(self, message: str, id: int) -> None:
        super().__init__(message)
        self.id = id


class JobDied(JobFailed):
    """The job is dead; the message contains its error. In logs, what a job died of elsewhere."""


class JobCancelled(JobFailed):
    """The job whose result was awaited was cancelled."""


class ResultMissing(JobFailed):
    """The job has succeeded, but its result was not stored or has expired."""


class InvalidSchedule(MutiraoError, ValueError):
    """A schedule that has no timing, contradicts itself, or would never make a job."""


class UnknownSchedule(MutiraoError, LookupError):
    """No schedule has that name."""


class InvalidLimit(MutiraoError, ValueError):
    """A limit that lets nothing run, contradicts itself, or counts by an unknown argument."""


class UnknownLimit(MutiraoError, LookupError):
    """No limit has that name, or nothing is paused there."""


class InvalidTopic(MutiraoError, ValueError):
    """A topic or a pattern of topics that cannot be one."""


class UnknownTopic(MutiraoError, LookupError):
    """No topic of that name is registered in this application."""


class InvalidSubscription(MutiraoError, ValueError):
    """A subscription whose filter, handler or options cannot be."""


class UnknownSubscription(MutiraoError, LookupError):
    """No subscription has that id."""


class WrongState(MutiraoError):
    """The job exists, but its state does not allow the request."""


class StaleRun(MutiraoError):
    """The job was taken from this attempt (rescued, timed out, cancelled); nothing was written."""


class SettlingFailed(MutiraoError):
    """The outcome of an attempt could not be written because of its content."""


class WorkerFailed(MutiraoError):
    """A worker has ended by itself because one of its loops failed or hangs."""


class WorkerStuck(WorkerFailed):
    """A worker has ended by itself because handlers that do not end hold all of its slots."""


class HandlersCannotStart(WorkerFailed):
    """A worker has ended by itself because it could start no child process, or no thread."""


class AttemptStalled(MutiraoError, TimeoutError):
    """An attempt gave no sign of life for longer than its stall_timeout; seen in the history."""


class WorkFailed(MutiraoError):
    """A task's probe found that the work which its handler started has failed."""


class AttemptTimeout(MutiraoError, TimeoutError):
    """An attempt ran longer than its timeout."""


class StoreError(MutiraoError):
    """The database failed one of our statements; the message contains the database's own."""


class StoreUnavailable(StoreError):
    """The database cannot be used at the moment; workers wait and try again."""


class StoreBusy(StoreUnavailable):
    """The database aborted a statement that waited for a lock or took too long."""


class WorkerGone(StoreUnavailable):
    """The worker was considered gone and is no longer registered; it registers again."""


class StoreRefused(StoreError):
    """The database refuses a value of a row; the same statement may pass without that row."""


class StoreGone(StoreError):
    """The database was destroyed, or it is a different one now: waiting does not help."""


class SchemaError(MutiraoError):
    """The database's schema is not the one that this version of Mutirão works with."""


class SchemaMissing(SchemaError):
    """The database has no Mutirão tables: run `mutirao migrate`."""


class SchemaTooOld(SchemaError):
    """The tables are older than the code: run `mutirao migrate`."""


class SchemaTooNew(SchemaError):
    """The tables are newer than the code: upgrade the package."""


class SchemaDiffers(SchemaError):
    """Other files of the same revision made the tables; the message says what to do."""


class TransportError(MutiraoError):
    """A broker failed one of our requests; the message contains the broker's own."""


class TransportUnavailable(TransportError):
    """The broker cannot be used at the moment; publish or consume again later."""


class TransportDenied(TransportUnavailable):
    """The broker refuses the login: a password, a virtual host or a certificate is wrong."""


class TransportRefused(TransportError):
    """The broker refuses this message, and would refuse it again: too large, too long a delay."""


class MessageTooLarge(TransportRefused):
    """A message has more bytes than its queue takes."""


class TransportMismatch(TransportError):
    """What a queue needs is not at the broker, or is otherwise: see `mutirao transports`."""


class DeliveryLost(TransportError):
    """A message was taken from this consumer; it is delivered again, or was handled elsewhere."""


class InvalidEndpoint(MutiraoError, ValueError):
    """A webhook that cannot be sent so: its method, headers, id, body or timeouts."""


class UnknownEndpoint(MutiraoError, LookupError):
    """No endpoint has that id."""


class WebhookFailed(MutiraoError):
    """A webhook was not delivered: no whole answer came, or one that is no success.

    `retry_after`: the seconds for which the server asked to be left alone, if it did. `waits`:
    those between the attempts, where the endpoint has its own.
    """

    def __init__(
        self, message: str, retry_after: float | None = None, waits: tuple[float, ...] | None = None
    ) -> None:
        super().__init__(message)
        self.retry_after, self.waits = retry_after, waits


class InvalidSecret(MutiraoError, ValueError):
    """A secret or key of webhooks that is too short, of another form, or for something else."""


class SignerFailed(MutiraoError):
    """The signer of a request raised an error, or returned what are no headers of HTTP."""


class UnsafeUrl(MutiraoError, ValueError):
    """A URL that webhooks are not sent to: its form, scheme, port, or an address behind it."""


class InvalidWebhook(MutiraoError, ValueError):
    """A received webhook that cannot be verified: a header is missing or cannot be read."""


class WrongSignature(InvalidWebhook):
    """A received webhook that was signed with another secret, or whose body was changed."""


class StaleWebhook(InvalidWebhook):
    """A received webhook whose signature fits, but for a time too long ago or ahead."""


class InvalidActivity(MutiraoError, ValueError):
    """An activity that cannot be delivered: its type, actor, object, or where it is to go."""


class UnverifiedActivity(MutiraoError, ValueError):
    """A received request whose signature, digest, date or key cannot be relied on: answer 401."""


class UnknownHost(MutiraoError, LookupError):
    """Nothing is known of a host that activities go to."""
