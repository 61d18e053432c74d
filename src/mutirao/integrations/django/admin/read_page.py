"""The common part of the admin's pages: rows are read, and counted up to a bound."""

import json
from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from typing import Any, TypeVar

from django.contrib import admin, messages
from django.core.paginator import Paginator
from django.utils.html import format_html

from mutirao.errors import MutiraoError
from mutirao.integrations.django.transaction_client import outside_requests_transaction, perform
from mutirao.model.audit.actions import MAX_WHO, About
from mutirao.model.blanking import Blanking
from mutirao.model.display import one_line

F = TypeVar("F", bound=Callable[..., Any])
MOST_COUNTED = 10_000


def action(description: str, permission: str) -> Callable[[F], F]:
    """Return a decorator that makes a method an action, for users with a permission."""
    marked: Callable[[F], F] = admin.action(description=description, permissions=[permission])
    return marked


def column(description: str) -> Callable[[F], F]:
    """Return what makes a method something that is shown."""
    marked: Callable[[F], F] = admin.display(description=description)
    return marked


class CappedPaginator(Paginator):  # type: ignore[misc]
    """Counts no more rows than a page can show in a reasonable time."""

    @cached_property
    def count(self) -> int:
        """The number of rows, up to `MOST_COUNTED`."""
        counted: int = self.object_list.order_by()[:MOST_COUNTED].count()
        return counted


def who(request: Any) -> str:
    """Return the name of the acting user, for the audit."""
    return one_line(str(request.user.get_username()))[:MAX_WHO] or "admin"


def pretty(value: Any) -> Any:
    """Return a value of JSON with secrets blanked."""
    shown = json.dumps(Blanking().value(value), indent=2, ensure_ascii=False)
    return format_html("<pre>{}</pre>", shown)


def text(value: str | None) -> str:
    """Return a text with what looks like a secret in it blanked."""
    return Blanking().text(value or "")


class ReadPage(admin.ModelAdmin):  # type: ignore[misc]
    """A page about a view: nothing is added, changed or deleted as a row."""

    paginator = CappedPaginator
    show_full_result_count = False
    list_per_page = 100

    def has_add_permission(self, request: Any) -> bool:
        """Return False: rows are made by enqueueing."""
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        """Return False: changes are made by actions."""
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        """Return False: history is pruned by workers."""
        return False

    def may(self, request: Any, action: str) -> bool:
        """Return whether the caller has a permission on this model."""
        return bool(request.user.has_perm(f"mutirao.{action}_{self.opts.model_name}"))

    @outside_requests_transaction
    def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
        """Show the list, or run the chosen action."""
        return super().changelist_view(request, extra_context)

    def each(
        self,
        request: Any,
        queryset: Any,
        command: str,
        done: str,
        do: Callable[[Any, Any], Awaitable[object]],
    ) -> None:
        """Act on each chosen row, and show how many there were.

        Parameters:
            command: its name in the audit.
            done: their number, as shown.
        """
        count = 0
        for row in queryset:
            try:
                self.noted(request, command, row, do)
            except MutiraoError as refused:
                self.message_user(request, f"{row}: {refused}", messages.ERROR)
            else:
                count += 1
        if count:
            self.message_user(request, f"{count} {done}", messages.SUCCESS)

    def noted(
        self, request: Any, command: str, row: Any, do: Callable[[Any, Any], Awaitable[object]]
    ) -> None:
        """Do something to a row, and record it and its user in the audit."""
        about = About(command, self.opts.model_name, str(row.pk))
        perform(partial(_noted, who(request), about, do, row))


async def _noted(
    by: str, about: About, do: Callable[[Any, Any], Awaitable[object]], row: Any, client: Any
) -> object:
    return await client.actions.anote(by, about, partial(do, client, row))


class WorkerPage(ReadPage):
    """The workers that are registered."""

    list_display = ("name", "host", "pid", "alive", "running", "queues", "version", "beat_at")
    list_filter = ("alive",)
    ordering = ("-id",)


class GraphPage(ReadPage):
    """The graphs, with their jobs counted."""

    list_display = (
        *("id", "name", "state", "stage", "jobs", "blocked", "waiting", "running", "succeeded"),
        *("dead", "cancelled", "created_at"),
    )
    ordering = ("-id",)


class AuditPage(ReadPage):
    """The audit: the actions of users, and on how many jobs."""

    exclude = ("change", "filter", "error")
    readonly_fields = ("new_values", "of_filter", "why_not")

    @column("change")
    def new_values(self, row: Any) -> str:
        """Return the new values of jobs, or the action on another object."""
        return text(row.change)

    @column("filter")
    def of_filter(self, row: Any) -> str:
        """Return the filter of the jobs."""
        return text(row.filter)

    @column("error")
    def why_not(self, row: Any) -> str:
        """Return why it failed."""
        return text(row.error)

    list_display = ("id", "who", "action", "state", "matched", "done", "passed_over", "started_at")
    ordering = ("-id",)
