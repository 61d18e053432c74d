"""The tables and views for SQLAlchemy Core, and the version of them that a database has.

The views are loaded when somebody first asks the package for them: workers ask none.
"""

from typing import TYPE_CHECKING

from mutirao.sql import on_demand

if TYPE_CHECKING:
    from mutirao.sql.schema import views as views
else:
    __getattr__ = on_demand(__name__)
