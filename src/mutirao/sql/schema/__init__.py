"""The tables and views for SQLAlchemy Core, and the version of them that a database has.

The views are loaded when the package is first asked for them: workers need none.
"""

from typing import TYPE_CHECKING

from mutirao.sql import on_demand

if TYPE_CHECKING:
    from mutirao.sql.schema import views as views
else:
    __getattr__ = on_demand(__name__)
