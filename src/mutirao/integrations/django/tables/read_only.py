"""The common part of all models over the views: they are read, and never written."""

from typing import Any, NoReturn

from django.db import models

from mutirao.errors import WrongState
from mutirao.integrations.django import conf

_WRITES = (
    "create", "acreate", "bulk_create", "abulk_create", "bulk_update", "abulk_update",
    "get_or_create", "aget_or_create", "update_or_create", "aupdate_or_create", "update",
    "aupdate", "delete", "adelete", "select_for_update",
)  # fmt: skip


def placed(view: str) -> str:
    """Return a view's name for Django, in the schema that `settings.MUTIRAO` names, if any."""
    schema = conf.read().schema
    # Django quotes a name that has no quotes at its ends: these are between the two parts.
    return view if schema is None else f'{schema}"."{view}'


def _refuse(model: str, what: str) -> NoReturn:
    raise WrongState(
        f"{model}.{what}() was called, and this model only reads what a view shows. Change jobs"
        " through the application, `from mutirao.integrations.django import app`: enqueue,"
        " app.retry, app.cancel, app.change, app.redrive; and app.schedules, app.limits,"
        " app.subscriptions, app.endpoints."
    )


def _refusing(name: str) -> Any:
    def refuse(self: Any, *args: object, **kwargs: object) -> NoReturn:
        _refuse(self.model.__name__, name)

    refuse.__doc__ = "Refuse: views are read."
    refuse.__name__ = name
    return refuse


class ReadOnlyQuerySet(models.QuerySet):  # type: ignore[misc]
    """A query of a view."""

    locals().update({name: _refusing(name) for name in _WRITES})


class ReadOnlyManager(models.Manager.from_queryset(ReadOnlyQuerySet)):  # type: ignore[misc]
    """Reads where the jobs are, unless routers are to say where that is."""

    def get_queryset(self) -> ReadOnlyQuerySet:
        """Return a query in the database that `settings.MUTIRAO` names, if it names one."""
        found: ReadOnlyQuerySet = super().get_queryset()
        alias = conf.read().database
        return found.using(alias) if alias is not None and self._db is None else found


class ViewRow(models.Model):  # type: ignore[misc]
    """A row of a view."""

    objects = ReadOnlyManager()

    class Meta:
        """Of each of these models."""

        abstract = True
        managed = False
        default_permissions: tuple[str, ...] = ("view",)
        base_manager_name = "objects"

    def save(self, *args: object, **kwargs: object) -> None:
        """Refuse: views are read."""
        _refuse(type(self).__name__, "save")

    def delete(self, *args: object, **kwargs: object) -> Any:
        """Refuse: views are read."""
        _refuse(type(self).__name__, "delete")
