"""The dashboard on Prometheus: workers at their ports, and the store by one that reads it."""

from mutirao.telemetry.grafana.board import Board, DataSource, Panel, Query, Row, Variable

_LINES = {"editorMode": "code", "range": True, "instant": False}
_NOW = {"editorMode": "code", "range": False, "instant": True}
SOURCE = DataSource(
    "prometheus",
    "Prometheus",
    {"timeseries": _LINES, "stat": _NOW, "table": {**_NOW, "format": "table"}},
)
_W = 'job=~"$job"'  # of workers
_Q = f'{_W},queue=~"$queue"'
_T = f'{_Q},task=~"$task"'
_STORE = 'queue=~"$queue"'
_ENDED = f'mutirao_attempts_total{{{_T},outcome=~"succeeded|retried|dead"}}'
_RATE = "[$__rate_interval]"


def _quantiles(metric: str, labels: str, by: str = "") -> list[Query]:
    """Return the queries of the percentiles of a histogram."""
    inner = f"sum by (le{by}) (rate({metric}_bucket{{{labels}}}{_RATE}))"
    return [
        Query(f"histogram_quantile({part}, {inner})", legend)
        for part, legend in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))
    ]


_NOW_ROW = Row("Now", [
    Panel("Workers that are ready", "stat", [Query(f"sum(mutirao_worker_ready{{{_W}}})")],
          width=3),
    Panel("Running", "stat", [Query(f"sum(mutirao_running_jobs{{{_W}}})")], width=3),
    Panel("Slots", "stat", [Query(f"sum(mutirao_slots{{{_W}}})")], width=3),
    Panel("Ready", "stat", [Query(f'sum(mutirao_jobs{{{_STORE},state="ready"}})')], width=3),
    Panel("Oldest ready", "stat", [Query(f"max(mutirao_oldest_ready_seconds{{{_STORE}}})")],
          unit="s", width=4, reds=300),
    Panel("Attempts that succeed", "stat", [Query(
        f'sum(rate(mutirao_attempts_total{{{_T},outcome="succeeded"}}{_RATE}))'
        f" / sum(rate({_ENDED}{_RATE}))"
    )], unit="percentunit", width=4),
    Panel("Died in 24 h", "stat", [Query(
        f'sum(increase(mutirao_attempts_total{{{_T},outcome="dead"}}[24h]))'
    )], width=4, reds=1),
])  # fmt: skip
_QUEUES = Row("Queues", [
    Panel("Jobs that are ready", "timeseries", [
        Query(f'sum by (queue) (mutirao_jobs{{{_STORE},state="ready"}})', "{{queue}}"),
    ]),
    Panel("Since when the oldest is ready", "timeseries", [
        Query(f"max by (queue) (mutirao_oldest_ready_seconds{{{_STORE}}})", "{{queue}}"),
    ], unit="s"),
    Panel("Jobs that wait for their time, or for others", "timeseries", [
        Query(f'sum by (state) (mutirao_jobs{{{_STORE},state=~"scheduled|blocked"}})',
              "{{state}}"),
    ]),
    Panel("Workers by queue", "timeseries", [
        Query(f"max by (queue) (mutirao_queue_workers{{{_STORE}}})", "{{queue}}"),
    ]),
    Panel("Paused queues", "timeseries", [
        Query(f"max by (queue) (mutirao_queue_paused{{{_STORE}}})", "{{queue}}"),
    ]),
    Panel("Dead jobs that are kept", "timeseries", [
        Query(f'sum by (queue) (mutirao_jobs{{{_STORE},state="dead"}})', "{{queue}}"),
    ]),
])  # fmt: skip
_ATTEMPTS = Row("Attempts", [
    Panel("A second, by outcome", "timeseries", [
        Query(f"sum by (outcome) (rate(mutirao_attempts_total{{{_T}}}{_RATE}))", "{{outcome}}"),
    ], unit="ops"),
    Panel("How long jobs wait", "timeseries", _quantiles("mutirao_wait_seconds", _Q), unit="s"),
    Panel("How long attempts take", "timeseries",
          _quantiles("mutirao_attempt_duration_seconds", _T), unit="s"),
    Panel("Tasks that fail most", "table", [Query(
        "topk(10, sum by (queue, task) (increase("
        f'mutirao_attempts_total{{{_T},outcome=~"retried|dead"}}[$__range])))'
    )], width=12),
    Panel("Tasks that take longest, p95", "table", [Query(
        "topk(10, histogram_quantile(0.95, sum by (le, queue, task) (rate("
        f"mutirao_attempt_duration_seconds_bucket{{{_T}}}[$__range]))))"
    )], unit="s", width=12),
])  # fmt: skip
_WORKERS = Row("Workers", [
    Panel("Slots in use", "timeseries", [
        Query(f"mutirao_running_jobs{{{_W}}} / mutirao_slots{{{_W}}}", "{{instance}}"),
    ], unit="percentunit"),
    Panel("Claims", "timeseries", _quantiles("mutirao_claim_seconds", _W), unit="s"),
    Panel("Writing outcomes", "timeseries", _quantiles("mutirao_settle_seconds", _W), unit="s"),
    Panel("Jobs a claim", "timeseries", [Query(
        f"sum(rate(mutirao_claimed_jobs_sum{{{_W}}}{_RATE}))"
        f" / sum(rate(mutirao_claimed_jobs_count{{{_W}}}{_RATE}))", "mean"
    )]),
    Panel("Age of the last heartbeat", "timeseries", [
        Query(f"mutirao_heartbeat_age_seconds{{{_W}}}", "{{instance}}"),
    ], unit="s"),
    Panel("Rescued, fenced off, stuck", "timeseries", [
        Query(f"sum(increase(mutirao_rescued_total{{{_W}}}{_RATE}))", "rescued"),
        Query(f"sum(increase(mutirao_fenced_total{{{_W}}}{_RATE}))", "fenced off"),
        Query(f"sum(mutirao_stuck_slots{{{_W}}})", "stuck slots"),
    ]),
    Panel("Claimed, and waiting for a slot", "timeseries", [
        Query(f"sum(mutirao_claimed_waiting_jobs{{{_W}}})", "waiting"),
        Query(f"sum(mutirao_unsettled_attempts{{{_W}}})", "not written yet"),
    ]),
    Panel("Memory", "timeseries", [
        Query(f"process_resident_memory_bytes{{{_W}}} and on (instance) mutirao_slots{{{_W}}}",
              "{{instance}}"),
    ], unit="bytes"),
    Panel("Processor", "timeseries", [
        Query(f"rate(process_cpu_seconds_total{{{_W}}}{_RATE})"
              f" and on (instance) mutirao_slots{{{_W}}}", "{{instance}}"),
    ], unit="percentunit"),
])  # fmt: skip
_REST = Row("Schedules, limits, subscriptions, webhooks", [
    Panel("Ticks that are overdue", "timeseries", [
        Query("topk(10, mutirao_schedule_lag_seconds)", "{{schedule}}"),
    ], unit="s"),
    Panel("Jobs that wait for a limit", "timeseries", [
        Query("topk(10, mutirao_limit_parked_jobs)", "{{limit}}"),
    ]),
    Panel("Subscriptions that are behind", "timeseries", [
        Query("topk(10, mutirao_subscription_lag_seconds)", "{{subscription}}"),
    ], unit="s"),
    Panel("Endpoints by their breaker", "timeseries", [
        Query("max by (state) (mutirao_endpoints)", "{{state}}"),
    ]),
    Panel("Deliveries that are held", "timeseries", [
        Query("max(mutirao_held_deliveries)", "held"),
    ]),
    Panel("Reading the store", "timeseries", [
        Query("mutirao_store_read_seconds", "{{instance}}"),
    ], unit="s"),
])  # fmt: skip

BOARD = Board(
    uid="mutirao-prometheus",
    title="Mutirão (Prometheus)",
    source=SOURCE,
    variables=[
        Variable("job", "Workers", "label_values(mutirao_slots, job)"),
        Variable("queue", "Queue", "label_values(mutirao_wait_seconds_count, queue)"),
        Variable("task", "Task", "label_values(mutirao_attempts_total, task)"),
    ],
    rows=[_NOW_ROW, _QUEUES, _ATTEMPTS, _WORKERS, _REST],
)
