"""The pages: one file for each, with its template beside it."""

from mutirao.web.pages import (
    audit,
    endpoints,
    error_groups,
    everything,
    findings,
    job,
    jobs,
    limits,
    overview,
    queues,
    schedules,
    subscriptions,
    workers,
)

PAGES = (
    overview.PAGE,
    jobs.PAGE,
    error_groups.PAGE,
    queues.PAGE,
    schedules.PAGE,
    workers.PAGE,
    limits.PAGE,
    subscriptions.PAGE,
    endpoints.PAGE,
    findings.PAGE,
    audit.PAGE,
    job.PAGE,
    everything.PAGE,
)
