"""Deliveries as jobs: the tasks of a worker that sends webhooks.

An attempt reads its endpoint, makes the call without holding a database connection, writes the
result, and then ends like any other: by returning, or by an error that the policy judges.
"""

import random
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from math import inf

import httpx2
import msgspec

from mutirao.errors import ConfigurationError, InvalidEndpoint, UnsafeUrl, WebhookFailed
from mutirao.model.jobs.job import Job
from mutirao.model.jobs.outcome import completing, lending
from mutirao.model.jobs.retry import Cancel, Dead, Retry
from mutirao.model.limits.limits import Rule
from mutirao.model.moments import EPOCH
from mutirao.model.row_json import storable
from mutirao.model.topics.topics import Event, task_of
from mutirao.model.trace import TRACEPARENT, trace_headers
from mutirao.model.webhooks.breakers import BreakerName
from mutirao.model.webhooks.endpoints import (
    DISABLED_TOPIC,
    FAIR_BY,
    PROBE_TASK,
    USUAL_LIMIT,
    WEBHOOK_QUEUE,
    WEBHOOK_TASK,
    Endpoint,
    UnreadableEndpoint,
    subscription_of,
)
from mutirao.model.webhooks.webhook_attempts import (
    ASKS_TO_WAIT,
    GONE,
    WebhookAttempt,
    WebhookSettings,
)
from mutirao.ports import Store
from mutirao.tasks.options import TaskOptions
from mutirao.tasks.task import Task
from mutirao.tasks.topics.topics import Topic, TopicApp
from mutirao.webhooks.answer import Answer, DeliveryFailure
from mutirao.webhooks.batches import AttemptWriter, EndpointCache
from mutirao.webhooks.courier import Courier
from mutirao.webhooks.guard import Guard
from mutirao.webhooks.keys import Secret
from mutirao.webhooks.request import Signer, Timeouts, WebhookRequest
from mutirao.webhooks.silence import SilenceDetector

# Seconds between the attempts, as Standard Webhooks advises; the first one is at once.
SCHEDULE = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
SPREAD = 0.1  # of each wait, so that deliveries that failed at once are not retried at once
MICROSECOND = timedelta(microseconds=1)
_BODILESS = ("GET", "DELETE")
_TRACED = (TRACEPARENT, "tracestate", "baggage", "sentry-trace")  # headers that carry a trace


def wait_of(attempt: int, error: BaseException | None) -> float:
    """Return the seconds until the next attempt, by the usual waits or the endpoint's.

    Not earlier than the server asked for.
    """
    failed = error if isinstance(error, WebhookFailed) else None
    waits = (failed and failed.waits) or SCHEDULE
    wait = waits[min(attempt, len(waits)) - 1] * random.uniform(1 - SPREAD, 1 + SPREAD)
    return max(wait, (failed and failed.retry_after) or 0.0)


# In a lane of their own, so that retries do not delay new deliveries, nor the other way round.
POLICY = replace(Retry.by(wait_of, len(SCHEDULE) + 1), apart=True)
# Only its probe ends the wait of a breaker, so it is given up later than any held delivery.
OF_PROBES = Retry.exponential(10_000, maximum=60.0)


def webhook_id(event: Event) -> str:
    """Return the id of a delivery's webhook: the same for all attempts, and when it is replayed.

    It depends on publication and subscription; and on the time, as another database counts from 1,
    too.
    """
    moment = (event.published_at - EPOCH) // MICROSECOND
    return f"{event.id}_{moment:x}_{event.subscription.removeprefix(subscription_of(''))}"


class Deliveries:
    """The deliveries of one worker: its tasks, and what they share.

    Parameters:
        store: the worker's own.
        settings: which URLs are called, and when breakers open.
        signers: those of the application, by name.
        slots: the number of the worker's slots: this many connections are never lent.
        now: Unix seconds, for signatures.
    """

    def __init__(
        self,
        store: Store,
        settings: WebhookSettings,
        signers: Mapping[str, Signer],
        slots: int,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._signers = store, signers
        guard = self._guard = Guard(settings.schemes, settings.ports, settings.networks)
        trusted = _trusting(settings.ca) if settings.ca else None
        limit = settings.connections
        self._courier = Courier(guard, ssl_context=trusted, connections=limit, now=now)
        self._endpoints = EndpointCache(store)
        self._writer = AttemptWriter(store, settings.breakers)
        self._silence = SilenceDetector(store.endpoints.doubt, limit - slots)

    def tasks(self, app: TopicApp) -> dict[str, Task[..., None]]:
        """Return the tasks by which a worker delivers, by name."""
        deliver = TaskOptions(queue=WEBHOOK_QUEUE, retry=POLICY, timeout=inf, fair_by=FAIR_BY)
        probe = TaskOptions(queue=WEBHOOK_QUEUE, retry=OF_PROBES, timeout=inf)
        return {
            WEBHOOK_TASK: Task(app, self.deliver, WEBHOOK_TASK, deliver),
            PROBE_TASK: Task(app, self.probe, PROBE_TASK, probe),
            task_of(DISABLED_TOPIC): Topic(app, DISABLED_TOPIC, dict, TaskOptions()),
        }

    def limits(self) -> list[Rule]:
        """Return the limit of deliveries at once to each endpoint, which a worker declares."""
        return [USUAL_LIMIT]

    async def aclose(self) -> None:
        """Close all connections to endpoints."""
        await self._silence.aclose()
        await self._courier.aclose()

    async def deliver(
        self, job: Job, endpoint: str, host: str, event: Event, payload: msgspec.Raw
    ) -> None:
        """Make one attempt to deliver a publication to an endpoint."""
        found = await self._endpoints.get(endpoint)
        if found is None:
            raise Cancel(f"endpoint {endpoint!r} was removed")
        if isinstance(found, UnreadableEndpoint):
            raise InvalidEndpoint(f"endpoint {endpoint!r} cannot be used: {found.reason}")
        id = webhook_id(event) if event.id else f"test_{job.id}_{endpoint}"
        request = self._request(_tracing(found, job), id, event, payload)
        with self._writer.expecting() as unexpected:
            with self._silence.during(endpoint, unexpected, lending(job)) as answered:
                answer = await self._courier.deliver_once(request)
                if answer.status is not None:
                    answered()
            redirected = 300 <= (answer.status or 0) < 400 and answer.failure is None
            ok = answer.ok or (found.accepts_3xx and redirected)
            done = completing(job) if ok else None
            await self._writer.write(_attempt(job, found, host, answer, ok), done)
        if ok:
            return
        if answer.status == GONE:
            raise Dead(f"the endpoint is disabled: {_described(found, answer)}")
        if answer.failure is DeliveryFailure.UNSAFE and self._never_calls(found.url):
            raise Dead(
                f"{_described(found, answer)}\nNo later attempt of this worker would call it: put"
                " the endpoint with another URL, or let workers call it, and replay this delivery"
            )
        raise WebhookFailed(_described(found, answer), _asked(answer), found.retry)

    async def probe(self, kind: str, key: str, heard: bool = False) -> None:
        """Let one delivery through a breaker: it is due, or the peer has sent something."""
        await self._store.endpoints.probe(BreakerName(kind, key), at_once=heard)

    def _never_calls(self, url: str) -> bool:
        """Return whether the guard refuses a URL as written, without resolving its name."""
        try:
            self._guard.check(url)
        except UnsafeUrl:
            return True
        return False

    def _request(
        self, endpoint: Endpoint, id: str, event: Event, payload: msgspec.Raw
    ) -> WebhookRequest:
        """Return the request. The body is the same in all attempts."""
        body = b"" if endpoint.method in _BODILESS else _body(endpoint, event, payload)
        own = endpoint.signer is not None
        return WebhookRequest(
            endpoint.url,
            id,
            body,
            endpoint.method,
            endpoint.headers,
            () if own else _secrets(endpoint),
            Timeouts(endpoint.connect, endpoint.first_byte, endpoint.whole),
            endpoint.redirects,
            self._signer(endpoint) if own else None,
        )

    def _signer(self, endpoint: Endpoint) -> Signer:
        signer = self._signers.get(endpoint.signer or "")
        if signer is None:
            raise InvalidEndpoint(
                f"endpoint {endpoint.id!r} is signed by {endpoint.signer!r}, which this worker has"
                f" not; there are: {', '.join(sorted(self._signers)) or 'none'}. Run a worker of"
                " the application that has @app.signer"
            )
        return signer


def _body(endpoint: Endpoint, event: Event, payload: msgspec.Raw) -> bytes:
    if endpoint.body == "payload":
        return bytes(payload)
    body = {"type": event.topic, "timestamp": event.published_at, "data": payload}
    return msgspec.json.encode(body)


def _tracing(endpoint: Endpoint, job: Job) -> Endpoint:
    """Return an endpoint whose headers have the trace of this attempt, if they ask for it.

    A header that asks, as `traceparent: {traceparent}` does, is left out if there is no trace.
    """
    given = endpoint.headers
    asks = [name for name in given if name.lower() in _TRACED and _is_asked(name, given[name])]
    if not asks:
        return endpoint
    trace = {TRACEPARENT: job.traceparent, **trace_headers()}
    filled = {**given, **{name: trace.get(name.lower()) for name in asks}}
    headers = {name: value for name, value in filled.items() if value is not None}
    return replace(endpoint, headers=headers)


def _is_asked(name: str, value: str) -> bool:
    return value.lower() == f"{{{name.lower()}}}"


def _secrets(endpoint: Endpoint) -> list[Secret]:
    secrets = [Secret.parse(endpoint.secret)] if endpoint.secret else []
    if endpoint.previous_secret is not None:
        secrets.append(Secret.parse(endpoint.previous_secret, until=endpoint.previous_until))
    return secrets


def _attempt(job: Job, endpoint: Endpoint, host: str, answer: Answer, ok: bool) -> WebhookAttempt:
    return WebhookAttempt(
        job=job.id,
        run=job.run,
        endpoint=endpoint.id,
        host=host,
        status=answer.status,
        milliseconds=answer.milliseconds,
        failure=None if answer.failure is None else str(answer.failure),
        detail=_detail(endpoint, answer),
        body=storable(answer.body.decode(errors="replace")),
        truncated=answer.truncated,
        address=answer.address,
        request_headers=answer.request_headers,
        ok=ok,
        hold=_asked(answer),
    )


def _asked(answer: Answer) -> float | None:
    """Return for how many seconds the server asks to receive nothing; None: it does not."""
    return answer.retry_after if answer.status in ASKS_TO_WAIT else None


def _described(endpoint: Endpoint, answer: Answer) -> str:
    """Describe the result of an attempt; errors are counted by its first line, without details.

    A detail may have the server's own words, and how many bytes came.
    """
    came = f"was answered {answer.status}"
    if answer.failure is not None:
        came = f"failed ({answer.failure})\n{_detail(endpoint, answer)}"
    where = f"{endpoint.method} to {endpoint.host} (endpoint {endpoint.id})"
    return f"{where} {came}\nafter {answer.milliseconds:.0f} ms"


def _detail(endpoint: Endpoint, answer: Answer) -> str | None:
    """Return the error's text without possible secrets of the URL."""
    if answer.detail is None:
        return None
    text = answer.detail
    for shown in (endpoint.url, endpoint.url[:255]):  # errors show a beginning of long ones
        text = text.replace(shown, f"{endpoint.host}/…")
    return storable(text)


def _trusting(ca: str) -> ssl.SSLContext:
    context = httpx2.create_ssl_context(trust_env=False)
    try:
        context.load_verify_locations(ca)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigurationError(
            f"ca is {ca!r}, which cannot be read: {error}; give a file of certificates in PEM"
        ) from error
    return context
