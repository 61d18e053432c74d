"""Statements that are written once for all databases.

Those below are loaded when somebody first asks the package for them: few programs need many.
"""

from typing import TYPE_CHECKING

from mutirao.sql import on_demand

if TYPE_CHECKING:
    from mutirao.sql.statements import (
        carried as carried,
    )
    from mutirao.sql.statements import (
        change as change,
    )
    from mutirao.sql.statements import (
        doctor as doctor,
    )
    from mutirao.sql.statements import (
        endpoints as endpoints,
    )
    from mutirao.sql.statements import (
        federation as federation,
    )
    from mutirao.sql.statements import (
        finding as finding,
    )
    from mutirao.sql.statements import (
        inbox as inbox,
    )
    from mutirao.sql.statements import (
        job_admin as job_admin,
    )
    from mutirao.sql.statements import (
        leftovers as leftovers,
    )
    from mutirao.sql.statements import (
        records as records,
    )
    from mutirao.sql.statements import (
        replaying as replaying,
    )
    from mutirao.sql.statements import (
        schedule_changes as schedule_changes,
    )
    from mutirao.sql.statements import (
        stray_attempts as stray_attempts,
    )
    from mutirao.sql.statements import (
        subscriptions as subscriptions,
    )
    from mutirao.sql.statements import (
        supersede as supersede,
    )
    from mutirao.sql.statements import (
        ticking as ticking,
    )
    from mutirao.sql.statements import (
        unfit_subscriptions as unfit_subscriptions,
    )
    from mutirao.sql.statements import (
        unreadable_rows as unreadable_rows,
    )
    from mutirao.sql.statements import (
        webhooks as webhooks,
    )
else:
    __getattr__ = on_demand(__name__)
