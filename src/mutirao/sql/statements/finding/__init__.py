"""Finds jobs by a filter, for people and for actions; the same on every database.

Those below are loaded when the package is first asked for them: few programs need many.
"""

from typing import TYPE_CHECKING

from mutirao.sql import on_demand

if TYPE_CHECKING:
    from mutirao.sql.statements.finding import (
        audit as audit,
        figures as figures,
        paging as paging,
        standing as standing,
    )
else:
    __getattr__ = on_demand(__name__)
