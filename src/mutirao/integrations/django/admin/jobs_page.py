"""Jobs in the admin: the newest of those that match a filter, and actions on them.

The search box takes the filters of docs/filters.md. Which jobs these are is asked of the client, as
the dashboard does: it reads by index, where a view of millions of jobs would be sorted as a whole.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpResponse
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html, format_html_join

from mutirao.errors import InvalidFilter, MutiraoError
from mutirao.integrations.django.admin.read_page import ReadPage, action, column, pretty, text, who
from mutirao.integrations.django.project import application
from mutirao.integrations.django.transaction_client import outside_requests_transaction, perform
from mutirao.model.audit.actions import Action, ActionKind, AuditRecord
from mutirao.model.blanking import Blanking
from mutirao.model.filters.filter import Filter, parse
from mutirao.model.jobs.job import JobState
from mutirao.model.jobs.records import JobFilter
from mutirao.tasks.options import change_of

MOST_LISTED = 900  # jobs; below the number of values that an old SQLite takes
_WINDOWS = 5  # how many times as many jobs are looked at, where no index knows which match
_DONE = {
    ActionKind.RETRY: "due now",
    ActionKind.CANCEL: "cancelled",
    ActionKind.REDRIVE: "enqueued again",
    ActionKind.CHANGE: "changed",
}


class _Term(admin.SimpleListFilter):  # type: ignore[misc]
    """A filter at the side, which becomes a term of the filter's text."""

    def queryset(self, request: Any, queryset: Any) -> Any:
        """Leave it to the search, which has all terms together."""
        return queryset


class _StateTerm(_Term):
    title, parameter_name = "state", "state"

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(state), str(state)) for state in JobState]


class _QueueTerm(_Term):
    title, parameter_name = "queue", "queue"

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:
        figures = perform(lambda client: client.reading.afigures())
        return [(each, each) for each in sorted({figure.queue for figure in figures})]


class _TaskTerm(_Term):
    title, parameter_name = "task", "task"

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:
        return [(each, each) for each in sorted(application().tasks)]


class ChangeForm(forms.Form):  # type: ignore[misc]
    """New values of waiting jobs; empty fields stay unchanged."""

    priority = forms.IntegerField(
        required=False, min_value=-32768, max_value=32767, help_text="Smaller runs first."
    )
    queue = forms.CharField(required=False, max_length=200)
    delay = forms.DurationField(required=False, help_text="From now: 90, 15:00, 1 00:00:00.")
    max_attempts = forms.IntegerField(required=False, min_value=1)

    def clean(self) -> dict[str, Any]:
        """Refuse a form without any value."""
        given = {name: value for name, value in super().clean().items() if value not in (None, "")}
        if not given and not self.errors:
            raise forms.ValidationError("Give at least one new value.")
        return given


class JobAdminPage(ReadPage):
    """The newest jobs of a filter."""

    list_display = (
        *("id", "task", "queue", "priority", "state", "attempt", "run_at", "finished_at"),
        *("tenant", "error_type"),
    )
    list_filter = (_StateTerm, _QueueTerm, _TaskTerm)
    search_fields = ("id",)
    search_help_text = "A filter: state:dead task:send_* queue:mail tenant:acme older:2h"
    ordering = ("-id",)
    sortable_by = ()
    actions = ("retry", "cancel", "redrive", "change")
    readonly_fields = ("arguments", "why", "attempts")
    fieldsets = (
        (None, {"fields": ("id", "task", "queue", "priority", "state", "why", "arguments")}),
        ("Times", {"fields": ("enqueued_at", "run_at", "started_at", "finished_at", "duration")}),
        ("Attempts", {"fields": ("attempt", "max_attempts", "timeout", "worker", "attempts")}),
        ("Whose", {"fields": ("key", "tags", "tenant", "group", "redrive_of", "graph", "stage")}),
    )

    change_list_template = "admin/mutirao/jobs.html"

    @outside_requests_transaction
    def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
        """Show the list, with a link to the dashboard where the project has that in its URLs."""
        try:
            dashboard = reverse("mutirao:dashboard", kwargs={"path": ""})
        except NoReverseMatch:
            dashboard = None
        return super().changelist_view(request, {"dashboard": dashboard, **(extra_context or {})})

    # Which jobs

    def get_search_results(self, request: Any, queryset: Any, search_term: str) -> Any:
        """Return the newest jobs of the filter, and show an error in it."""
        try:
            ids = _newest(_asked(request, search_term))
        except InvalidFilter as unfit:
            self.message_user(request, str(unfit), messages.ERROR)
            return queryset.none(), False
        if len(ids) == MOST_LISTED and request.method == "GET":
            self.message_user(
                request,
                f"These are the newest {MOST_LISTED} jobs; a narrower filter shows others.",
                messages.INFO,
            )
        return queryset.filter(id__in=ids), False

    # The fields that are shown of one job

    @column("arguments")
    def arguments(self, job: Any) -> Any:
        """Return the arguments, with secrets blanked."""
        return pretty(job.args)

    @column("why it is not running")
    def why(self, job: Any) -> Any:
        """Return the reasons, what decides most first."""
        reasons = perform(lambda client: client.reading.awhy(job.id))
        return format_html_join("", "{}<br>", ((each.text,) for each in reasons))

    @column("attempts that have ended")
    def attempts(self, job: Any) -> Any:
        """Return a table of the attempts."""
        rows = format_html_join(
            "",
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td><pre>{}</pre></td></tr>",
            (
                (each.attempt, each.outcome, each.finished_at, each.duration,
                 text(each.error or each.message))
                for each in job.attempts.order_by("run")
            ),
        )  # fmt: skip
        head = ("#", "outcome", "finished at", "seconds", "error")
        titles = format_html_join("", "<th>{}</th>", ((each,) for each in head))
        return format_html("<table><thead><tr>{}</tr></thead>{}</table>", titles, rows)

    # The actions

    def has_retry_permission(self, request: Any) -> bool:
        """Return whether jobs may be made due."""
        return self.may(request, "retry")

    def has_cancel_permission(self, request: Any) -> bool:
        """Return whether jobs may be cancelled."""
        return self.may(request, "cancel")

    def has_redrive_permission(self, request: Any) -> bool:
        """Return whether jobs may be enqueued again."""
        return self.may(request, "redrive")

    def has_alter_permission(self, request: Any) -> bool:
        """Return whether jobs may be changed; `change` would open them as a form."""
        return self.may(request, "change")

    @action("Run the selected jobs now", "retry")
    def retry(self, request: Any, queryset: Any) -> None:
        """Make jobs due now."""
        self._act(request, queryset, Action(ActionKind.RETRY))

    @action("Cancel the selected jobs", "cancel")
    def cancel(self, request: Any, queryset: Any) -> None:
        """Cancel jobs, also running ones."""
        self._act(request, queryset, Action(ActionKind.CANCEL))

    @action("Enqueue the selected jobs again", "redrive")
    def redrive(self, request: Any, queryset: Any) -> None:
        """Enqueue finished jobs again."""
        self._act(request, queryset, Action(ActionKind.REDRIVE))

    @action("Change the selected jobs …", "alter")
    def change(self, request: Any, queryset: Any) -> HttpResponse | None:
        """Ask for new values, then give jobs these."""
        form = ChangeForm(request.POST if "apply" in request.POST else None)
        if form.is_valid():
            new = change_of(form.cleaned_data)
            self._act(request, queryset, Action(ActionKind.CHANGE, new))
            return None
        context = {
            **self.admin_site.each_context(request),
            "title": "Change jobs",
            "opts": self.opts,
            "form": form,
            "ids": queryset.values_list("id", flat=True),
        }
        return TemplateResponse(request, "admin/mutirao/change_jobs.html", context)

    def _act(self, request: Any, queryset: Any, action: Action) -> None:
        ids = tuple(queryset.values_list("id", flat=True))
        by = who(request)
        try:
            done = perform(lambda client: client.actions.arun(action, by=by, ids=ids))
        except MutiraoError as refused:
            self.message_user(request, str(refused), messages.ERROR)
            return
        level = messages.SUCCESS if done.done == len(ids) else messages.WARNING
        self.message_user(request, _report(done), level)


def _asked(request: Any, search_term: str) -> Filter:
    """Return the filter of the search box and of the sides."""
    wanted, blanking = parse(search_term), Blanking()
    if any(blanking.is_secret(name) for each in wanted.terms for name in each.name.split(".")):
        raise InvalidFilter(
            "no job is found by an argument whose name says that it is a secret; leave it out"
        )
    for name in ("state", "queue", "task"):
        if value := request.GET.get(name):
            wanted += Filter().having(name, value)
    return wanted


def _newest(wanted: Filter) -> Sequence[int]:
    chosen = wanted.at(datetime.now(UTC), limit=None)
    ids: list[int] = []
    before: int | None = None
    for _ in range(_WINDOWS):
        size = MOST_LISTED - len(ids)
        found, before = perform(partial(_matching, chosen, before, size))
        ids += found
        if before is None or len(ids) == MOST_LISTED:
            break
    return ids


async def _matching(
    chosen: JobFilter, before: int | None, size: int, client: Any
) -> tuple[Sequence[int], int | None]:
    found: tuple[Sequence[int], int | None] = await client.store.audit.matching_ids(
        chosen, before=before, size=size
    )
    return found


def _report(done: AuditRecord) -> str:
    """Return how many jobs an action reached, and in which states it passed others over."""
    said = f"{done.done} of {done.matched} jobs {_DONE[done.action]}"
    passed = ", ".join(f"{jobs} {state}" for state, jobs in sorted(done.why.items()))
    return f"{said}; passed over: {passed}" if passed else said
