"""Named objects in the admin: schedules, limits, subscriptions and endpoints.

What can be changed is changed through the client, which checks it as it checks a program. A change
to what the code declares lasts until the declaration changes.
"""

import json
from datetime import UTC
from typing import Any, ClassVar

from django import forms
from django.utils import timezone

from mutirao.errors import InvalidEndpoint, InvalidSubscription, MutiraoError
from mutirao.integrations.django import models
from mutirao.integrations.django.admin.read_page import ReadPage, action, column, pretty, text
from mutirao.integrations.django.transaction_client import perform
from mutirao.model.limits.limits import Limit
from mutirao.model.row_json import shown


class ClientForm(forms.ModelForm):  # type: ignore[misc]
    """A form whose values the client checks, and writes, when it is saved."""

    needed: tuple[str, ...] = ()  # though the view may be without

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        columns = {field.name: field for field in self.instance._meta.fields}
        for name, field in self.fields.items():
            if name in columns and columns[name].null:
                field.required = name in self.needed

    def clean(self) -> dict[str, Any]:
        """Write the change by the client; its refusal is shown above the form."""
        given: dict[str, Any] = super().clean()
        if self.errors or not self.changed_data:
            return given
        try:
            self.write({name: given[name] for name in self.changed_data})
        except MutiraoError as refused:
            raise forms.ValidationError(str(refused)) from refused
        return given

    def write(self, changed: dict[str, Any]) -> None:
        """Write the change."""
        raise NotImplementedError

    def _post_clean(self) -> None:
        """Leave the row alone: the view shows it again."""


class NamedPage(ReadPage):
    """A page about something with a name, of which some values may be changed."""

    editable: tuple[str, ...] = ()

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        """Return whether the user may change such things, and there is anything to change."""
        return bool(self.editable) and self.may(request, "change")

    def has_steer_permission(self, request: Any) -> bool:
        """Return whether the user may pause, resume and the like."""
        return self.may(request, "change")

    def get_readonly_fields(self, request: Any, obj: Any = None) -> list[str]:
        """Return all that cannot be changed."""
        names = [field.name for field in self.opts.fields]
        return [name for name in names if name not in self.editable]

    def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
        """Record the action in the audit: the client has written it."""
        if form.changed_data:
            self.noted(request, "change" if change else "add", obj, _written)

    def save_related(self, request: Any, form: Any, formsets: Any, change: bool) -> None:
        """Do nothing: there is nothing else."""


async def _written(client: Any, row: Any) -> None:
    """Do nothing more."""


class RemovablePage(NamedPage):
    """A page about something that may be removed as well; its jobs stay."""

    removed_by: str  # the part of the client that does so

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        """Return whether the user may remove such things."""
        return self.may(request, "delete")

    def delete_model(self, request: Any, obj: Any) -> None:
        """Remove it by the client."""
        self.noted(
            request, "remove", obj, lambda c, row: getattr(c, self.removed_by).aremove(row.pk)
        )

    def delete_queryset(self, request: Any, queryset: Any) -> None:
        """Remove each by the client."""
        for each in queryset:
            self.delete_model(request, each)


class ScheduleForm(ClientForm):
    """The times of a schedule."""

    needed = ("timezone", "catch_up", "overlap", "jitter")

    def write(self, changed: dict[str, Any]) -> None:
        """Change it; an empty text or number means none."""
        terms = {name: None if value == "" else value for name, value in changed.items()}
        if terms.get("until") is not None and timezone.is_naive(terms["until"]):
            local = timezone.make_aware(terms["until"], timezone.get_default_timezone())
            terms["until"] = local.astimezone(UTC)
        perform(lambda client: client.schedules.achange(self.instance.name, **terms))

    class Meta:
        """The values that may be changed."""

        model = models.Schedule
        fields = (
            *("cron", "every", "timezone", "catch_up", "overlap", "jitter", "until", "max_runs"),
            "pause_after",
        )
        widgets = dict.fromkeys(("cron", "timezone", "catch_up", "overlap"), forms.TextInput)


class SchedulePage(RemovablePage):
    """The schedules, with their next ticks."""

    removed_by = "schedules"

    form = ScheduleForm
    editable = ScheduleForm.Meta.fields
    list_display = ("name", "task", "cron", "every", "status", "next_at", "last_state", "in_code")
    list_filter = ("status", "origin")
    search_fields = ("name", "task")
    ordering = ("name",)
    actions = ("run_now", "pause", "resume")

    def get_readonly_fields(self, request: Any, obj: Any = None) -> list[str]:
        """Return all that cannot be changed; what may have secrets as it is shown."""
        shown = {"args": "arguments", "last_error": "last_said"}
        names = super().get_readonly_fields(request, obj)
        return [shown.get(name, name) for name in names]

    @column("arguments")
    def arguments(self, row: Any) -> Any:
        """Return the arguments of its jobs, with secrets blanked."""
        return pretty(row.args)

    @column("last error")
    def last_said(self, row: Any) -> str:
        """Return the error of its last job."""
        return text(row.last_error)

    @action("Make a job of the selected schedules now", "steer")
    def run_now(self, request: Any, queryset: Any) -> None:
        """Make a job of each."""
        self.each(
            request, queryset, "run", "jobs made", lambda c, row: c.schedules.arun_now(row.name)
        )

    @action("Pause the selected schedules", "steer")
    def pause(self, request: Any, queryset: Any) -> None:
        """Pause each."""
        why = f"by {request.user.get_username()} in the admin"
        self.each(
            request,
            queryset,
            "pause",
            "paused",
            lambda c, row: c.schedules.apause(row.name, reason=why),
        )

    @action("Resume the selected schedules", "steer")
    def resume(self, request: Any, queryset: Any) -> None:
        """Resume each."""
        self.each(
            request, queryset, "resume", "resumed", lambda c, row: c.schedules.aresume(row.name)
        )


def _without_empty(changed: dict[str, Any]) -> dict[str, Any]:
    """Return values as the client has them: None where nothing is written; a filter as it reads."""
    terms = {name: None if value == "" else value for name, value in changed.items()}
    for name in ("url", "secret"):
        if terms.get(name, "stays") is None:
            del terms[name]
    if (filter := terms.get("filter")) is not None:
        try:
            terms["filter"] = json.loads(filter)
        except ValueError as unfit:
            raise InvalidSubscription(f"the filter is no JSON: {unfit}") from unfit
    return terms


_NUMBERS = ("most", "per", "burst")


class LimitForm(ClientForm):
    """The numbers of a limit."""

    needed = ("most",)

    def write(self, changed: dict[str, Any]) -> None:
        """Put the limit again, with the changes."""
        row = self.instance
        numbers = {name: changed.get(name, getattr(row, name)) for name in _NUMBERS}
        limit = Limit(**numbers, by=row.by, name=row.name)
        perform(lambda client: client.limits.aput(limit, queue=row.queue, task=row.task))

    class Meta:
        """The values that may be changed."""

        model = models.Limit
        fields = _NUMBERS


class LimitPage(NamedPage):
    """The limits and pauses; of one by an argument, a row for each value that is in use."""

    form = LimitForm
    editable = _NUMBERS
    list_display = ("name", "queue", "task", "by", "key", "most", "per", "paused", "running",
                    "parked")  # fmt: skip
    list_filter = ("paused", "origin")
    search_fields = ("name", "queue", "task")
    ordering = ("name",)
    actions = ("remove",)

    def get_object(self, request: Any, object_id: str, from_field: Any = None) -> Any:
        """Return the limit: each of its rows has its numbers."""
        return self.get_queryset(request).filter(name=object_id).first()

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        """Return False for a pause, which has no numbers."""
        return super().has_change_permission(request, obj) and not (obj and obj.paused)

    @action("Remove the selected limits and pauses", "steer")
    def remove(self, request: Any, queryset: Any) -> None:
        """Remove each; jobs that a pause held continue."""
        named = {row.name: row for row in queryset}
        self.each(
            request, named.values(), "remove", "removed", lambda c, row: c.limits.aremove(row.name)
        )


_OF_SUBSCRIPTION = (
    *("topic", "tenant", "group", "filter", "order_by", "when_dead", "queue", "priority"),
)


class SubscriptionForm(ClientForm):
    """The publications that a subscription receives, and the options of its deliveries."""

    needed = ("topic", "queue", "priority")

    def write(self, changed: dict[str, Any]) -> None:
        """Change it; an empty text means none."""
        terms = _without_empty(changed)
        perform(lambda client: client.subscriptions.achange(self.instance.pk, **terms))

    class Meta:
        """The values that may be changed."""

        model = models.Subscription
        fields = _OF_SUBSCRIPTION
        widgets: ClassVar = dict.fromkeys(
            ("topic", "tenant", "group", "order_by", "when_dead", "queue"), forms.TextInput
        )


class SubscriptionPage(RemovablePage):
    """Which handlers receive which publications; an endpoint's subscription has its own page."""

    removed_by = "subscriptions"

    form = SubscriptionForm
    editable = _OF_SUBSCRIPTION

    list_display = ("id", "topic", "task", "kind", "active", "waiting", "running", "lag", "in_code")
    list_filter = ("kind", "active", "origin")
    search_fields = ("id", "topic", "task")
    ordering = ("id",)
    actions = ("enable", "disable")

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        """Return False for an endpoint's."""
        return super().has_change_permission(request, obj) and not (obj and obj.kind == "endpoint")

    @action("Enable the selected subscriptions", "steer")
    def enable(self, request: Any, queryset: Any) -> None:
        """Enable each."""
        self.each(
            request, queryset, "enable", "enabled", lambda c, row: c.subscriptions.aenable(row.id)
        )

    @action("Disable the selected subscriptions", "steer")
    def disable(self, request: Any, queryset: Any) -> None:
        """Disable each; publications of the meantime are not held for it."""
        self.each(
            request,
            queryset,
            "disable",
            "disabled",
            lambda c, row: c.subscriptions.adisable(row.id),
        )


_KEY = "whsec_…, or 24 to 64 bytes."
_STAYS = "Not shown. Empty: it stays as it is."


def _hidden() -> forms.PasswordInput:
    return forms.PasswordInput(render_value=False)


class EndpointForm(ClientForm):
    """An existing endpoint. Its URL and its secret are not shown, and stay if left empty."""

    needed = ("topics",)
    topics = forms.CharField(help_text="Topics, or patterns such as order.*, with spaces between.")
    url = forms.URLField(assume_scheme="https", required=False, help_text=_STAYS)
    secret = forms.CharField(widget=_hidden(), required=False, help_text=f"{_KEY} {_STAYS}")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if said := self.instance.topics:
            listed = shown(said)
            self.initial["topics"] = " ".join(listed) if isinstance(listed, list) else said

    def write(self, changed: dict[str, Any]) -> None:
        """Change it."""
        terms = _without_empty(changed)
        if "topics" in terms:
            terms["topics"] = terms["topics"].split()
        perform(lambda client: client.endpoints.achange(self.instance.pk, **terms))

    class Meta:
        """The values that may be changed."""

        model = models.Endpoint
        fields = (
            *("topics", "tenant", "group", "filter", "order_by", "when_dead", "method", "body"),
            *("rate", "concurrency", "connect", "first_byte", "whole", "redirects", "accepts_3xx"),
        )
        widgets: ClassVar = dict.fromkeys(
            ("tenant", "group", "order_by", "when_dead", "method", "body"), forms.TextInput
        )


class NewEndpointForm(ClientForm):
    """An endpoint that is added. Neither its URL nor its secret are shown later."""

    needed = ("topics",)
    topics = forms.CharField(help_text="Topics, or patterns such as order.*, with spaces between.")
    url = forms.URLField(assume_scheme="https")
    secret = forms.CharField(widget=_hidden(), help_text=_KEY)

    def write(self, changed: dict[str, Any]) -> None:
        """Put it; an existing one of this name is not replaced."""
        self.instance.pk = id = changed["id"]
        if models.Endpoint.objects.filter(pk=id).exists():
            raise InvalidEndpoint(
                f"there is an endpoint {id!r} already; give this one another name"
            )
        terms = {name: changed[name] for name in ("tenant", "group") if changed.get(name)}
        topics = changed["topics"].split()
        perform(
            lambda client: client.endpoints.aput(
                id, changed["url"], topics, secret=changed["secret"], **terms
            )
        )

    class Meta:
        """The fields of its form."""

        model = models.Endpoint
        fields = ("id", "topics", "tenant", "group")
        widgets: ClassVar = dict.fromkeys(fields, forms.TextInput)


_ASKED = ("id", "url", "topics", "secret", "tenant", "group")


class EndpointPage(RemovablePage):
    """Where webhooks go; URLs and secrets are not shown."""

    removed_by = "endpoints"

    form = EndpointForm
    editable = EndpointForm.Meta.fields

    def has_add_permission(self, request: Any) -> bool:
        """Return whether the user may add endpoints."""
        return self.may(request, "add")

    def get_form(self, request: Any, obj: Any = None, change: bool = False, **how: Any) -> Any:
        """Return the form of a new one, or of an existing one."""
        if obj is None:
            how["form"] = NewEndpointForm
        return super().get_form(request, obj, change, **how)

    def get_fieldsets(self, request: Any, obj: Any = None) -> Any:
        """Return the fields of the form for a new one, and all shown fields for others."""
        if obj is None:
            return [(None, {"fields": _ASKED})]
        if not self.has_change_permission(request, obj):
            return super().get_fieldsets(request, obj)
        [(title, said)] = super().get_fieldsets(request, obj)
        shown = [name for name in said["fields"] if name not in ("url", "secret")]
        return [(title, {**said, "fields": ["url", "secret", *shown]})]

    def get_readonly_fields(self, request: Any, obj: Any = None) -> list[str]:
        """Return nothing for a new one."""
        return super().get_readonly_fields(request, obj) if obj else []

    list_display = ("id", "host", "topics", "active", "paused", "breaker", "held", "last_failure")
    list_filter = ("active", "paused")
    search_fields = ("id", "host")
    ordering = ("id",)
    actions = ("pause", "resume", "test")

    @action("Pause the selected endpoints", "steer")
    def pause(self, request: Any, queryset: Any) -> None:
        """Pause each; its deliveries wait."""
        self.each(request, queryset, "pause", "paused", lambda c, row: c.endpoints.apause(row.id))

    @action("Resume the selected endpoints", "steer")
    def resume(self, request: Any, queryset: Any) -> None:
        """Resume each."""
        self.each(
            request, queryset, "resume", "resumed", lambda c, row: c.endpoints.aresume(row.id)
        )

    @action("Send a test to the selected endpoints", "steer")
    def test(self, request: Any, queryset: Any) -> None:
        """Send each a test event."""
        self.each(
            request,
            queryset,
            "test",
            "tests on their way",
            lambda c, row: c.endpoints.atest(row.id),
        )
