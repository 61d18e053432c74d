"""Which schedules of the code are kept by a broker instead of the database."""

from collections.abc import Collection, Iterable, Mapping

from mutirao.client.publishing import alone, to_message
from mutirao.model.schedule import Schedule
from mutirao.model.token import check_kept
from mutirao.ports import Transport
from mutirao.ports.brokers import grouped
from mutirao.ports.tokens import KeepsSchedules


def keeper(schedule: Schedule, transports: Mapping[str, Transport]) -> KeepsSchedules | None:
    """Return the transport that keeps a schedule: that of its jobs, if they are by it alone."""
    transport = alone(transports, schedule.job.queue)
    return transport if isinstance(transport, KeepsSchedules) else None


def kept_schedules(
    declared: Iterable[Schedule],
    transports: Mapping[str, Transport],
    tasks: Collection[str] | None = None,
) -> list[tuple[KeepsSchedules, list[Schedule]]]:
    """Return the schedules that brokers keep, by transport. `tasks`: of these only.

    Raises:
        InvalidSchedule, InvalidJob: a schedule or its job has what only a database can keep.
    """
    found: list[tuple[Schedule, KeepsSchedules]] = []
    for each in declared:
        transport = keeper(each, transports)
        if transport is not None and (tasks is None or each.job.task in tasks):
            check_kept(each)
            to_message(each.job, transport)
            found.append((each, transport))
    groups = grouped(found, lambda each: each[1])
    return [(transport, [each for each, _ in kept]) for transport, kept in groups]
