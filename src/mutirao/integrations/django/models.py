"""The views as read-only models: `Job.objects.filter(tenant="acme", state="dead")`.

No table is Django's to make or to change: the migrations here run the revisions of the package. A
test compares the columns with those of the views. What is done to jobs is done through the
application: `app.retry(…)`, `app.cancel(…)`, `app.actions`.
"""

from django.db import models

from mutirao.integrations.django.tables.read_only import ViewRow, placed
from mutirao.integrations.django.tables.view_fields import JsonField, MomentField

BULK = ("retry", "cancel", "redrive", "change")  # actions on jobs, each with a permission
_COLUMNS = {"redrives": "redrive_of", "on_dead": "on_dead_of"}


def _reference(model: str, backwards: str, null: bool = False) -> models.ForeignKey:
    """Return a column with the id of another row, which may be gone already."""
    return models.ForeignKey(
        model, models.DO_NOTHING, null=null, db_constraint=False, related_name=backwards,
        db_column=_COLUMNS.get(backwards, model.lower()),
    )  # fmt: skip


class Job(ViewRow):
    """A job in any state, with its last attempt."""

    id = models.BigIntegerField(primary_key=True)
    task = models.TextField(null=True)
    queue = models.TextField(null=True)
    priority = models.SmallIntegerField(null=True)
    state = models.TextField(null=True)
    attempt = models.IntegerField(null=True)
    max_attempts = models.IntegerField(null=True)
    timeout = models.FloatField(null=True)
    run_at = MomentField(null=True)
    enqueued_at = MomentField(null=True)
    started_at = MomentField(null=True)
    finished_at = MomentField(null=True)
    duration = models.FloatField(null=True)
    worker = models.BigIntegerField(null=True)
    run = models.IntegerField(null=True)
    error_type = models.TextField(null=True)
    error = models.TextField(null=True)
    args = JsonField(null=True)
    key = models.TextField(null=True)
    tags = JsonField(null=True)
    metadata = JsonField(null=True)
    traceparent = models.TextField(null=True)
    redrive_of = _reference("Job", "redrives", null=True)
    on_dead_of = _reference("Job", "on_dead", null=True)
    graph = _reference("Graph", "steps", null=True)
    stage = models.TextField(null=True)
    progress = models.FloatField(null=True)
    progress_of = models.FloatField(null=True)
    progress_note = models.TextField(null=True)
    fingerprint = models.TextField(null=True)
    tenant = models.TextField(null=True)
    group = models.TextField(null=True)
    expires_at = MomentField(null=True)

    class Meta(ViewRow.Meta):
        """Its view."""

        db_table = placed("mutirao_jobs")
        permissions = tuple((f"{each}_job", f"Can {each} job") for each in BULK)

    def __str__(self) -> str:
        """Return its name in the admin."""
        return f"{self.task} {self.id}"


class Attempt(ViewRow):
    """An attempt that has ended."""

    pk = models.CompositePrimaryKey("job_id", "run")
    job = _reference("Job", "attempts")
    run = models.IntegerField()
    attempt = models.IntegerField(null=True)
    task = models.TextField(null=True)
    queue = models.TextField(null=True)
    outcome = models.TextField(null=True)
    started_at = MomentField(null=True)
    finished_at = MomentField(null=True)
    duration = models.FloatField(null=True)
    worker = models.BigIntegerField(null=True)
    error_type = models.TextField(null=True)
    error = models.TextField(null=True)
    message = models.TextField(null=True)
    result = JsonField(null=True)
    tenant = models.TextField(null=True)
    group = models.TextField(null=True)

    class Meta(ViewRow.Meta):
        """Its view."""

        db_table = placed("mutirao_attempts")


class QueueCount(ViewRow):
    """How many jobs of a queue are in a state."""

    pk = models.CompositePrimaryKey("queue", "state")
    queue = models.TextField()
    state = models.TextField()
    jobs = models.BigIntegerField(null=True)
    oldest_age = models.FloatField(null=True)
    counted_at = MomentField(null=True)

    class Meta(ViewRow.Meta):
        """Its view."""

        db_table = placed("mutirao_queues")
        verbose_name_plural = "queue counts"


class JobError(ViewRow):
    """An error, and how many jobs had it."""

    pk = models.CompositePrimaryKey("task", "error_type", "message")
    task = models.TextField()
    error_type = models.TextField()
    message = models.TextField()
    jobs = models.BigIntegerField(null=True)
    attempts = models.BigIntegerField(null=True)
    first_at = MomentField(null=True)
    last_at = MomentField(null=True)

    class Meta(ViewRow.Meta):
        """Its view."""

        db_table = placed("mutirao_errors")
        verbose_name_plural = "job errors"


class Throughput(ViewRow):
    """The attempts of an hour, by queue, task and outcome."""

    pk = models.CompositePrimaryKey("hour", "queue", "task", "outcome")
    hour = MomentField()
    queue = models.TextField()
    task = models.TextField()
    outcome = models.TextField()
    attempts = models.BigIntegerField(null=True)
    mean_duration = models.FloatField(null=True)
    p95_duration = models.FloatField(null=True)
    p50_duration = models.FloatField(null=True)
    p99_duration = models.FloatField(null=True)

    class Meta(ViewRow.Meta):
        """Its view."""

        db_table = placed("mutirao_throughput")
        verbose_name_plural = "throughput"


class Worker(ViewRow):
    """A registered worker."""

    id = models.BigIntegerField(primary_key=True)
    name = models.TextField(null=True)
    host = models.TextField(null=True)
    pid = models.IntegerField(null=True)
    queues = JsonField(null=True)
    exclude_queues = JsonField(null=True)
    tasks = JsonField(null=True)
    concurrency = models.IntegerField(null=True)
    version = models.TextField(null=True)
    app_version = models.TextField(null=True)
    started_at = MomentField(null=True)
    beat_at = MomentField(null=True)
    expires_at = MomentField(null=True)
    alive = models.BooleanField(null=True)
    listening = models.BooleanField(null=True)
    stuck = models.IntegerField(null=True)
    late = models.FloatField(null=True)
    running = models.BigIntegerField(null=True)
    jobs = JsonField(null=True)

    class Meta(ViewRow.Meta):
        """Its view."""

        db_table = placed("mutirao_workers")

    def __str__(self) -> str:
        """Return its name in the admin."""
        return str(self.name)


class Schedule(ViewRow):
    """A schedule."""

    name = models.TextField(primary_key=True)
    task = models.TextField(null=True)
    args = JsonField(null=True)
    queue = models.TextField(null=True)
    cron = models.TextField(null=True)
    every = models.FloatField(null=True)
    timezone = models.TextField(null=True)
    status = models.TextField(null=True)
    next_at = MomentField(null=True)
    last_tick = MomentField(null=True)
    last_job = models.BigIntegerField(null=True)
    last_state = models.TextField(null=True)
    last_started_at = MomentField(null=True)
    last_finished_at = MomentField(null=True)
    last_duration = models.FloatField(null=True)
    last_error = models.TextField(null=True)
    runs = models.BigIntegerField(null=True)
    skipped = models.BigIntegerField(null=True)
    catch_up = models.TextField(null=True)
    overlap = models.TextField(null=True)
    jitter = models.FloatField(null=True)
    until = MomentField(null=True)
    max_runs = models.IntegerField(null=True)
    pause_after = models.IntegerField(null=True)
    reason = models.TextField(null=True)
    origin = models.TextField(null=True)
    in_code = models.BooleanField(null=True)
    declared_at = MomentField(null=True)
    declared_by = models.TextField(null=True)
    created_at = MomentField(null=True)
    changed_at = MomentField(null=True)

    class Meta(ViewRow.Meta):
        """Its view."""

        db_table = placed("mutirao_schedules")
        default_permissions = ("view", "change", "delete")

    def __str__(self) -> str:
        """Return its name in the admin."""
        return str(self.name)


class Limit(ViewRow):
    """A limit, or a pause, and how much of it is used."""

    # Of a limit by an argument there is a row for each value of it that is in use. The admin takes
    # no composite key.
    name = models.TextField(primary_key=True)
    queue = models.TextField(null=True)
    task = models.TextField(null=True)
    by = models.TextField(null=True)
    key = models.TextField(null=True)
    most = models.IntegerField(null=True)
    per = models.FloatField(null=True)
    burst = models.IntegerField(null=True)
    paused = models.BooleanField(null=True)
    running = models.IntegerField(null=True)
    tokens = models.FloatField(null=True)
    parked = models.BigIntegerField(null=True)
    origin = models.TextField(null=True)
    in_code = models.BooleanField(null=True)
    declared_at = MomentField(null=True)
    declared_by = models.TextField(null=True)
    created_at = MomentField(null=True)
    changed_at = MomentField(null=True)

    class Meta(ViewRow.Meta):
        """Its view."""

        db_table = placed("mutirao_limits")
        default_permissions = ("view", "change")

    def __str__(self) -> str:
        """Return its name in the admin."""
        return str(self.name)


class Graph(ViewRow):
    """A graph, with its jobs counted by state."""

    id = models.BigIntegerField(primary_key=True)
    name = models.TextField(null=True)
    state = models.TextField(null=True)
    stage = models.TextField(null=True)
    jobs = models.BigIntegerField(null=True)
    blocked = models.BigIntegerField(null=True)
    waiting = models.BigIntegerField(null=True)
    running = models.BigIntegerField(null=True)
    succeeded = models.BigIntegerField(null=True)
    dead = models.BigIntegerField(null=True)
    cancelled = models.BigIntegerField(null=True)
    created_at = MomentField(null=True)

    class Meta(ViewRow.Meta):
        """Its view."""

        db_table = placed("mutirao_graphs")

    def __str__(self) -> str:
        """Return its name in the admin."""
        return str(self.name)


class Publication(ViewRow):
    """An event that was published, with its deliveries counted."""

    id = models.BigIntegerField(primary_key=True)
    topic = models.TextField(null=True)
    state = models.TextField(null=True)
    deliveries = models.BigIntegerField(null=True)
    waiting = models.BigIntegerField(null=True)
    running = models.BigIntegerField(null=True)
    succeeded = models.BigIntegerField(null=True)
    dead = models.BigIntegerField(null=True)
    cancelled = models.BigIntegerField(null=True)
    tenant = models.TextField(null=True)
    group = models.TextField(null=True)
    published_at = MomentField(null=True)
    finished_at = MomentField(null=True)

    class Meta(ViewRow.Meta):
        """Its view."""

        db_table = placed("mutirao_publications")

    def __str__(self) -> str:
        """Return its name in the admin."""
        return str(self.id)


class Delivery(ViewRow):
    """A job that delivers a publication to one subscription."""

    job = models.OneToOneField(
        "Job", models.DO_NOTHING, db_column="job", db_constraint=False, primary_key=True,
        related_name="delivery",
    )  # fmt: skip
    publication = _reference("Publication", "delivered", null=True)
    subscription = models.TextField(null=True)
    nth = models.IntegerField(null=True)
    topic = models.TextField(null=True)
    task = models.TextField(null=True)
    queue = models.TextField(null=True)
    state = models.TextField(null=True)
    attempt = models.IntegerField(null=True)
    run_at = MomentField(null=True)
    started_at = MomentField(null=True)
    finished_at = MomentField(null=True)
    duration = models.FloatField(null=True)
    error_type = models.TextField(null=True)
    error = models.TextField(null=True)
    tenant = models.TextField(null=True)
    group = models.TextField(null=True)
    published_at = MomentField(null=True)

    class Meta(ViewRow.Meta):
        """Its view."""

        db_table = placed("mutirao_deliveries")


class Subscription(ViewRow):
    """Which subscriptions receive which publications."""

    id = models.TextField(primary_key=True)
    topic = models.TextField(null=True)
    tenant = models.TextField(null=True)
    group = models.TextField(null=True)
    filter = models.TextField(null=True)
    key = models.TextField(null=True)
    order_by = models.TextField(null=True)
    when_dead = models.TextField(null=True)
    kind = models.TextField(null=True)
    active = models.BooleanField(null=True)
    task = models.TextField(null=True)
    queue = models.TextField(null=True)
    priority = models.SmallIntegerField(null=True)
    waiting = models.BigIntegerField(null=True)
    running = models.BigIntegerField(null=True)
    stopped = models.BigIntegerField(null=True)
    lag = models.FloatField(null=True)
    origin = models.TextField(null=True)
    in_code = models.BooleanField(null=True)
    declared_at = MomentField(null=True)
    declared_by = models.TextField(null=True)
    created_at = MomentField(null=True)
    changed_at = MomentField(null=True)

    class Meta(ViewRow.Meta):
        """Its view."""

        db_table = placed("mutirao_subscriptions")
        default_permissions = ("view", "change", "delete")

    def __str__(self) -> str:
        """Return its name in the admin."""
        return str(self.id)


class Endpoint(ViewRow):
    """Where webhooks go. Its URL and secrets are not shown."""

    id = models.TextField(primary_key=True)
    host = models.TextField(null=True)
    method = models.TextField(null=True)
    topics = models.TextField(null=True)
    tenant = models.TextField(null=True)
    group = models.TextField(null=True)
    filter = models.TextField(null=True)
    body = models.TextField(null=True)
    signed = models.TextField(null=True)
    previous_until = MomentField(null=True)
    order_by = models.TextField(null=True)
    when_dead = models.TextField(null=True)
    retry = models.TextField(null=True)
    rate = models.FloatField(null=True)
    concurrency = models.IntegerField(null=True)
    connect = models.FloatField(null=True)
    first_byte = models.FloatField(null=True)
    whole = models.FloatField(null=True)
    redirects = models.SmallIntegerField(null=True)
    accepts_3xx = models.BooleanField(null=True)
    active = models.BooleanField(null=True)
    paused = models.BooleanField(null=True)
    disabled_reason = models.TextField(null=True)
    disabled_at = MomentField(null=True)
    breaker = models.TextField(null=True)
    probe_at = MomentField(null=True)
    failing_since = MomentField(null=True)
    last_failure = models.TextField(null=True)
    failed_at = MomentField(null=True)
    held = models.BigIntegerField(null=True)
    created_at = MomentField(null=True)
    changed_at = MomentField(null=True)

    class Meta(ViewRow.Meta):
        """Its view."""

        db_table = placed("mutirao_endpoints")
        default_permissions = ("view", "add", "change", "delete")

    def __str__(self) -> str:
        """Return its name in the admin."""
        return str(self.id)


class WebhookAttempt(ViewRow):
    """The result of sending a webhook."""

    pk = models.CompositePrimaryKey("job_id", "run")
    job = _reference("Job", "webhook_attempts")
    run = models.IntegerField()
    endpoint = models.TextField(null=True)
    host = models.TextField(null=True)
    publication = models.BigIntegerField(null=True)
    status = models.IntegerField(null=True)
    milliseconds = models.FloatField(null=True)
    failure = models.TextField(null=True)
    detail = models.TextField(null=True)
    body = models.TextField(null=True)
    truncated = models.BooleanField(null=True)
    address = models.TextField(null=True)
    request_headers = models.TextField(null=True)
    finished_at = MomentField(null=True)

    class Meta(ViewRow.Meta):
        """Its view."""

        db_table = placed("mutirao_webhook_attempts")


class Action(ViewRow):
    """The actions of people on jobs: the audit."""

    id = models.BigIntegerField(primary_key=True)
    who = models.TextField(null=True)
    action = models.TextField(null=True)
    change = models.TextField(null=True)
    filter = models.TextField(null=True)
    ids = models.TextField(null=True)
    expected = models.BigIntegerField(null=True)
    matched = models.BigIntegerField(null=True)
    done = models.BigIntegerField(null=True)
    passed_over = models.BigIntegerField(null=True)
    why = models.TextField(null=True)
    state = models.TextField(null=True)
    error = models.TextField(null=True)
    started_at = MomentField(null=True)
    seen_at = MomentField(null=True)
    finished_at = MomentField(null=True)

    class Meta(ViewRow.Meta):
        """Its view."""

        db_table = placed("mutirao_audit")

    def __str__(self) -> str:
        """Return its name in the admin."""
        return f"{self.who}: {self.action}"
