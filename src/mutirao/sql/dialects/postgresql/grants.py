"""The privileges of each role in PostgreSQL: one source for the command line and the docs.

All functions of the schema run with the rights of their callers, so a role needs privileges on all
that they touch. Tests revoke each of these privileges and see that something of the role fails, and
that nothing fails while it has them all. `why` explains surprising ones.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlalchemy.dialects import postgresql

from mutirao.errors import ConfigurationError

Columns = frozenset[str]  # none: the whole table
Privileges = dict[str, Columns]  # by kind: SELECT, INSERT, …

PREPARER = postgresql.dialect().identifier_preparer  # type: ignore[no-untyped-call]
_PRIVILEGE = re.compile(r"([A-Z]+)(?: \(([\w, ]+)\))?")
_ALL = "SELECT, INSERT, UPDATE, DELETE"
_SUPERSEDE = ("mutirao_supersede_last", "mutirao_supersede_wait")
SCHEMA, _SEQUENCE = "SCHEMA public", "SEQUENCE mutirao_job_id_seq"
_CLOSING, _RETRIES = "SEQUENCE mutirao_closing", "SEQUENCE mutirao_retries"


@dataclass(frozen=True)
class Role:
    """A role: what it does, and the privileges that it needs.

    Parameters:
        does: what, as a phrase.
        login: the default name of such a role.
        grants: privileges, as GRANT names them, by what they are on.
        beyond: the roles whose privileges it needs as well.
        why: the reason for a privilege that surprises, by what it is on.
        also: statements for some servers or wishes only, and when; `{to}` stands for the login.
    """

    does: str
    login: str
    grants: Mapping[str, str]
    beyond: tuple[str, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    also: Mapping[str, str] = field(default_factory=dict)

    def own(self) -> dict[str, Privileges]:
        """Return the privileges by what they are on, without those of `beyond`."""
        return {on: dict(_parsed(text)) for on, text in self.grants.items()}


def privileges(name: str) -> dict[str, Privileges]:
    """Return all that a role needs, by what it is on. Raises ConfigurationError."""
    role = role_named(name)
    whole: dict[str, Privileges] = {}
    for part in (*map(privileges, role.beyond), role.own()):
        for on, kinds in part.items():
            _add(whole.setdefault(on, {}), kinds)
    return whole


def role_named(name: str) -> Role:
    """Return a role. Raises ConfigurationError."""
    if name not in ROLES:
        raise ConfigurationError(
            f"there is no role {name!r} to print grants for; there are {', '.join(ROLES)}"
        )
    return ROLES[name]


def privilege_list(kinds: Privileges) -> str:
    """Return privileges as GRANT names them."""
    order = ["SELECT", "INSERT", "UPDATE", "DELETE"]
    named = sorted(kinds, key=lambda kind: order.index(kind) if kind in order else len(order))
    columns = {kind: ", ".join(map(PREPARER.quote, sorted(kinds[kind]))) for kind in kinds}
    return ", ".join(f"{kind} ({columns[kind]})" if kinds[kind] else kind for kind in named)


def grouped(grants: Mapping[str, Privileges]) -> dict[str, list[str]]:
    """Return what the same privileges are on, by these privileges."""
    groups: dict[str, list[str]] = {}
    for on in sorted(grants):
        groups.setdefault(privilege_list(grants[on]), []).append(on)
    return groups


def _parsed(text: str) -> Iterator[tuple[str, Columns]]:
    for kind, columns in _PRIVILEGE.findall(text):
        yield kind, frozenset(columns.split(", ")) if columns else frozenset()


def _add(whole: Privileges, more: Privileges) -> None:
    for kind, columns in more.items():
        known = whole.get(kind)
        # Of one column and the whole table the whole table is left.
        whole[kind] = known | columns if known and columns else frozenset[str]()
        if known is None:
            whole[kind] = columns


def _each(text: str, *on: str) -> dict[str, str]:
    return dict.fromkeys(on, text)


# Not the arguments of others' jobs: a caller that enqueues reads of them what the new row came to.
_ENQUEUE = {
    "mutirao_job": "SELECT (id, priority, queue, run_at), INSERT",
    "mutirao_live": "SELECT (queue), INSERT",
    "mutirao_fairness": "SELECT",
    "mutirao_supersede_task": "SELECT (task)",
    "mutirao_worker": "SELECT (exclude_queues, expires_at, id, listening, queues, tasks)",
    _SEQUENCE: "USAGE",
}

ROLES: Mapping[str, Role] = {
    "enqueue": Role(
        "an application that enqueues jobs, in Python or in SQL",
        "mutirao_app",
        _ENQUEUE,
        why={
            "mutirao_fairness": "whether, and by which argument, the task's jobs take turns",
            "mutirao_job": "what INSERT gives back is read; others' arguments are not",
            "mutirao_supersede_task": "whether a rule has to be asked about a key, in SQL",
            "mutirao_worker": "who is idle and serves the job's lane, to be woken",
            _SEQUENCE: "many jobs are copied in, with ids that were drawn before",
        },
    ),
    "keys": Role(
        "one that enqueues with unique keys",
        "mutirao_app",
        {
            "mutirao_key": "SELECT, INSERT, UPDATE",
            "mutirao_job": "SELECT (args, group, task, tenant, version)",
            "mutirao_parked": "SELECT (job), DELETE",
            "mutirao_live": "SELECT, UPDATE, DELETE",
            "mutirao_attempt": "SELECT (finished_at, job, outcome), INSERT",
            _CLOSING: "USAGE",
        },
        beyond=("enqueue",),
        why={
            "mutirao_job": (
                "versions are compared; jobs of fair tasks go to the lane that an argument names"
            ),
            "mutirao_live": "at the commit the job that was replaced is cancelled",
            "mutirao_attempt": "which is written down there",
            "mutirao_parked": "and it may have waited for a limit",
            _CLOSING: "whether the hour of what is written down there has been added up",
        },
    ),
    "supersede": Role(
        "one that enqueues jobs of tasks with `supersede`, and their workers, which judge what SQL"
        " enqueues",
        "mutirao_app",
        {
            "mutirao_supersede_last": "SELECT, INSERT, UPDATE",
            "mutirao_supersede_wait": _ALL,
            "mutirao_supersede_task": "SELECT (scope)",
            "mutirao_unjudged": "SELECT, INSERT, DELETE",
            "mutirao_job": (
                "SELECT (args, group, task, tenant), UPDATE (args, fingerprint, run_at)"
            ),
            "mutirao_parked": "SELECT (job), DELETE",
            "mutirao_live": "SELECT, UPDATE, DELETE",
            "mutirao_attempt": "SELECT (attempt, job, outcome), INSERT",
            _CLOSING: "USAGE",
        },
        beyond=("enqueue",),
        why={
            "mutirao_job": "the rule reads the older job's arguments, and may merge both",
            "mutirao_live": "at the commit the job that was superseded is cancelled",
            "mutirao_unjudged": "what SQL enqueued with such a key is judged first",
            "mutirao_attempt": "which is written down there; what has succeeded may be dropped",
            "mutirao_parked": "and it may have waited for a limit",
            _CLOSING: "whether the hour of what is written down there has been added up",
        },
    ),
    "graphs": Role(
        "one that enqueues chains, groups and graphs",
        "mutirao_app",
        {
            **_each("INSERT", "mutirao_graph", "mutirao_step", "mutirao_gate", "mutirao_edge"),
            "mutirao_live": "SELECT (id), UPDATE (run_at)",
        },
        beyond=("enqueue",),
        why={"mutirao_live": "steps that wait for others are parked"},
    ),
    "inbox": Role(
        "one that remembers messages in its inbox",
        "mutirao_app",
        {"mutirao_inbox": "SELECT (consumer, message, times), INSERT, UPDATE (times)"},
    ),
    "expires": Role(
        "one that enqueues jobs that expire",
        "mutirao_app",
        {"mutirao_expiry": "INSERT"},
        beyond=("enqueue",),
    ),
    "results": Role(
        "one that waits for the ends of jobs, and reads results",
        "mutirao_app",
        {
            "mutirao_job": "SELECT (id, task)",
            "mutirao_live": "SELECT (id)",
            "mutirao_attempt": "SELECT (error, error_type, job, outcome)",
            "mutirao_result": "SELECT (job, value)",
            "mutirao_waiter": "INSERT",
        },
        why={"mutirao_waiter": "only for jobs that stand there the end is notified"},
    ),
    "worker": Role(
        "a worker: runs jobs, lets schedules tick, rescues and prunes; handlers that enqueue with"
        " keys or graphs need those roles as well",
        "mutirao_worker",
        {
            "mutirao_version": "SELECT",
            "mutirao_job": "SELECT, INSERT, DELETE",
            **_each(_ALL, "mutirao_live", "mutirao_attempt", "mutirao_worker"),
            "mutirao_fairness_served": _ALL,
            "mutirao_duty": "SELECT, INSERT, UPDATE",
            "mutirao_fairness": "SELECT, INSERT, DELETE",
            **_each("SELECT, UPDATE, DELETE", "mutirao_key", "mutirao_graph"),
            **_each("SELECT, UPDATE, DELETE", *_SUPERSEDE, "mutirao_unjudged"),
            "mutirao_supersede_task": "SELECT, INSERT, DELETE",
            **_each(_ALL, "mutirao_step", "mutirao_gate"),
            "mutirao_edge": "SELECT, INSERT, DELETE",
            "mutirao_result": "SELECT, INSERT, DELETE",
            "mutirao_progress": _ALL,
            "mutirao_expiry": "SELECT (job, look_at), INSERT, UPDATE (look_at), DELETE",
            **_each("SELECT, DELETE", "mutirao_waiter", "mutirao_inbox"),
            "mutirao_limit": "SELECT, INSERT, UPDATE",
            **_each(_ALL, "mutirao_counter", "mutirao_parked"),
            "mutirao_slot": "SELECT, INSERT, DELETE",
            "mutirao_schedule": "SELECT, INSERT, UPDATE",
            "mutirao_tick": "SELECT, INSERT, DELETE",
            "mutirao_subscription": "SELECT, INSERT, UPDATE",
            "mutirao_delivery": "SELECT, INSERT, DELETE",
            "mutirao_ordered": _ALL,
            "mutirao_further_topic": "SELECT",
            "mutirao_webhook_attempt": "SELECT (job), DELETE",
            "mutirao_said": "SELECT (about, said_at), DELETE",
            "mutirao_action": "SELECT (id, started_at), DELETE",
            "mutirao_rolled": "SELECT, INSERT, UPDATE",
            **_each(_ALL, "mutirao_hour", "mutirao_error"),
            "mutirao_kept": "SELECT, INSERT, DELETE",
            "mutirao_backlog": "INSERT, DELETE",
            **_each("SELECT", "mutirao_limits", "mutirao_schedules", "mutirao_queues"),
            _SEQUENCE: "USAGE",
            _CLOSING: "USAGE, UPDATE",
            _RETRIES: "USAGE",
        },
        why={
            "mutirao_attempt": "old rows are locked (FOR UPDATE) before they are pruned",
            "mutirao_supersede_last": "likewise",
            "mutirao_key": "likewise",
            "mutirao_queues": "live jobs are counted now and then, where they are many",
            _CLOSING: "where hours that are added up end",
            _RETRIES: "how often a deadlock was tried again, for `doctor`",
            "mutirao_supersede_wait": "likewise, before what is left behind is mended",
        },
        also={
            "From PostgreSQL 17 on, for statistics, which autovacuum sees to otherwise": (
                "GRANT MAINTAIN ON mutirao_attempt, mutirao_job, mutirao_live TO {to}"
            )
        },
    ),
    "webhooks": Role(
        "a worker that delivers webhooks: it reads the secrets of endpoints",
        "mutirao_worker",
        {
            "mutirao_endpoint": "SELECT, UPDATE",
            "mutirao_webhook_attempt": "INSERT",
            "mutirao_breaker": _ALL,
            "mutirao_limit": "DELETE",
        },
        beyond=("worker",),
        why={
            "mutirao_endpoint": "one that only fails is disabled",
            "mutirao_limit": "a breaker that closes removes the limit by which it held deliveries",
        },
    ),
    "federation": Role(
        "a worker that delivers activities: it finds hosts down and up again",
        "mutirao_worker",
        {
            "mutirao_host": "SELECT, INSERT, UPDATE",
            "mutirao_said": _ALL,
            "mutirao_limit": "DELETE",
        },
        beyond=("worker", "supersede"),
        why={"mutirao_limit": "a host that is up again loses the limit by which it was held"},
    ),
    "operator": Role(
        "the command line and dashboards: look, cancel, retry, change, redrive, prune, limit,"
        " pause, change schedules and subscriptions, `doctor`",
        "mutirao_operator",
        {
            "mutirao_version": "SELECT",
            "mutirao_job": (
                "SELECT, INSERT, DELETE, UPDATE (max_attempts, priority, queue, run_at)"
            ),
            "mutirao_live": _ALL,
            "mutirao_attempt": _ALL,
            "mutirao_worker": "SELECT (exclude_queues, expires_at, id, listening, queues, tasks)",
            "mutirao_fairness": "SELECT",
            **_each("SELECT", "mutirao_supersede_task", "mutirao_unjudged"),
            **_each("SELECT, UPDATE, DELETE", "mutirao_key", *_SUPERSEDE),
            "mutirao_graph": "SELECT, UPDATE, DELETE",
            **_each(_ALL, "mutirao_step", "mutirao_gate"),
            "mutirao_edge": "SELECT, INSERT, DELETE",
            **_each("SELECT, DELETE", "mutirao_result", "mutirao_progress", "mutirao_waiter"),
            **_each(_ALL, "mutirao_limit", "mutirao_counter"),
            "mutirao_slot": "SELECT, INSERT, DELETE",
            "mutirao_parked": "SELECT, DELETE, UPDATE (priority, run_at)",
            **_each(_ALL, "mutirao_schedule", "mutirao_subscription", "mutirao_host"),
            "mutirao_said": "SELECT (host), DELETE",
            "mutirao_tick": "SELECT, INSERT, DELETE",
            "mutirao_delivery": "SELECT, INSERT, DELETE",
            "mutirao_ordered": _ALL,
            **_each("SELECT", "mutirao_jobs", "mutirao_queues", "mutirao_workers"),
            **_each("SELECT", "mutirao_schedules", "mutirao_limits", "mutirao_graphs"),
            "mutirao_subscriptions": "SELECT",
            **_each(_ALL, "mutirao_endpoint", "mutirao_breaker"),
            "mutirao_endpoints": "SELECT",
            "mutirao_further_topic": "SELECT, INSERT, DELETE",
            "mutirao_webhook_attempt": "SELECT (job, run, status), DELETE",
            "mutirao_rolled": "SELECT (until), UPDATE (one)",
            "mutirao_kept": "SELECT (jobs, outcome, queue), INSERT",
            "mutirao_backlog": "SELECT",
            **_each("SELECT", "mutirao_throughput", "mutirao_errors"),
            "mutirao_action": "SELECT (id, state, stop), INSERT, UPDATE",
            "mutirao_expiry": "SELECT (job), DELETE",
            "mutirao_audit": "SELECT",
            _SEQUENCE: "USAGE",
            _CLOSING: "USAGE",
            _RETRIES: "USAGE",
        },
        why={
            "mutirao_job": "what people change of jobs that wait",
            "mutirao_parked": "likewise, of those that wait for a limit",
            "mutirao_attempt": "old rows are locked (FOR UPDATE) before they are pruned",
            "mutirao_supersede_last": "likewise",
            "mutirao_key": "likewise",
            "mutirao_rolled": "nothing is added up while somebody prunes",
            "mutirao_kept": "what was pruned is taken from the number of jobs",
            "mutirao_action": "what is done to many jobs is written down, and how far it came",
            _CLOSING: "whether the hour of jobs that were cancelled has been added up",
            _RETRIES: "how often a deadlock was tried again, for `doctor`",
        },
        also={
            "So that doctor sees the transactions of other roles": (
                "GRANT pg_read_all_stats TO {to}"
            )
        },
    ),
    "reader": Role(
        "reports and BI tools: the views, and nothing else",
        "mutirao_reader",
        _each(
            "SELECT", "mutirao_jobs", "mutirao_attempts", "mutirao_queues", "mutirao_errors",
            "mutirao_throughput", "mutirao_workers", "mutirao_schedules", "mutirao_limits",
            "mutirao_graphs", "mutirao_publications", "mutirao_deliveries", "mutirao_subscriptions",
            "mutirao_endpoints", "mutirao_webhook_attempts", "mutirao_audit",
        ),
    ),
    "migrator": Role(
        "`mutirao migrate`: owns the tables, and grants to the others",
        "mutirao_migrator",
        {SCHEMA: "CREATE"},
        why={SCHEMA: "whoever makes the tables owns them, and may do everything with them"},
    ),
}  # fmt: skip
