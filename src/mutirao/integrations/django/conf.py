"""Reads `settings.MUTIRAO`, the settings of the application of a Django project.

MUTIRAO = {"DATABASE": "default", "RETRY": Retry.exponential(5), "TIMEOUT": 60}
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

NAME = "MUTIRAO"


@dataclass(frozen=True, slots=True)
class Conf:
    """The settings of `settings.MUTIRAO`, by their names in small letters. All may be left out.

    Parameters:
        database: the alias in `DATABASES` of the database with the jobs. None: where the project's
            routers write models of the app `mutirao`, which is `default` without routers.
        modules: the names of the modules of installed apps that have tasks.
        schema, hub, max_payload, retry, timeout, transports: as `Mutirao(…)` takes them.
    """

    database: str | None = None
    modules: tuple[str, ...] = ("tasks",)
    schema: str | None = None
    hub: str | None = None
    max_payload: int | None = None
    retry: Any = None
    timeout: Any = None
    transports: Any = None

    def of_application(self) -> dict[str, Any]:
        """Return what `Mutirao(…)` is given, apart from its database."""
        names = ("schema", "hub", "max_payload", "retry", "timeout", "transports")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def read() -> Conf:
    """Return the settings of the project.

    Raises:
        ImproperlyConfigured: a setting is unknown, or `DATABASE` is no alias of `DATABASES`.
    """
    given = getattr(settings, NAME, {})
    known = {field.name.upper() for field in fields(Conf)}
    if not isinstance(given, Mapping) or (unknown := sorted(set(given) - known)):
        found = f"{given!r:.100}" if not isinstance(given, Mapping) else ", ".join(unknown)
        raise ImproperlyConfigured(
            f"settings.{NAME} has {found}; expected a dictionary with some of"
            f" {', '.join(sorted(known))}"
        )
    conf = Conf(**{name.lower(): value for name, value in given.items()})
    if conf.database is not None and conf.database not in settings.DATABASES:
        raise ImproperlyConfigured(
            f"settings.{NAME}['DATABASE'] is {conf.database!r}; expected an alias of DATABASES:"
            f" {', '.join(settings.DATABASES)}"
        )
    modules: Any = conf.modules
    if isinstance(modules, str) or not isinstance(modules, Iterable):
        raise ImproperlyConfigured(
            f"settings.{NAME}['MODULES'] is {modules!r}; expected names of modules, such as"
            " ['tasks']"
        )
    return replace(conf, modules=tuple(modules))
