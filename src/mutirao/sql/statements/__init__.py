"""Statements that are written once for all databases.

Those below are loaded when the package is first asked for them: few programs need many.
"""

from typing import TYPE_CHECKING

from mutirao.sql import on_demand

if TYPE_CHECKING:
    from mutirao.sql.statements import (
        carried as carried,
        change as change,
        doctor as doctor,
        endpoints as endpoints,
        fairness as fairness,
        federation as federation,
        finding as finding,
        graphs as graphs,
        inbox as inbox,
        job_admin as job_admin,
        leftovers as leftovers,
        limits as limits,
        ordering as ordering,
        records as records,
        replaying as replaying,
        results as results,
        schedule_changes as schedule_changes,
        schedules as schedules,
        stray_attempts as stray_attempts,
        subscriptions as subscriptions,
        supersede as supersede,
        ticking as ticking,
        topics as topics,
        unfit_subscriptions as unfit_subscriptions,
        uniqueness as uniqueness,
        unreadable_rows as unreadable_rows,
        webhooks as webhooks,
        workers as workers,
    )
else:
    __getattr__ = on_demand(__name__)
